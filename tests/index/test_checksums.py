"""Whatever is altered in a catalogue, verifying names it; whatever it does itself, it knows."""

from __future__ import annotations

import contextlib
import random
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from genius.errors import DamagedError, DiskError
from genius.index import checksums
from genius.index.catalogue import FILE, Catalogue, SegmentEntry
from genius.index.checksums import COUNT_FILE, FORMAT, SUMMED, UNSUMMED
from genius.index.entries import Entry, ReadValues, entry_of
from tests.index.made_up import made_up_items
from tests.index.made_up_index import open_made_up
from tests.index.older_catalogue import make_older

BY_ID = {item.id: item for item in made_up_items(60)}
ITEMS = [entry_of(item, None) for item in BY_ID.values()]


def write(path: Path) -> Path:
    """A catalogue with rows in all tables."""
    path.mkdir()
    Catalogue.create(path, {"model": {"path": "m"}, "width": 7})
    with contextlib.closing(Catalogue(path)) as catalogue:
        read = {ITEMS[0].id: ReadValues("read text", '{"n":1}')}
        catalogue.commit(ITEMS[:5], SegmentEntry(1, 5, "abc"), read_values=read)
        catalogue.commit(ITEMS[5:7], SegmentEntry(2, 2, "def"))
        catalogue.keep_images([("a", b"0123456789abcdef", b"one"), ("b", b"fedcba9876543210", b"two")])
        catalogue.keep_text_files("folder", [entry.id for entry in ITEMS[:7]])
        catalogue.add_instructions({"find an image": 0, "find a text": 1})
        catalogue.remove([2])
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write(tmp_path / "index")


def check(folder: Path) -> None:
    with contextlib.closing(Catalogue(folder)) as catalogue:
        catalogue.check()


@contextlib.contextmanager
def by_hand(folder: Path) -> Iterator[sqlite3.Connection]:
    """SQLite alone, which knows of no checksum."""
    with contextlib.closing(sqlite3.connect(folder / FILE, isolation_level=None)) as connection:
        yield connection


def moved_away(item_key: int, entry: Entry) -> Entry:
    first = entry.id.partition("~")[0]
    return entry_of(replace(BY_ID[first], id=f"{first}~{item_key}"), None)


def steps(dice: random.Random, catalogue: Catalogue) -> list[Callable[[], object]]:
    """Whatever changes a catalogue, with random contents."""
    keys = [key for key, _ in catalogue.walk()]
    state, known = catalogue.state(), {entry.id for _, entry in catalogue.walk()}
    fresh = [entry for entry in dice.sample(ITEMS, 8) if entry.id not in known]
    chosen = dice.sample(keys, min(3, len(keys)))
    read = {entry.id: ReadValues(None, "{}") for entry in fresh[:2]}
    hashes = [bytes([dice.randrange(9)]) * 16 for _ in range(3)]
    segment = SegmentEntry(state.next_segment, len(fresh), "x")
    old = [number for number in (entry.number for entry in catalogue.segments()) if dice.random() < 0.3]
    moved = {key: moved_away(key, entry) for key, entry in catalogue.entries(chosen).items()}
    return [
        lambda: catalogue.commit(fresh, segment, chosen, merged=old, dropped=[1, 2], read_values=read),
        lambda: catalogue.commit((), None, revised=catalogue.entries(chosen)),
        lambda: catalogue.remove(chosen),
        lambda: catalogue.relocate(moved),
        lambda: catalogue.keep_images([("", key, dice.randbytes(5)) for key in hashes]),
        lambda: catalogue.keep_sources([{"path": f"/{dice.randrange(3)}"}]),
        lambda: catalogue.keep_text_files(
            f"folder {dice.randrange(3)}", known, f"folder {dice.randrange(3)}"
        ),
        lambda: catalogue.add_instructions({f"find {dice.randrange(5)}": dice.randrange(3)}),
        catalogue.shrink,
    ]


@pytest.mark.parametrize("seed", range(6))
def test_all_changes_keep_it(folder: Path, seed: int) -> None:
    dice = random.Random(seed)
    with contextlib.closing(Catalogue(folder)) as catalogue:
        for _ in range(40):
            dice.choice(steps(dice, catalogue))()
            catalogue.check()
    check(folder)


def other(value: Any) -> Any:
    """A value of the same type."""
    if isinstance(value, int):
        return value + 64
    return value[:-1] + (b"?" if isinstance(value, bytes) else "?")


@pytest.mark.parametrize("table", [*SUMMED, "checksums"])
def test_an_altered_value_is_named(folder: Path, table: str) -> None:
    with by_hand(folder) as connection:
        rows = connection.execute(f"SELECT rowid, * FROM {table}")
        columns, values = [name for name, *_ in rows.description[1:]], rows.fetchall()
    assert values
    whole = (folder / FILE).read_bytes()
    for rowid, *row in values:
        for column, value in zip(columns, row, strict=True):
            if value is None:
                continue
            with by_hand(folder) as connection:
                query = f"UPDATE {table} SET {column} = ? WHERE rowid = ?"
                connection.execute(query, (other(value), rowid))
            with pytest.raises(DamagedError, match="is not what was written"):
                check(folder)
            (folder / FILE).write_bytes(whole)
    check(folder)


def test_rows_that_come_or_go_by_other_hands_are_named(folder: Path, tmp_path: Path) -> None:
    for table in SUMMED:
        copy = tmp_path / table
        shutil.copytree(folder, copy)
        with by_hand(copy) as connection:
            connection.execute(f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table})")
        with pytest.raises(DamagedError, match="is not what was written"):
            check(copy)
    with by_hand(folder) as connection:
        connection.execute("CREATE TABLE another (a)")
    with pytest.raises(DamagedError, match="is not what was written"):
        check(folder)


def test_a_text_that_is_none_is_damage(folder: Path) -> None:
    with by_hand(folder) as connection:
        connection.execute("UPDATE items SET text = CAST(x'41ff42' AS TEXT) WHERE item_key = 3")
    with pytest.raises(DamagedError, match="is damaged"):
        check(folder)


def test_what_fails_leaves_the_checksum_as_it_was(folder: Path) -> None:
    with contextlib.closing(Catalogue(folder)) as catalogue:
        before = catalogue._query("SELECT * FROM checksums")
        with pytest.raises(ZeroDivisionError), catalogue._changing():
            catalogue._query("DELETE FROM images")
            1 / 0  # noqa: B018
        assert catalogue._query("SELECT * FROM checksums") == before
        catalogue.check()
        with catalogue._changing():
            pass  # nothing is changed, so nothing is written
        assert catalogue._query("SELECT * FROM checksums") == before


# --- the write-ahead log, and the count beside the catalogue


@pytest.fixture
def logged(tmp_path: Path) -> Path:
    """An index as a crash leaves it: its last two changes are in the log alone."""
    with open_made_up(tmp_path / "open") as index:
        index.add(made_up_items(3))
        index._catalogue._checkpoint()
        for number in range(2):
            index.update([{"id": "item-1", "metadata": {"n": number}}])
        shutil.copytree(tmp_path / "open", tmp_path / "crashed")
    return tmp_path / "crashed"


def test_a_lost_log_is_named(logged: Path, tmp_path: Path) -> None:
    check(shutil.copytree(logged, tmp_path / "whole"))
    (logged / f"{FILE}-wal").unlink()
    with pytest.raises(DamagedError, match=r"has lost its last changes: there were \d+, and \d+ are there"):
        check(logged)
    with open_made_up(logged) as index:
        index.update([{"id": "item-1", "metadata": {"n": 7}}])
    check(logged)  # whoever goes on takes it as it is


def test_a_flipped_bit_in_the_log_is_named_or_harmless(logged: Path, tmp_path: Path) -> None:
    def metadata(folder: Path) -> object:
        with open_made_up(folder) as index:
            return [item.metadata for item in index]

    log, dice, named = (logged / f"{FILE}-wal").read_bytes(), random.Random(0), 0
    right = metadata(shutil.copytree(logged, tmp_path / "whole"))
    for trial in range(150):
        copy, bit = shutil.copytree(logged, tmp_path / str(trial)), dice.randrange(8 * len(log))
        flipped = bytearray(log)
        flipped[bit // 8] ^= 1 << bit % 8
        (copy / f"{FILE}-wal").write_bytes(flipped)
        try:
            check(copy)
        except DamagedError:
            named += 1
            continue
        assert metadata(copy) == right
    assert named > 100


def test_the_count_may_lag_behind_or_be_gone(folder: Path) -> None:
    count = folder / COUNT_FILE
    newest = count.read_bytes()
    with contextlib.closing(Catalogue(folder)) as catalogue:
        catalogue.add_instructions({"one more": 1})
    for content in (newest, b"", bytes(54)):  # as a crash or a loss of power may leave it
        count.write_bytes(content)
        check(folder)
    count.write_bytes(newest[:30] + b"x" + newest[31:])
    with pytest.raises(DamagedError, match=r"catalogue\.changes is not what was written"):
        check(folder)
    count.unlink()
    check(folder)


def test_a_count_that_cannot_be_written_is_no_error(folder: Path) -> None:
    (folder / COUNT_FILE).unlink()
    (folder / COUNT_FILE).mkdir()
    with contextlib.closing(Catalogue(folder)) as catalogue:
        catalogue.add_instructions({"one more": 1})
        catalogue.check()


def test_a_reader_that_began_before_a_change_sees_no_damage(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        contextlib.closing(Catalogue(folder)) as catalogue,
        contextlib.closing(Catalogue(folder)) as writer,
        catalogue.reading(),
    ):
        writer.add_instructions({"one more": 1})
        catalogue.check()  # of the version before


# --- catalogues of an older genius


def test_an_older_catalogue_gets_its_checksum_with_the_next_change(folder: Path) -> None:
    make_older(folder)
    with contextlib.closing(Catalogue(folder)) as catalogue:
        catalogue.check()
        assert catalogue.additions() == []
        catalogue.add_instructions({"one more": 1})
        assert catalogue._query("PRAGMA user_version") == [(FORMAT,)]
        catalogue.check()
    with by_hand(folder) as connection:
        connection.execute("UPDATE segments SET items = items + 1 WHERE number = 1")
    with pytest.raises(DamagedError, match="is not what was written"):
        check(folder)


@pytest.mark.parametrize("older", [False, True])
def test_a_flipped_format_is_named(folder: Path, older: bool) -> None:
    if older:
        make_older(folder)
    with by_hand(folder) as connection:
        connection.execute(f"PRAGMA user_version = {FORMAT if older else UNSUMMED}")
    with pytest.raises(DamagedError, match=r"is damaged: (its format is not what was written|no such table)"):
        check(folder)


def test_a_full_disk_while_it_is_brought_up_to_date(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_older(folder)
    with contextlib.closing(Catalogue(folder)) as catalogue:

        def full(connection: sqlite3.Connection) -> None:
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error

        monkeypatch.setattr(checksums, "add_checksums", full)
        with pytest.raises(DiskError):
            catalogue.add_instructions({"one more": 1})
        monkeypatch.undo()
        catalogue.add_instructions({"one more": 1})
        catalogue.check()
