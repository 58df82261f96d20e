"""Copies: equal to the index at one moment, brought up to date by what is new, and never half done."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from genius.data.records import Item
from genius.errors import DiskError, InputError
from genius.index import copy as copy_module
from genius.index.copy import copy
from genius.index.inspect import describe
from genius.index.snapshot import is_index
from tests.index.index_answers import answers
from tests.index.made_up import made_up_items
from tests.index.made_up_index import made, open_made_up

ITEMS = made_up_items(24)
ROOT = Path(__file__).parents[2]


def inodes(path: Path) -> set[int]:
    return {file.stat().st_ino for file in path.rglob("segments/*/*")}


@pytest.mark.parametrize("shards", [None, 2])
def test_a_copy_is_equal_and_the_next_one_copies_what_is_new(tmp_path: Path, shards: int | None) -> None:
    path, target = made(tmp_path / "index", ITEMS[:20], shards=shards), tmp_path / "out/copy"
    with open_made_up(path) as index:
        first = copy(path, target)
        assert (first.items, first.kept, first.version) == (20, 0, index.version)
        with open_made_up(target) as reader:
            assert answers(reader) == answers(index)
            before = inodes(target)
            index.add(ITEMS[20:])
            index.remove(["item-2"])
            assert len(reader) == 20
            second = copy(path, target)
            assert second.kept + second.copied == describe(path)["segments"]
            assert second.kept > 0
            assert answers(reader) == answers(index)  # it was open all the time
            assert before < inodes(target)  # what was there is still there for those who are opening it
            index.compact()
            copy(path, target)
            copy(path, target)
            assert describe(target, verify=True)["items"] == 23
            assert not before & inodes(target)
            assert answers(reader) == answers(index)
        assert copy(path, target).copied == 0


def test_a_copy_while_an_index_is_written_to_is_of_one_version(tmp_path: Path) -> None:
    path = made(tmp_path / "index", ITEMS[:4])
    with open_made_up(path) as index, pytest.MonkeyPatch.context() as patch:
        original = copy_module._copy_segment

        def writing(source: Path, target: Path) -> None:
            index.add([Item(f"more-{len(index)}", "added meanwhile")])
            index.compact()  # nothing that the copy still needs is removed
            original(source, target)

        patch.setattr(copy_module, "_copy_segment", writing)
        assert copy(path, tmp_path / "copy").items == 4
        assert len(index) > 4
    assert describe(tmp_path / "copy", verify=True)["items"] == 4


KILLED = """
import os, signal, sys
from pathlib import Path
from genius import atomic
from genius.index import copy
left = int(sys.argv[3])
def counting(function):
    def counted(*arguments, **options):
        global left
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left -= 1
        return function(*arguments, **options)
    return counted
atomic.sync, atomic.replace_folder = counting(atomic.sync), counting(atomic.replace_folder)
copy.copy(Path(sys.argv[1]), Path(sys.argv[2]))
"""


@pytest.mark.parametrize("steps", [0, 4, 7])
def test_a_killed_copy_leaves_the_one_before(tmp_path: Path, steps: int) -> None:
    path, target = made(tmp_path / "index", ITEMS[:12]), tmp_path / "copy"
    copy(path, target)
    with open_made_up(target) as reader:
        before = answers(reader)
    with open_made_up(path) as index:
        index.add(ITEMS[12:])
    command = [sys.executable, "-c", KILLED, str(path), str(target), str(steps)]
    assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
    with open_made_up(target) as reader:
        assert answers(reader) == before
    copy(path, target)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["copy", "index"]
    with open_made_up(target) as reader, open_made_up(path) as index:
        assert answers(reader) == answers(index)


def test_a_copy_can_become_an_index_of_its_own(tmp_path: Path) -> None:
    path = made(tmp_path / "index", ITEMS[:5])
    copy(path, tmp_path / "copy")
    with open_made_up(tmp_path / "copy") as own, open_made_up(tmp_path / "copy") as reader:
        own.add(ITEMS[5:7])
        assert len(reader.search("red", k=20)) == 7
    with pytest.raises(InputError, match="is a copy that was changed since: choose another place"):
        copy(path, tmp_path / "copy")
    assert describe(path)["items"] == 5


def test_targets_that_are_something_else(tmp_path: Path) -> None:
    path, other = made(tmp_path / "index", ITEMS[:5]), made(tmp_path / "other", ITEMS[:3])
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes/a.txt").write_text("a")
    (tmp_path / "file").write_text("a")
    copy(other, tmp_path / "copied")
    for target, said in (
        (tmp_path / "notes", "holds something that is no copy"),
        (tmp_path / "file", "holds something that is no copy"),
        (other, "holds something that is no copy"),
        (path, "is the index itself, or within it"),
        (path / "within", "is the index itself, or within it"),
        (tmp_path / "copied", "is a copy of .*other: choose another place"),
    ):
        with pytest.raises(InputError, match=said):
            copy(path, target)
    for source, said in ((tmp_path / "nowhere", "nothing here"), (tmp_path / "notes", "is no index")):
        with pytest.raises(InputError, match=said):
            copy(source, tmp_path / "new")
    assert not is_index(tmp_path / "new")


AS_NOBODY = """
import os, sys
from pathlib import Path
from tests.index.made_up import made_up_items
from tests.index.made_up_index import made, open_made_up
path, warm, statement = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
with open_made_up(made(warm, made_up_items(24))) as index:
    print(eval(statement))  # imports and compiles what a user without rights may not be able to
if os.geteuid() == 0:
    os.setgroups([]); os.setgid(65534); os.setuid(65534)
assert not os.access(path, os.W_OK)
with open_made_up(path) as index:
    print(eval(statement))
"""


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may look into, unlike those of pytest."""
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def as_nobody(path: Path, expression: str) -> tuple[str, str]:
    """What a user who may not write there gets of the index at `path`, and the errors."""
    with TemporaryDirectory() as warm:
        command = [sys.executable, "-c", AS_NOBODY, str(path), f"{warm}/index", expression]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.partition("\n")[2].strip(), done.stderr


@pytest.mark.parametrize("shards", [None, 2])
@pytest.mark.parametrize("copied", [False, True])
def test_an_index_that_cannot_be_written_to_is_searched(
    open_folder: Path, shards: int | None, copied: bool
) -> None:
    path = made(open_folder / "index", ITEMS, shards=shards)
    if copied:
        copy(path, open_folder / "copy")
        path = open_folder / "copy"
    with open_made_up(path) as index:
        expected = [hit.item.id for hit in index.search("red", k=30)]
        image = next(item for item in index if item.image is not None)
    for file in [path, *path.rglob("*")]:
        file.chmod(0o555 if file.is_dir() else 0o444)
    try:
        files = sorted(path.rglob("*"))
        said, error = as_nobody(path, "[hit.item.id for hit in index.search('red', k=30)]")
        assert said == str(expected), error
        said, error = as_nobody(path, f"index.get({image.id!r}).image.read()")
        assert said == str(image.image and image.image.read()), error
        assert sorted(path.rglob("*")) == files
        assert "Permission denied" in as_nobody(path, "index.remove('item-1')")[1]
    finally:
        for file in [path, *path.rglob("*")]:
            if file.is_dir():
                file.chmod(0o755)


def test_a_disk_that_is_full_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "index", ITEMS[:5])

    def full(source: Path, target: Path) -> None:
        raise OSError(28, os.strerror(28), str(target))

    monkeypatch.setattr(shutil, "copytree", full)
    with pytest.raises(DiskError, match="No space left on device"):
        copy(path, tmp_path / "copy")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["index"]
