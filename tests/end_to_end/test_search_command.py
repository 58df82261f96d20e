"""`genius search`: words without quotes, paths, pages, orders, browsing, and tables that fit a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")


from genius import Hit, Hits, Index, Item
from genius.cli.search import hit_table
from genius.data.records import ImageBytes, ImageFile
from genius.encode import pipeline
from genius.errors import InputError
from genius.index.hits import NO_PATH
from tests.commands import answer, run
from tests.pictures import square, write_square

LONG = "holidays/2024 in the mountains, the first week with grandmother/IMG_0001.jpg"


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photos of mine")
    for name, colour in (("red.png", "red"), ("blue.png", "blue"), (LONG, "green")):
        write_square(folder / name, colour)
    return folder


@pytest.fixture(scope="module")
def index(coded_model: Path, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two photos, a captioned one, a text, and a photo that was given as bytes."""
    path = tmp_path_factory.mktemp("search command") / "index"
    root = str(folder)
    with Index.create(path, coded_model) as made:
        made.add(
            [
                Item("red.png", None, ImageFile(root, "red.png"), {"price": 30, "brand": "acme"}),
                Item("blue.png", "A blue square.", ImageFile(root, "blue.png"), {"price": 5}),
                Item(LONG, None, ImageFile(root, LONG), {"price": 12.5}),
                Item("text", "A text\tabout\nred squares.", None, {"brand": "Zeta"}),
                Item("bytes", None, ImageBytes(square("red"))),
            ]
        )
    return path


def ids(shown: dict[str, Any]) -> list[str]:
    return [hit["item"]["id"] for hit in shown["hits"]]


def test_words_need_no_quotes(index: Path) -> None:
    assert answer("search", index, "a", "red", "square") == answer("search", index, "a red square")
    assert answer("search", index, "a", "--want", "image", "red", "square") == answer(
        "search", index, "a red square", "--want", "image"
    )


def test_a_hit_says_where_its_image_is(index: Path, folder: Path) -> None:
    paths = {hit["item"]["id"]: hit["item"]["path"] for hit in answer("search", index, "red")["hits"]}
    files = {name: str(folder / name) for name in ("red.png", "blue.png", LONG)}
    assert paths == {**files, "text": None, "bytes": None}


def test_paths_alone_are_one_a_line(index: Path, folder: Path) -> None:
    shown = run("search", index, "red", "--paths")
    expected = [hit["item"]["path"] for hit in answer("search", index, "red")["hits"]]
    assert shown.stdout.splitlines() == [path for path in expected if path is not None]
    assert len(shown.stdout.splitlines()) == 3
    assert shown.stderr.endswith("note: 2 hits have no image file of their own\n")
    assert "note" not in run("search", index, "red", "--paths", "--filter", "price=5").stderr


def test_other_programs_get_lines_of_columns(index: Path) -> None:
    lines = [line.split("\t") for line in run("search", index, "red square").stdout.splitlines()]
    expected = [
        [
            str(hit["rank"]),
            f"{hit['score']:.4f}",
            hit["item"]["modality"],
            hit["item"]["id"],
            " ".join((hit["item"]["text"] or "").split()),
        ]
        for hit in answer("search", index, "red square")["hits"]
    ]
    assert lines == expected
    assert len(lines) == 5
    browsed = [line.split("\t") for line in run("search", index, "--sort", "price").stdout.splitlines()]
    assert browsed[0] == ["1", "", "pair", "blue.png", "A blue square.", "5"]


def test_browsing_sorting_and_paging(index: Path) -> None:
    shown = answer("search", index, "--filter", "price<20", "--sort", "price")
    assert (ids(shown), shown["total"]) == (["blue.png", LONG], 2)
    assert ids(answer("search", index, "--sort", "-price", "-k", "2", "--offset", "1")) == [LONG, "blue.png"]
    assert ids(answer("search", index, "--sort", "-brand", "-k", "2")) == ["text", "red.png"]
    assert ids(answer("search", index, "--only", "text")) == ["text"]
    best = ids(answer("search", index, "red"))
    assert ids(answer("search", index, "red", "-k", "2", "--offset", "2")) == best[2:4]
    assert ids(answer("search", index, "red", "-k", "5", "--sort", "price"))[:3] == [
        "blue.png",
        LONG,
        "red.png",
    ]
    assert ids(answer("search", index, "red", "--want", "image", "--want", "text")) == best
    with pytest.raises(InputError, match="--explain needs a query"):
        run("search", index, "--sort", "price", "--explain")


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["red", "--filter", "prise<20"], "no item has the metadata 'prise': did you mean 'price'?"),
        (["red", "--where", "brand=ACME"], "no item has brand = 'ACME': did you mean 'acme'?"),
        (["--sort", "brnad"], "no item has the metadata 'brnad': did you mean 'brand'?"),
        (
            ["red", "--only", "image", "--filter", "price=5"],
            "this filter leaves 1 with image and text, none with an image alone; "
            "want instead of only finds these too",
        ),
    ],
)
def test_notes_are_on_standard_error_and_in_json(index: Path, arguments: list[str], note: str) -> None:
    assert run("search", index, *arguments).stderr.splitlines()[-1] == f"note: {note}"
    assert answer("search", index, *arguments)["notes"][-1] == note


def hits(texts: bool, browsed: bool = False) -> Hits:
    image = ImageFile("/", "a.jpg")
    listed = [
        Hit(
            Item(LONG, "A caption that is far too long for a row of a table. " if texts else None, image),
            rank,
            -12.34567,
            0.5,
            tuple(range(100, 109)),
            NO_PATH,
        )
        for rank in (1, 10_000)
    ]
    return Hits(listed, listed, rerank=True, notes=(), total=7 if browsed else None)


@pytest.mark.parametrize("width", [72, 80, 100, 240])
@pytest.mark.parametrize("texts", [True, False])
@pytest.mark.parametrize("score", ["score", "log-probability"])
def test_a_table_fits_the_terminal_and_says_a_hit_in_one_line(width: int, texts: bool, score: str) -> None:
    lines = hit_table(hits(texts), score, ["price"], width).text(width).splitlines()
    assert max(map(len, lines)) <= width
    rows = [line for line in lines if "-12.34" in line]
    assert len(rows) == 2
    assert all("IMG_0001.jpg" in row for row in rows)  # the end of a path says most
    assert len([line for line in lines if line.strip(" ─")]) == 3
    assert ("100 101 102" in rows[0]) == (width == 240)


def test_what_is_browsed_has_no_score() -> None:
    table = hit_table(hits(True, browsed=True), "score", ["price"], 80)
    assert table.columns[:3] == ("rank", "price", "id")


def test_a_terminal_gets_a_table(index: Path, coded_home: Path) -> None:
    ours, theirs = pty.openpty()
    code = f"""
import sys
from genius.cli import app
app(["search", {str(index)!r}, "--sort", "price", "-k", "2"])
"""
    environment = {"COLUMNS": "80", "NO_COLOR": "1", "TERM": "dumb", "PYTHONPATH": ":".join(sys.path)}
    subprocess.run([sys.executable, "-c", code], stdout=theirs, env=environment, check=True)
    shown = os.read(ours, 10_000).decode()
    assert "1 to 2 of 5; --offset 2 goes on" in shown
    assert "blue.png" in shown and "A blue square." in shown
    assert "\t" not in shown
