"""`genius sync`: what it prints, does, asks and refuses, with a real model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")


from genius import Index
from genius.cli import sync as command
from genius.encode import pipeline
from tests.commands import answer, run
from tests.pictures import write_square


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    for colour in ("red", "green", "blue", "orange", "purple"):
        write_square(folder / f"{colour}.png", colour)
    return folder


@pytest.fixture
def index(coded_model: Path, tmp_path: Path) -> Path:
    path = tmp_path / "index"
    Index.create(path, coded_model).close()
    return path


def ids(index: Path) -> set[str]:
    with Index.open(index) as opened:
        return {item.id for item in opened}


def test_a_dry_run_and_a_run(index: Path, photos: Path) -> None:
    dry = run("sync", index, photos, "--dry-run")
    assert "+ red.png\n" in dry.stdout and "would add 5, update 0, move 0, remove 0" in dry.stderr
    assert ids(index) == set()
    assert "5 items; 5 added, 0 updated, 0 moved, 0 removed" in run("sync", index, photos).stdout
    (photos / "red.png").rename(photos / "rouge.png")
    (photos / "blue.png").unlink()
    write_square(photos / "green.png", "black")
    dry = run("sync", index, photos, "--dry-run")
    assert dry.stdout.splitlines() == ["~ green.png", "> red.png -> rouge.png", "- blue.png"]
    done = run("sync", index, photos)  # no terminal
    assert "0 added, 1 updated, 1 moved, 0 removed" in done.stdout
    assert "1 item is gone but stays" in done.stderr and "--yes" in done.stderr
    assert "blue.png" in ids(index)
    assert "1 removed" in run("sync", index, photos, "--yes").stdout
    assert ids(index) == {"rouge.png", "green.png", "orange.png", "purple.png"}


def test_json(index: Path, photos: Path) -> None:
    dry = answer("sync", index, photos, "--dry-run")
    assert len(dry["new"]) == 5 and dry["gone"] == [] and ids(index) == set()
    done = answer("sync", index, photos)
    assert (done["items"], done["added"], done["removed"], done["kept"]) == (5, 5, 0, 0)
    (photos / "red.png").unlink()
    assert answer("sync", index, photos)["kept"] == 1  # it does not ask
    assert answer("sync", index, photos, "--yes")["removed"] == 1


def test_adding_a_folder_again_says_what_is_gone(index: Path, photos: Path) -> None:
    assert "gone" not in run("add", index, photos).stderr
    (photos / "red.png").rename(photos / "rouge.png")
    (photos / "blue.png").unlink()
    added = run("add", index, photos)
    assert "6 items; 1 added now" in added.stdout
    assert (
        f"note: 2 items of {photos} have no file there any more: genius sync {index} {photos}" in added.stderr
    )
    assert "2 image files: genius sync follows" in run("show", index, "--verify").stdout
    run("sync", index, photos, "--yes")
    assert "not there" not in run("show", index, "--verify").stdout


def test_it_asks_on_a_terminal(index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("sync", index, photos)
    (photos / "blue.png").unlink()

    class Terminal:
        """What is typed comes from the test."""

        @staticmethod
        def isatty() -> bool:
            return True

    monkeypatch.setattr(command, "sys", type("system", (), {"stdin": Terminal, "stdout": Terminal}))
    refused = run("sync", index, photos, given="n\n")
    assert "1 of 5 items are gone. Remove them" in refused.output and "blue.png" in ids(index)
    assert "1 removed" in run("sync", index, photos, given="y\n").output
    assert "blue.png" not in ids(index)


def test_an_unmounted_disk(index: Path, photos: Path) -> None:
    run("sync", index, photos)
    photos.rename(photos.with_name("away"))
    done = run("sync", index, photos, "--yes")
    assert "5 items are gone but stay" in done.stderr and "mounted" in done.stderr and len(ids(index)) == 5
    assert "--all-gone" in run("sync", index, photos, "--dry-run").stderr
    assert "5 removed" in run("sync", index, photos, "--yes", "--all-gone").stdout


def test_watching_until_stopped(index: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def rounds() -> Iterator[None]:
        yield
        (photos / "red.png").rename(photos / "rouge.png")
        yield
        yield
        raise KeyboardInterrupt

    waits = rounds()
    monkeypatch.setattr("genius.index.sync.watch_folder.__defaults__", (lambda _: next(waits), None))
    done = run("sync", index, photos, "--watch", "--every", "0.5")
    assert "5 added" in done.stdout and "1 moved" in done.stdout and "stopped watching" in done.stderr


def test_bad_input(index: Path, photos: Path, tmp_path: Path) -> None:
    for arguments in (
        (index, tmp_path / "nowhere"),
        (index, photos / "red.png"),
        (tmp_path / "no index", photos),
        (index, photos, "--watch", "--every", "0"),
        (index, photos, "--watch", "--dry-run"),
    ):
        run("sync", *arguments, code=2)
