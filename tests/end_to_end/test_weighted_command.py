"""`genius search` with weighted and negative parts, and with `--at-least`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")


from genius import Index, Item, Query
from genius.cli.query_parts import WHOLE
from genius.cli.search import weighted_parts
from genius.data.records import ImageBytes
from genius.encode import pipeline
from genius.errors import InputError
from tests.commands import answer, run
from tests.pictures import square, write_square


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture(scope="module")
def index(coded_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("weighted") / "index"
    colours = ("red", "green", "blue", "yellow", "purple", "orange")
    with Index.create(path, coded_model) as made:
        made.add([Item(colour, None, ImageBytes(square(colour))) for colour in colours])
        made.add([Item(f"{colour} text", f"The {colour} one") for colour in colours])
    return path


def figures(shown: dict[str, Any]) -> list[tuple[str, float, float]]:
    return [(hit["item"]["id"], hit["score"], hit["confidence"]) for hit in shown["hits"]]


def expected(index: Path, query: Query, **options: Any) -> list[tuple[str, Any, Any]]:
    with Index.open(index) as opened:
        hits = opened.search(query, **options)
        return [(hit.item.id, pytest.approx(hit.score), pytest.approx(hit.confidence)) for hit in hits]


def test_a_weight_belongs_to_the_part_before_it() -> None:
    arguments = ["index", "sunset", "--weight", "3", "--plus-image", "a.jpg", "--minus", "people"]
    arguments += ["--plus", "dog", "--weight", "2", "--minus=cars", "--weight=0.5", "-k", "5"]
    assert weighted_parts(arguments) == [WHOLE, ("--plus", 0), ("--minus", 1)]
    assert weighted_parts(["index", "x", "--", "--plus", "--weight"]) == []


def test_parts_are_those_of_a_query(index: Path, tmp_path: Path) -> None:
    image = write_square(tmp_path / "blue.jpg", "blue")
    command: tuple[str | Path, ...] = (
        index,
        "the",
        "red",
        "one",
        "--weight",
        "2",
        "--minus",
        "green",
        "--weight",
        "0.5",
    )
    command += ("--plus-image", image, "--plus", "a square")
    query = Query("the red one", weight=2).minus("green", 0.5).plus(image=image).plus("a square")
    assert figures(answer("search", *command, "-k", "4")) == expected(index, query, k=4)
    assert figures(answer("search", *command, "--want", "image")) == expected(index, query, want="image")
    alone = answer("search", index, "--plus", "the red one", "-k", "3")
    assert figures(alone) == expected(index, Query("the red one"), k=3)


def test_at_least(index: Path) -> None:
    shown = run("search", index, "red", "--at-least", "1")
    assert shown.stdout == "" and shown.exit_code == 0
    assert "note: nothing matches: the nearest is" in shown.stderr
    assert "where 1.00 is asked for" in shown.stderr
    assert answer("search", index, "red", "--at-least", "1")["nearest"]["rank"] == 1
    assert len(answer("search", index, "red", "--at-least", "0")["hits"]) == 10
    likely = {hit["item"]["id"] for hit in answer("search", index, "red", "--at-least", "likely")["hits"]}
    assert likely == {
        hit["item"]["id"] for hit in answer("search", index, "red")["hits"] if hit["confidence"] >= 0.8
    }


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--minus", "people"], "minus takes something away from a query: say what to search for, too"),
        (["a", "--plus", "b", "--weight", "nan"], "a weight is a number above 0 and up to 100, not nan"),
        (["a", "--plus", "b", "--weight", "inf"], "a weight is a number above 0"),
        (["a", "--plus", "b", "--weight", "0"], "a weight is a number above 0"),
        (["a", "--plus", "b", "--weight", "1", "--weight", "2"], "two weights behind one part"),
        (["a", "--weight", "2"], "a weight counts beside other parts"),
        (["a", "--plus", "b"] * 17, "up to 16 can be combined"),
        (["a", "--plus", " "], "an empty query"),
        (["--near", "red", "--minus", "b"], "--near is a query of its own"),
        (["a", "--minus", "a"], "cancel each other out: change their weights"),
        (["a", "--at-least", "certain"], "at_least must be likely"),
        (["--at-least", "sure"], "--at-least needs a query"),
    ],
)
def test_what_is_refused(index: Path, arguments: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run("search", index, *arguments)


def test_a_weight_that_is_no_number(index: Path) -> None:
    shown = run("search", index, "a", "--plus", "b", "--weight", "much", code=2)
    assert "Invalid value for '--weight'" in shown.stderr


def test_an_image_that_can_not_be_read(index: Path, tmp_path: Path) -> None:
    (tmp_path / "none.jpg").write_bytes(b"this is no image")
    with pytest.raises(InputError, match=r"none\.jpg"):
        run("search", index, "a", "--plus-image", tmp_path / "none.jpg")
    with pytest.raises(InputError, match=r"gone\.jpg"):
        run("search", index, "a", "--minus-image", tmp_path / "gone.jpg")
