from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from genius.data.records import ImageBytes, ImageFile, Item
from genius.encode.features import Features
from genius.encode.inputs import EncoderInputs
from genius.encode.pipeline import encode
from tests.encode.toy_encoder import ToyEncoder, ToyLoader, inputs_of
from tests.miniature import COLOURS, MISSING
from tests.pictures import square

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("workers", [1, 2])
def test_a_tree_becomes_features(miniature: Path, tmp_path: Path, workers: int) -> None:
    diary = tmp_path / "diary"
    report = encode(
        inputs_of(miniature), ToyLoader(diary), tmp_path / "out", cache=tmp_path / "cache", workers=workers
    )
    assert [MISSING in str(error) for error in report.failures] == [True]  # a missing image does not stop it
    features = Features.open(tmp_path / "out", ToyEncoder(diary))
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
    encode(inputs_of(miniature), ToyLoader(diary), tmp_path / "one", cache=cache)
    before = diary.read_text()
    report = encode(inputs_of(miniature), ToyLoader(diary), tmp_path / "two", cache=cache)
    assert (report.encoded, diary.read_text()) == (0, before)
    other = EncoderInputs()
    red = (miniature / "mbeir_images/squares/0.jpg").read_bytes()
    other.add_items(
        [Item("x", "A red square.", ImageBytes(red, "another name")), Item("y", "Something new.")]
    )
    report = encode(other, ToyLoader(diary), tmp_path / "three", cache=cache)
    assert (report.encoded, report.known) == (1, 2)  # the same image under another name is known
    assert diary.read_text().removeprefix(before) == "Something new.\n"


KILLED = """
import os, signal, sys
from pathlib import Path
from genius.encode import pipeline
from genius.encode.feature_cache import FeatureCache
from tests.encode.toy_encoder import ToyLoader, inputs_of
add, left = FeatureCache.add, int(sys.argv[3])
def killing(self, keys, rows):
    global left
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    left -= 1
    add(self, keys, rows)
FeatureCache.add = killing
pipeline.IMAGE_BATCH = pipeline.TEXT_BATCH = 2
inputs, folder = inputs_of(Path(sys.argv[1])), Path(sys.argv[2])
pipeline.encode(inputs, ToyLoader(folder / "diary"), folder / "out", cache=folder / "cache")
"""


@pytest.mark.slow
def test_killed_ten_times_it_resumes_and_encodes_nothing_twice(miniature: Path, tmp_path: Path) -> None:
    """Each run is killed when it is about to store a batch, so just that batch is encoded once more."""
    killed = 0
    for _ in range(10):
        command = [sys.executable, "-c", KILLED, str(miniature), str(tmp_path), "2"]
        done = subprocess.run(command, cwd=ROOT, check=False)
        killed += done.returncode == -signal.SIGKILL
    assert killed == 10
    report = encode(
        inputs_of(miniature), ToyLoader(tmp_path / "diary"), tmp_path / "out", cache=tmp_path / "cache"
    )
    assert report.known == killed * 2 * 2
    diary = (tmp_path / "diary").read_text().splitlines()
    assert len(diary) - len(set(diary)) <= killed * 2
    encode(inputs_of(miniature), ToyLoader(tmp_path / "other"), tmp_path / "fresh", cache=tmp_path / "empty")
    for name in ("images.npy", "texts.npy", "images.jsonl", "texts.jsonl"):
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "fresh" / name).read_bytes()


def test_an_unreadable_image_among_many(tmp_path: Path) -> None:
    (tmp_path / "good.jpg").write_bytes(square("red"))
    (tmp_path / "bad.jpg").write_bytes(square("red")[:100])
    names = ["good.jpg", "bad.jpg", "none.jpg"]
    inputs = EncoderInputs()
    inputs.add_items(Item(name, image=ImageFile(str(tmp_path), name)) for name in names)
    report = encode(inputs, ToyLoader(tmp_path / "diary"), tmp_path / "out", cache=tmp_path / "cache")
    assert sorted("image bad.jpg is damaged" in str(error) for error in report.failures) == [False, True]
    assert Features.open(tmp_path / "out").image_rows(names).tolist() == [0, -1, -1]
