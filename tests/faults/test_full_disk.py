"""A disk that is full at any moment: a clear error, and the state before the write or after it."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from genius.data.records import Item
from genius.errors import GeniusError
from genius.index import writer
from genius.index.inspect import describe
from genius.index.locks import only_writer
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, open_made_up

WRITING = {"write", "fsync", "mkdir", "rename"}


@contextmanager
def full_at(moment: int) -> Iterator[list[int]]:
    """The disk is full at one of the calls that write files; yields how many there were."""
    calls = [0]

    def count(frame: FrameType, event: str, argument: Any) -> None:
        if event != "c_call" or argument.__name__ not in WRITING:
            return
        calls[0] += 1
        if calls[0] == moment:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    sys.setprofile(count)
    try:
        yield calls
    finally:
        sys.setprofile(None)


def ids(index: MadeUpIndex) -> set[str]:
    return {hit.item.id for hit in index.search("text", k=999)}


def test_a_full_disk_leaves_the_old_state_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK_MERGE", 5)
    index, dice, failed = open_made_up(tmp_path / "index"), random.Random(0), 0
    index.add(made_up_items(20))
    with full_at(-1) as calls:
        index.add([Item("first", "text")])
    for number in range(40):
        before, new = ids(index), [Item(f"{number} {n}", "text") for n in range(dice.choice([1, 9]))]
        compacting = number % 4 == 3
        after = before if compacting else before | {item.id for item in new}
        try:
            with full_at(dice.randint(1, calls[0])):
                index.compact() if compacting else index.add(new)
        except GeniusError as error:
            assert "No space left on device; what was committed before is there" in str(error)
            assert ids(index) in (before, after)
            failed += 1
        else:
            assert ids(index) == after
        describe(index.path, verify=True)
    assert failed > 20
    index.add([Item("last", "text")])
    index.compact()
    assert "last" in ids(index)
    assert len(list((index.path / "segments").iterdir())) == 1
    index.close()


def test_a_catalogue_without_space_is_a_clear_error(tmp_path: Path) -> None:
    index = open_made_up(tmp_path / "index")
    index.add(made_up_items(8))
    pages = index._catalogue._query("PRAGMA page_count")[0][0]
    index._catalogue._query(f"PRAGMA max_page_count = {pages}")
    before = ids(index)
    with pytest.raises(GeniusError, match="full"):
        index.update([{"id": f"item-{n}", "metadata": {"long": "x" * 5000}} for n in range(8)])
    assert ids(index) == before
    assert describe(index.path, verify=True)["items"] == 8
    index.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = shutil.which("mount")
    mounted = mount and subprocess.run(
        [mount, "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], check=False, capture_output=True
    )
    if not mounted or mounted.returncode:
        pytest.skip("a small file system can't be mounted here: this needs the rights for it")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_disk_that_is_really_full_keeps_what_was_committed(small_disk: Path) -> None:
    index = open_made_up(small_disk / "index")
    index.add(made_up_items(8))
    before = ids(index)
    with pytest.raises(GeniusError, match=r"what was committed before is there|full"):
        for number in range(200):
            index.add([Item(f"{number} {n}", "text", metadata={"long": "x" * 4000}) for n in range(9)])
            before = ids(index)
    assert ids(index) == before
    assert describe(index.path, verify=True)["items"] == len(before)
    index.close()
    with open_made_up(small_disk / "index") as reopened:
        assert ids(reopened) == before


def test_a_disk_that_is_read_only_is_one_sentence(small_disk: Path) -> None:
    with open_made_up(small_disk / "index") as index:
        index.add(made_up_items(8))
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with open_made_up(small_disk / "index") as index:
        assert len(index) == 8 and index.search("red", k=3)
    with (
        pytest.raises(GeniusError, match=r"Read-only file system.*: give the user"),
        only_writer(small_disk / "index"),
    ):
        pass
