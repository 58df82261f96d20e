"""`genius duplicates`, `albums`, `outliers` and `sample`: what they print, write, change and refuse."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from PIL import Image

from genius import Index, Item
from genius.data.records import ImageFile
from genius.encode import pipeline
from tests.commands import refused, run
from tests.pictures import write_square


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture(scope="module")
def index(coded_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Squares in five colours, one of them twice, and some texts."""
    folder = tmp_path_factory.mktemp("squares")
    colours = ("red", "green", "blue", "orange", "purple", "red")
    for number, colour in enumerate(colours):
        write_square(folder / f"{number}.png", colour)
    items = [Item(f"{n}.png", None, ImageFile(str(folder), f"{n}.png")) for n in range(len(colours))]
    texts = [Item(f"text {n}", f"A note about the colour {colours[n]}.") for n in range(5)]
    path = tmp_path_factory.mktemp("collection commands") / "index"
    with Index.create(path, coded_model) as made:
        made.add([*items, *texts])
    return path


def test_duplicates(index: Path, tmp_path: Path) -> None:
    printed = json.loads(run("duplicates", index, "--level", "exact", "--json").stdout)
    assert [[item["id"] for item in group["items"]] for group in printed["groups"]] == [["0.png", "5.png"]]
    assert printed["groups"][0]["keep"] == "0.png" and printed["groups"][0]["items"][0]["path"]
    lines = run(
        "duplicates", index, "--level", "exact", "--sheet", tmp_path / "twice.png"
    ).stdout.splitlines()
    assert lines == ["1\tkeep\texact\t1.0000\t0.png", "1\t\texact\t1.0000\t5.png"]
    with Image.open(tmp_path / "twice.png") as sheet:
        assert sheet.width > 600


def test_duplicates_are_removed_only_if_one_says_so(index: Path, coded_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "own"
    with Index.open(index) as old, Index.create(path, coded_model) as made:
        made.add(old)
    run("duplicates", path, "--level", "exact")
    with Index.open(path) as opened:
        assert len(opened) == 11
    assert (
        "1 removed, 10 items left; files stay"
        in run("duplicates", path, "--level", "exact", "--remove").output
    )
    with Index.open(path) as opened:
        assert "0.png" in opened and "5.png" not in opened


def test_a_group_of_half_the_collection_is_no_group_of_duplicates(coded_model: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", coded_model) as made:
        made.add([Item(str(number), "A red square." + " " * number) for number in range(30)])
    note = "one group has 30 of 30 items, as each is like some other of them: ask for a higher --similarity"
    assert note in run("duplicates", tmp_path / "index", "--similarity", "0.9").stderr
    assert note not in run("duplicates", tmp_path / "index", "--level", "exact").stderr


def test_what_a_list_finds_nowhere_is_said(index: Path) -> None:
    shown = run("list", index, "--where", "nosuch=1")
    assert shown.stdout == "" and "nothing in the index fulfils this filter" in shown.stderr
    assert run("list", index).stderr == ""


def test_albums(index: Path, tmp_path: Path) -> None:
    made = run("albums", index, "-n", "3", "--json").stdout
    albums = json.loads(made)["albums"]
    assert sum(album["size"] for album in albums) == 11
    (tmp_path / "albums.json").write_text(made)
    lines = run(
        *("albums", index, "-n", "3", "--like", tmp_path / "albums.json"),
        *("--links", tmp_path / "links", "--sheet", tmp_path / "albums.png"),
    ).stdout.splitlines()
    assert [line.split("\t")[0] for line in lines] == [str(album["size"]) for album in albums]
    links = [path for path in (tmp_path / "links").rglob("*") if path.is_symlink()]
    assert len(links) == 6 and all(link.exists() for link in links)
    assert "gave only" in run("albums", index, "-n", "100").output


def test_outliers_and_samples(index: Path, tmp_path: Path) -> None:
    odd = json.loads(run("outliers", index, "-n", "4", "--json").stdout)["outliers"]
    assert odd and all("one colour" in outlier["says"] for outlier in odd if outlier["reason"] == "broken")
    assert len(run("outliers", index, "--sheet", tmp_path / "odd.png").stdout.splitlines()) >= len(odd)
    chosen = run("sample", index, "-n", "4", "--typical", "--seed", "2").stdout.splitlines()
    assert len(chosen) == 4
    again = json.loads(run("sample", index, "-n", "4", "--typical", "--seed", "2", "--json").stdout)
    assert [item["id"] for item in again["items"]] == chosen
    assert "these are all" in run("sample", index, "-n", "50", "--sheet", tmp_path / "all.png").output
    paths = run("sample", index, "-n", "50", "--paths", "--per-cell").stdout.splitlines()
    assert len([path for path in paths if Path(path).is_file()]) == 6


def test_bad_input(index: Path, tmp_path: Path) -> None:
    (tmp_path / "there.png").touch()
    (tmp_path / "no.json").write_text("{")
    assert "exists already" in refused("duplicates", index, "--sheet", tmp_path / "there.png")
    assert "exists already" in refused("albums", index, "--links", tmp_path)
    assert "from 0 to 1" in refused("duplicates", index, "--similarity", "1.5")
    assert "unknown level" in refused("duplicates", index, "--level", "some")
    assert "n must be" in refused("albums", index, "-n", "0")
    assert "is no JSON" in refused("albums", index, "--like", tmp_path / "no.json")
    assert "cannot read" in refused("albums", index, "--like", tmp_path / "gone.json")
    assert "exclude each other" in refused("sample", index, "--typical", "--spread")
    assert "there is nothing here" in refused("outliers", tmp_path / "nowhere")
