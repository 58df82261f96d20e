from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from genius.data.mbeir import Tree
from genius.data.records import ImageBytes, ImageFile, Item, Query
from genius.encode.contents import Contents
from genius.encode.features import Features
from genius.encode.pipeline import encode
from genius.errors import DamagedError, MismatchError
from tests.miniature import COLOURS, MISSING
from tests.pictures import square

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Toy:
    """An encoder that tells colours and lengths, and writes down what it was asked to encode."""

    diary: Path
    fingerprint: str = "toy"
    image_width: int = 3
    text_width: int = 2

    @property
    def image_parts(self) -> dict[str, int]:
        return {"colour": 3}

    @property
    def text_parts(self) -> dict[str, int]:
        return {"length": 2}

    def images(self, pictures: list[Image.Image]) -> np.ndarray:
        self._note(*("x".join(map(str, picture.getpixel((0, 0)))) for picture in pictures))  # type: ignore[arg-type]
        return np.array([np.asarray(picture, np.float32).mean((0, 1)) for picture in pictures], np.float32)

    def texts(self, texts: list[str]) -> np.ndarray:
        self._note(*texts)
        return np.array([[len(text), len(text.split())] for text in texts], np.float32)

    def _note(self, *names: str) -> None:
        with self.diary.open("a") as file:
            file.writelines(f"{name}\n" for name in names)


@dataclass(frozen=True)
class ToyLoader:
    diary: Path
    fingerprint: str = "toy"

    def __call__(self, threads: int) -> Toy:
        return Toy(self.diary, self.fingerprint)


def contents_of(tree: Path) -> Contents:
    contents = Contents()
    contents.add_tree(Tree(tree))
    return contents


@pytest.mark.parametrize("workers", [1, 2])
def test_a_tree_becomes_features(miniature: Path, tmp_path: Path, workers: int) -> None:
    contents = contents_of(miniature)
    diary = tmp_path / "diary"
    report = encode(contents, ToyLoader(diary), tmp_path / "out", cache=tmp_path / "cache", workers=workers)
    assert [MISSING in str(error) for error in report.failures] == [
        True
    ]  # one missing picture does not stop it
    features = Features.open(tmp_path / "out", Toy(diary))
    names = [f"mbeir_images/squares/{number}.jpg" for number in range(len(COLOURS))]
    rows = features.image_rows([*names, None, MISSING])
    assert rows[-2:].tolist() == [-1, -1]
    assert features.images[rows[0]].tolist() == pytest.approx([254, 0, 0], abs=1)
    row = features.text_rows(["A red square.", "never seen"])
    assert row[1] == -1
    assert features.texts[row[0]].tolist() == [13, 3]
    noted = diary.read_text().splitlines()
    assert len(noted) == len(set(noted))


def test_nothing_is_encoded_twice_across_corpora_and_runs(miniature: Path, tmp_path: Path) -> None:
    diary, cache = tmp_path / "diary", tmp_path / "cache"
    encode(contents_of(miniature), ToyLoader(diary), tmp_path / "one", cache=cache)
    before = diary.read_text()
    report = encode(contents_of(miniature), ToyLoader(diary), tmp_path / "two", cache=cache)
    assert (report.encoded, diary.read_text()) == (0, before)
    other = Contents()
    red = (miniature / "mbeir_images/squares/0.jpg").read_bytes()
    other.add_items(
        [Item("x", "A red square.", ImageBytes(red, "another name")), Item("y", "Something new.")]
    )
    report = encode(other, ToyLoader(diary), tmp_path / "three", cache=cache)
    assert (report.encoded, report.known) == (1, 2)  # the same picture under another name is known
    assert diary.read_text().removeprefix(before) == "Something new.\n"


def test_instructions_apart_or_in_front() -> None:
    query = Query(text="a dog", instruction="find a photo")
    apart, together = Contents(apart=True), Contents(apart=False)
    apart.add_queries([query])
    together.add_queries([query])
    assert list(apart.texts) == ["A dog.", "Find a photo."]
    assert list(together.texts) == ["Find a photo. A dog."]


def test_features_of_another_encoder_are_refused(miniature: Path, tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    encode(contents_of(miniature), ToyLoader(diary), tmp_path / "out", cache=tmp_path / "cache")
    with pytest.raises(MismatchError, match="holds features of the encoder toy, but here other is used"):
        Features.open(tmp_path / "out", Toy(diary, "other"))


def test_a_flipped_byte_in_features(miniature: Path, tmp_path: Path) -> None:
    encode(contents_of(miniature), ToyLoader(tmp_path / "d"), tmp_path / "out", cache=tmp_path / "cache")
    content = bytearray((tmp_path / "out/images.npy").read_bytes())
    content[-1] ^= 4
    (tmp_path / "out/images.npy").write_bytes(content)
    with pytest.raises(DamagedError, match=r"images.npy is damaged"):
        Features.open(tmp_path / "out")


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.encode import test_pipeline as pipeline
from genius.encode.feature_cache import FeatureCache
add, left = FeatureCache.add, int(sys.argv[3])
def killing(self, keys, rows):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    add(self, keys, rows)
FeatureCache.add = killing
import genius.encode.pipeline as module
module.IMAGE_BATCH = module.TEXT_BATCH = 2
folder = Path(sys.argv[2])
contents = pipeline.contents_of(Path(sys.argv[1]))
pipeline.encode(contents, pipeline.ToyLoader(folder / "diary"), folder / "out", cache=folder / "cache")
"""


@pytest.mark.slow
def test_killed_ten_times_it_goes_on_and_encodes_nothing_twice(miniature: Path, tmp_path: Path) -> None:
    """Each run is killed when it is about to keep a batch, so just that batch is encoded once more."""
    killed = 0
    for _ in range(10):
        command = [sys.executable, "-c", KILLED, str(miniature), str(tmp_path), "2"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        killed += done.returncode == -signal.SIGKILL
    assert killed == 10
    report = encode(
        contents_of(miniature), ToyLoader(tmp_path / "diary"), tmp_path / "out", cache=tmp_path / "cache"
    )
    assert report.known == killed * 2 * 2
    diary = (tmp_path / "diary").read_text().splitlines()
    assert len(diary) - len(set(diary)) <= killed * 2
    encode(
        contents_of(miniature), ToyLoader(tmp_path / "other"), tmp_path / "fresh", cache=tmp_path / "empty"
    )
    for name in ("images.npy", "texts.npy", "images.jsonl", "texts.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


def test_an_unreadable_picture_among_many(tmp_path: Path) -> None:
    (tmp_path / "good.jpg").write_bytes(square("red"))
    (tmp_path / "bad.jpg").write_bytes(square("red")[:100])
    contents = Contents()
    contents.add_items(
        Item(name, image=ImageFile(str(tmp_path), name)) for name in ("good.jpg", "bad.jpg", "none.jpg")
    )
    report = encode(contents, ToyLoader(tmp_path / "d"), tmp_path / "out", cache=tmp_path / "cache")
    assert sorted("image bad.jpg is damaged" in str(error) for error in report.failures) == [False, True]
    assert Features.open(tmp_path / "out").image_rows(["good.jpg", "bad.jpg", "none.jpg"]).tolist() == [
        0,
        -1,
        -1,
    ]
