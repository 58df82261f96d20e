"""Many threads on one catalogue: checkpoints, deadlines, and connections that end with their threads."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from genius.errors import DamagedError, FilterTimeoutError, GeniusError
from genius.index import sqlite
from genius.index.catalogue import FILE, Catalogue
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, open_made_up


@pytest.fixture
def index(tmp_path: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(tmp_path / "index") as index:
        index.add(made_up_items(300))
        yield index


@contextlib.contextmanager
def overlapping_readers(folder: Path) -> Iterator[None]:
    """At every moment a reader has a version open, though none for long."""
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
        for catalogue in catalogues:
            catalogue.close()

    thread = threading.Thread(target=read)
    thread.start()
    reading.wait()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def wal_bytes(path: Path) -> int:
    return (path / f"{FILE}-wal").stat().st_size


def test_the_log_is_truncated_though_there_is_always_a_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "WAL_BYTES", 1)
    with open_made_up(tmp_path / "index") as index, overlapping_readers(index.path):
        for more in range(3):
            index.add(made_up_items(20 + more))
            assert wal_bytes(index.path) == 0
        index.compact()
        assert wal_bytes(index.path) == 0


def test_a_long_reader_is_not_waited_for_with_every_commit(
    index: MadeUpIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite, "CHECKPOINT_SECONDS", 0)
    other, checkpoint = Catalogue(index.path), index._catalogue._checkpoint
    tried: list[int] = []

    def counted() -> bool:
        tried.append(1)
        return checkpoint()

    monkeypatch.setattr(index._catalogue, "_checkpoint", counted)
    index._catalogue._checkpoint_at = 1
    with other.reading():
        for n in range(5):
            index.update([{"id": "item-0", "metadata": {"n": n}}])
    assert len(tried) == 1
    assert index._catalogue._checkpoint_at > wal_bytes(index.path)
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


def test_a_closed_index_is_not_taken_for_a_damaged_one(index: MadeUpIndex) -> None:
    connection = index._catalogue._connection
    connection.close()
    with pytest.raises(sqlite3.ProgrammingError):  # the index was not closed: a bug of ours
        len(index)
    with (
        pytest.raises(GeniusError, match="was closed: open the index again") as error,
        index._catalogue._translated(),
    ):
        index.close()
        connection.execute("SELECT 1")
    assert not isinstance(error.value, DamagedError)
    with pytest.raises(GeniusError, match="was closed"):
        next(iter(index))
