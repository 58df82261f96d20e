"""Many threads on one catalogue: patience, deadlines, and connections that end with their threads."""

from __future__ import annotations

import contextlib
import errno
import os
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genius.errors import DamagedError, DiskError, FilterTimeoutError, GeniusError
from genius.index import sqlite as database
from genius.index.catalogue import FILE, Catalogue
from genius.index.disk import disk_said
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, open_made_up


@pytest.fixture
def index(tmp_path: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(tmp_path / "index") as made:
        made.add(made_up_items(300))
        yield made


@contextlib.contextmanager
def overlapping_readers(folder: Path) -> Iterator[None]:
    """At every moment somebody reads, though nobody for long."""
    reading, stop = threading.Event(), threading.Event()

    def read() -> None:
        catalogues = [Catalogue(folder), Catalogue(folder)]
        with contextlib.ExitStack() as now:
            now.enter_context(catalogues[0].reading())
            reading.set()
            turn = 1
            while not stop.is_set():
                following = contextlib.ExitStack()
                following.enter_context(catalogues[turn].reading())
                now.close()
                now.push(following.pop_all())
                turn = 1 - turn
        for one in catalogues:
            one.close()

    thread = threading.Thread(target=read)
    thread.start()
    reading.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def log_of(path: Path) -> int:
    return (path / f"{FILE}-wal").stat().st_size


def test_the_log_is_cleared_though_somebody_always_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "WAL_BYTES", 1)
    with open_made_up(tmp_path / "index") as index, overlapping_readers(index.path):
        for some in range(3):
            index.add(made_up_items(20 + some))
            assert log_of(index.path) == 0
        index.compact()
        assert log_of(index.path) == 0


def test_who_reads_for_long_is_not_waited_for_again_and_again(
    index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "READERS", 0)
    other, tried = Catalogue(index.path), []
    carry = index._catalogue._carry_over
    monkeypatch.setattr(index._catalogue, "_carry_over", lambda: tried.append(1) or carry())
    index._catalogue._carried_at = 1
    with other.reading():
        for n in range(5):
            index.update([{"id": "item-0", "metadata": {"n": n}}])
    assert len(tried) == 1
    assert index._catalogue._carried_at > log_of(index.path)
    other.close()


def test_a_query_is_embedded_before_a_version_is_held(
    index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    fusion_inputs, held = index.model.fusion_inputs, []

    def watched(queries: Any) -> Any:
        held.append(index._catalogue._connection.in_transaction)
        return fusion_inputs(queries)

    monkeypatch.setattr(index.model, "fusion_inputs", watched)
    assert len(index.search_many(["a", "b"], k=3)) == 2
    assert held == [False]


def test_a_filter_has_a_deadline(index: MadeUpIndex) -> None:
    index.filter_seconds = 0
    with pytest.raises(FilterTimeoutError, match=r"takes more than 0 seconds: use fewer .* filter_seconds"):
        index.search("text", filter={"number": {"$lt": 9}})
    with pytest.raises(FilterTimeoutError):
        index.prepare({"number": {"$lt": 9}})
    assert len(index.search("text", k=300)) == 300  # what has no filter has no deadline
    index.filter_seconds = 60
    assert len(index.search("text", filter={"number": {"$lt": 9}}, k=99)) == 9


def test_a_filter_that_is_prepared_is_not_decided_again(
    index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.prepare({"number": {"$lt": 9}})
    index.filter_seconds = 0
    assert len(index.search("text", filter={"number": {"$lt": 9}}, k=99)) == 9


def test_connections_end_with_their_threads(index: MadeUpIndex) -> None:
    for _ in range(20):
        thread = threading.Thread(target=len, args=(index,))
        thread.start()
        thread.join()
    assert len(index._catalogue._connections) <= 2  # this thread's, and the last one's
    assert len(index) == 300


def test_closed_meanwhile_is_no_damage(index: MadeUpIndex) -> None:
    connection = index._catalogue._connection
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError):  # nobody closed the index: a fault of the program
        len(index)
    with (
        pytest.raises(GeniusError, match="was closed: open the index again") as error,
        index._catalogue._said(),
    ):
        index.close()
        connection.execute("SELECT 1")
    assert not isinstance(error.value, DamagedError)
    with pytest.raises(GeniusError, match="was closed"):
        next(iter(index))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EROFS, errno.EPERM, errno.ENOSPC])
def test_an_index_that_may_not_be_written_to(
    index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    opened = Path.open

    def refusing(path: Path, *given: Any, **more: Any) -> Any:
        if path.name == "writer.lock":
            raise OSError(number, os.strerror(number), str(path))
        return opened(path, *given, **more)

    monkeypatch.setattr(Path, "open", refusing)
    for change in (lambda: index.add(made_up_items(1)), lambda: index.remove("item-1"), index.compact):
        with pytest.raises(
            DiskError, match=r"writer\.lock could not be written to: .*: (give|make)"
        ) as error:
            change()
        assert error.value.reason == os.strerror(number)


def test_other_errors_of_the_system_stay_what_they_are(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), disk_said(tmp_path):
        (tmp_path / "nothing").read_bytes()


def test_errors_of_the_disk_below_the_catalogue(index: MadeUpIndex) -> None:
    index._catalogue._ask("PRAGMA query_only = 1")
    with pytest.raises(DiskError, match="readonly database: give the user"):
        index.remove("item-1")
    index._catalogue._ask("PRAGMA query_only = 0")
    assert index.remove("item-1") == 1
