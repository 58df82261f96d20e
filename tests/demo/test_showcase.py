"""`genius demo`: pictures indexed by the model that ships, and three searches."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from genius.cli import app
from genius.data.mbeir import Split, Tree
from genius.data.mbeir_writer import write_tree
from genius.data.records import ImageFile, Item, Query
from genius.data.tasks import Task
from genius.demo import corpus
from genius.demo.showcase import FOLDER, SEARCHES, showcase_items
from genius.encode import pipeline
from tests.miniature import COLOURS
from tests.pictures import write_square


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Squares under the names of the emoji that are searched with, and one with a skin tone."""
    root = tmp_path / "tree"
    keys = [search.image_key for search in SEARCHES if search.image_key]
    items = []
    for number, colour in enumerate(COLOURS):
        key = keys[number] if number < len(keys) else "1f44d-1f3fb" if number == len(keys) else f"{number}"
        path = f"{FOLDER}{key}.png"
        write_square(root / path, colour)
        items.append(Item(f"20:{number}", f"a {colour} square", ImageFile(str(root), path)))
    task = Task("emoji", 2)
    split: Split = "test"
    queries = {(split, task): [Query("red", id="20:1", positives=("20:0",), task=2)]}
    write_tree(root, pools={"emoji_task2": items}, queries=queries, instructions={})
    return root


def test_images_are_indexed_without_names_and_skin_tones(tree: Path) -> None:
    items = showcase_items(Tree(tree))
    assert len(items) == len(COLOURS) - 1
    assert not any("1f3fb" in item.id or item.text for item in items)
    assert items[0].metadata == {"name": f"a {COLOURS[0]} square"}


def test_the_demo_searches_explains_and_says_how_to_go_on(
    tree: Path, shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corpus, "demo_tree", lambda: tree)
    monkeypatch.setattr(pipeline, "default_cache", lambda: tmp_path / "features")
    out = tmp_path / "out"
    for _ in range(2):  # again, it finds everything done
        printed = CliRunner().invoke(app, ["demo", "--out", str(out)], catch_exceptions=False).stdout
        lines = printed.splitlines()
        assert lines[0] == f"{len(COLOURS) - 1} pictures are in {out / 'index'}. Three searches:"
        assert lines[1] == "by words: something to drink"
        assert lines[2].startswith("  1. a ")
        itself = lines.index(f"by a picture: [{SEARCHES[1].image_key}.png]")
        assert not any(f"a {COLOURS[0]} square" in line for line in lines[itself : itself + 6])
        assert "How the first hit was found" in printed
        assert lines[-2].endswith(f"genius search {out / 'index'} a train")
    with Image.open(out / "searches.png") as sheet:
        assert sheet.width > 100
