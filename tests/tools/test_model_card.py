"""The model card: counts by licence, figures of several seeds, and what has not been measured."""

from __future__ import annotations

import json
import lzma
import sys
from pathlib import Path

import pytest

from tools import model_card

PHOTOS = [
    {"split": "train", "captions": ["a", "b"], "photo_licence_id": 4},
    {"split": "train", "captions": ["c"], "photo_licence_id": 2},
    {"split": "train", "captions": ["d"]},
    {"split": "test", "captions": ["e"], "photo_licence_id": 7},
]


def figures(path: Path, hit: float) -> Path:
    """The file of a benchmark, for one training."""
    row = {"task": "coco_task0", "system": "dense", "hit@1": 0.1, "hit@5": hit, "hit@10": 0.9}
    path.write_text(json.dumps(row) + "\n")
    return path


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr(model_card, "PAGE", tmp_path / "card.md")
    captions = tmp_path / "captions.jsonl.xz"
    with lzma.open(captions, "wt") as file:
        file.writelines(json.dumps(photo) + "\n" for photo in PHOTOS)
    files = [figures(tmp_path / f"{hit}", hit) for hit in (0.6, 0.64)]
    monkeypatch.setattr(
        sys,
        "argv",
        ["card", "--captions", str(captions), "--figures", *(str(file) for file in files)],
    )
    return sys.argv


def test_the_card_counts_licences_and_averages_seeds(arguments: list[str], tmp_path: Path) -> None:
    model_card.main()
    page = (tmp_path / "card.md").read_text()
    assert "3 captioned photos of MS-COCO with 4 captions" in page
    assert "| CC BY 2.0 | 1 |" in page and "| CC BY-NC 2.0 | 1 |" in page and "| not recorded | 1 |" in page
    assert "| caption → photo, COCO | exact search | 10.0 (10.0 to 10.0) | 62.0 (60.0 to 64.0) |" in page
    assert "the mean of 2 trainings" in page
    assert "on the 1 freely licensed photos alone has not been measured yet" in page


def test_the_card_has_the_figures_of_free_photos(arguments: list[str], tmp_path: Path) -> None:
    arguments += ["--free-figures", str(figures(tmp_path / "free", 0.5))]
    model_card.main()
    page = (tmp_path / "card.md").read_text()
    assert "| caption → photo, COCO | exact search | 10.0 | 50.0 | 90.0 |" in page
    assert "has not been measured" not in page
