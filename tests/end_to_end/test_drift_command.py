"""`genius drift`: what it prints, writes and refuses, with a real model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from PIL import Image

from genius import Index, Item
from genius.encode import pipeline
from tests.commands import run

COLOURS = ("red", "green", "blue", "orange", "purple")


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture(scope="module")
def indexes(coded_model: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Notes about colours, the same again, and one in which most are about something else; and no item."""
    folder = tmp_path_factory.mktemp("drift commands")
    texts = [f"A {COLOURS[n % 5]} square on the wall of house {n}." for n in range(100)]
    others = [f"A circle and a star, drawn in {COLOURS[n % 5]} by child {n}." for n in range(70)]
    for name, several in {"old": texts, "new": [*texts[:30], *others], "empty": []}.items():
        with Index.create(folder / name, coded_model) as made:
            made.add(
                [
                    Item(f"{name} {n}", text, metadata={"taken": f"2024-{1 + n // 10:02}-01"})
                    for n, text in enumerate(several)
                ]
            )
    return folder / "old", folder / "new", folder / "empty"


def test_two_indexes(indexes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    old, new, _ = indexes
    assert run("drift", old, old).stdout.startswith("no drift")
    printed = run("drift", old, new, "--sheet", tmp_path / "drift.png")
    assert "no drift" not in printed.stdout
    fields = json.loads(run("drift", old, new, "--json").stdout)
    assert fields["verdict"] in ("shifted", "unfit") and (fields["old"], fields["new"]) == (100, 100)
    lines = [line.split("\t") for line in printed.stdout.splitlines()[1:]]
    assert [line[0] for line in lines] == [cell["kind"] for cell in fields["cells"]]
    assert fields["cells"] and fields["cells"][0]["items"]
    with Image.open(tmp_path / "drift.png") as sheet:
        assert sheet.width > 100
    run("drift", old, new, "--sheet", tmp_path / "drift.png", code=2)


def test_one_index_in_time(indexes: tuple[Path, Path, Path]) -> None:
    _, new, _ = indexes
    fields = json.loads(run("drift", new, "--since", "2024-04-01", "--by", "taken", "--json").stdout)
    assert (fields["old"], fields["new"]) == (30, 70) and fields["verdict"] in ("shifted", "unfit")


def test_bad_input(indexes: tuple[Path, Path, Path], tmp_path: Path) -> None:
    old, new, empty = indexes
    for arguments in (
        (old,),
        (old, new, "--since", "2024-01-01"),
        (old, new, "--by", "taken"),
        (old, "--since", "a while ago"),
        (old, "--since", "2199-01-01"),
        (old, empty),
        (empty, "--since", "2024-01-01"),
        (old, tmp_path / "nowhere"),
    ):
        run("drift", *arguments, code=2)
