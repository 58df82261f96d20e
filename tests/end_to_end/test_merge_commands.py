"""`genius merge`, `split`, `export`, `recode` and `list`: what they make of real models, and refuse."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")


from genius import Index, Item
from genius.data.records import ImageFile
from genius.encode import pipeline
from genius.index.inspect import describe
from tests.commands import refused, run
from tests.pictures import write_square

COLOURS = ("red", "green", "blue", "orange", "purple", "red")


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture(scope="module")
def items(tmp_path_factory: pytest.TempPathFactory) -> list[Item]:
    """Squares in five colours, one of them twice, pairs and texts."""
    folder = tmp_path_factory.mktemp("squares")
    made = []
    for number, colour in enumerate(COLOURS):
        write_square(folder / f"{number}.png", colour)
        image = ImageFile(str(folder), f"{number}.png")
        metadata: dict[str, str | int] = {"colour": colour, "number": number}
        made.append(Item(f"{number}.png", None, image, metadata))
        made.append(Item(f"pair {number}", f"A {colour} square.", image, metadata))
        made.append(Item(f"text {number}", f"A note about the colour {colour}.", None, metadata))
    return made


@pytest.fixture(scope="module")
def index(coded_model: Path, items: list[Item], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("merge commands") / "index", coded_model, items)


def make(path: Path, model: Path, items: list[Item]) -> Path:
    with Index.create(path, model) as made:
        made.add(items)
    return path


def answers(path: Path) -> dict[str, Any]:
    """What an index finds in several ways, with scores, codes and confidences."""
    shown: dict[str, Any] = {}
    with Index.open(path) as opened:
        shown["codes"] = {item.id: opened.code(item.id) for item in opened}
        shown["counts"] = opened.cell().count, opened.first_codes().tolist()
        for mode in ("auto", "fast", "exact", "paper"):
            for filter in (None, {"colour": "red"}, {"number": {"$gte": 3}}):
                searches = [
                    opened.search("a red square", k=9, mode=mode, filter=filter),
                    opened.search(
                        "something blue", want="image", k=4, mode=mode, filter=filter, rerank=False
                    ),
                    opened.search(near="pair 2", k=5, mode=mode, filter=filter),
                ]
                shown[f"{mode} {filter}"] = [
                    [(hit.item.id, hit.score, hit.cosine, hit.code) for hit in hits] for hits in searches
                ]
        shown["confidence"] = [hit.confidence for hit in opened.search("a red square", k=5)]
    return shown


def test_merged_it_finds_what_one_index_finds(
    index: Path, coded_model: Path, items: list[Item], tmp_path: Path
) -> None:
    parts = [make(tmp_path / name, coded_model, own) for name, own in (("a", items[:7]), ("b", items[7:]))]
    assert "18 items; 7 of" in run("merge", *parts, "-o", tmp_path / "merged").output
    assert answers(tmp_path / "merged") == answers(index)
    assert list((tmp_path / "merged" / "background").iterdir())  # no search waits for it
    assert describe(tmp_path / "merged", verify=True)["items"] == 18

    assert "7 ids are in both " in refused("merge", parts[0], index, "-o", tmp_path / "twice")
    output = run("merge", parts[0], index, "-o", tmp_path / "twice", "--prefer", "newer").output
    assert "note: in more than one index: 7 ids, '0.png', '1.png'" in output and "the newer item" in output
    assert "exists already" in refused("merge", *parts, "-o", tmp_path / "twice")
    assert "unknown preference" in refused("merge", *parts, "-o", tmp_path / "new", "--prefer", "best")
    assert "two indexes or more" in refused("merge", index, "-o", tmp_path / "new")
    assert "there is nothing here" in refused("merge", index, tmp_path / "gone", "-o", tmp_path / "new")


def test_split_and_merged_again(index: Path, tmp_path: Path) -> None:
    red, rest = tmp_path / "red", tmp_path / "rest"
    printed = run("split", index, "--where", "colour=red", "-o", red, "--rest", rest).output
    assert f"{red}: 6 items" in printed and f"{rest}: 12 items" in printed
    run("merge", rest, red, "-o", tmp_path / "again")
    assert answers(tmp_path / "again") == answers(index)
    with Index.open(red) as opened, Index.open(index) as whole:
        filtered = whole.search("a square", k=20, mode="exact", filter={"colour": "red"})
        assert [(hit.item.id, hit.score) for hit in opened.search("a square", k=20, mode="exact")] == [
            (hit.item.id, hit.score) for hit in filtered
        ]
    assert "exists already" in refused("split", index, "--where", "number>3", "-o", red)
    assert "no item fulfils" in refused("split", index, "--where", "number>30", "-o", tmp_path / "none")
    assert "is no condition" in refused("split", index, "--where", "number", "-o", tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("name", ["items.jsonl", "items.parquet"])
def test_an_export_read_back_is_the_same_index(
    index: Path, coded_model: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "backup" / name
    printed = run("export", index, out, "--codes", "--embeddings", "--images", out.parent / "images").output
    assert f"{out}: 18 items, 5 images in" in printed and "genius index" in printed
    run("index", out, "-m", coded_model, "-o", tmp_path / "again", "--workers", "1")
    assert answers(tmp_path / "again") == answers(index)
    assert "exists already" in refused("export", index, out)

    printed = run("export", index, tmp_path / name).output
    assert "12 images outside of the table's folder" in printed and "--root /" in printed
    run(
        "index",
        tmp_path / name,
        "--root",
        "/",
        "-m",
        coded_model,
        "-o",
        tmp_path / "rooted",
        "--workers",
        "1",
    )
    assert answers(tmp_path / "rooted") == answers(index)
    assert "end it in one of" in refused("export", index, tmp_path / "items.txt")


def test_a_collection_moves_to_another_model(
    index: Path, coded_model: Path, learned_model: Path, items: list[Item], tmp_path: Path
) -> None:
    out, failed = tmp_path / "moved", tmp_path / "failed.txt"
    arguments = ("recode", index, "--model", learned_model, "-o", out, "--workers", "1")
    assert "18 items; 18 moved now" in run(*arguments).output
    assert answers(out) == answers(make(tmp_path / "at once", learned_model, items))
    assert "0 moved now, 0 replaced, 18 moved before" in run(*arguments).output
    assert "was made by the model" in refused("merge", index, out, "-o", tmp_path / "mixed")
    assert "is an index of its own" in refused("recode", index, "-m", learned_model, "-o", index)

    write_square(tmp_path / "photo.png", "black")
    own = make(
        tmp_path / "own",
        coded_model,
        [*items[-1:], Item("gone", None, ImageFile(str(tmp_path), "photo.png"))],
    )
    (tmp_path / "photo.png").unlink()
    printed = run(
        "recode", own, "-m", learned_model, "-o", tmp_path / "own moved", "--failures", failed
    ).output
    assert "1 item; 1 moved now" in printed and "1 could not be moved" in printed
    assert "item 'gone'" in failed.read_text()


def test_a_collection_moves_without_its_old_model(
    learned_model: Path, coded_model: Path, items: list[Item], tmp_path: Path
) -> None:
    shutil.copytree(coded_model, tmp_path / "model")
    index, out = make(tmp_path / "index", tmp_path / "model", items), tmp_path / "moved"
    assert f"genius recode {index} --model" in refused("search", index, "red", "--model", learned_model)
    shutil.rmtree(tmp_path / "model")
    assert "which is gone" in refused("search", index, "red")
    moved = run("recode", index, "--model", learned_model, "-o", out, "--workers", "1").output
    assert f"{len(items)} items; {len(items)} moved now" in moved
    assert answers(out) == answers(make(tmp_path / "at once", learned_model, items))


def test_items_are_listed_and_piped(
    index: Path, items: list[Item], coded_model: Path, tmp_path: Path
) -> None:
    lines = run("list", index).stdout.splitlines()
    assert lines[:2] == ["0.png\timage\t0.png", "pair 0\tpair\tA red square."] and len(lines) == 18
    assert run("list", index, "--ids").stdout.splitlines() == [item.id for item in items]
    rows = [
        json.loads(line) for line in run("list", index, "--json", "--where", "number=2").stdout.splitlines()
    ]
    assert [row["id"] for row in rows] == ["2.png", "pair 2", "text 2"]
    assert rows[0]["metadata"] == {"colour": "blue", "number": 2} and rows[0]["path"]
    assert run("list", index, "--where", "number=77", "--ids").stdout == ""
    assert "exclude each other" in refused("list", index, "--ids", "--json")

    own = make(tmp_path / "own", coded_model, [*items[:3], Item("two\nlines", "odd")])
    listed = run("list", own, "--ids", "--where", "colour=red")
    printed = run("remove", own, "--from", "-", given=listed.stdout).output
    assert "3 removed, 1 item left" in printed
    assert "1 ids have line breaks" in run("list", own, "--ids").output


def test_an_empty_index(coded_model: Path, tmp_path: Path) -> None:
    empty = make(tmp_path / "empty", coded_model, [])
    assert run("list", empty).stdout == ""
    assert "the index is empty" in refused("split", empty, "--where", "a=1", "-o", tmp_path / "part")
    assert "the index is empty" in refused("export", empty, tmp_path / "items.jsonl")
    assert "is named twice" in refused("merge", empty, empty, "-o", tmp_path / "merged")
    run("merge", empty, make(tmp_path / "other", coded_model, []), "-o", tmp_path / "merged")
    assert describe(tmp_path / "merged")["items"] == 0
