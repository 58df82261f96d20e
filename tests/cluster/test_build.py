"""Indexes built of chunks, without Ray: the same as `genius index` makes, whatever happens meanwhile."""

from __future__ import annotations

import errno
import os
import random
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from genius.cluster.build import (
    AHEAD,
    Assignment,
    ChunkEncoder,
    LocalWorker,
    WorkerSettings,
    check_chunkable,
    run_build,
)
from genius.data.read import read
from genius.errors import DiskError, InputError, MismatchError, MissingError
from genius.index import writer
from genius.index.index import Index
from genius.index.ingest import Added
from genius.index.writer import SpillFile
from genius.model import Model
from tests.cluster.made_up_build import (
    ITEMS,
    contents,
    fingerprints,
    index_alone,
    job_and_chunks,
    new_index,
)
from tests.faults.killed_writers import kill_at_call, watch_calls
from tests.pictures import square, write_square


def build(home: Path, out: Path, size: int, source: str = "items.jsonl", **options: Any) -> Added:
    job, chunks, settings = job_and_chunks(home / source, home / "model", size)
    new_index(out, home / "model")
    with LocalWorker(settings) as worker:
        return run_build(job, chunks, worker, out, **options)


@pytest.mark.parametrize("size", [150, 512, 5000])
def test_chunks_of_any_size_make_the_index_that_one_process_makes(
    home: Path, alone: tuple[Path, list[str]], tmp_path: Path, size: int
) -> None:
    report = build(home, tmp_path / "index", size)
    assert contents(tmp_path / "index") == contents(alone[0])
    assert sorted(map(str, report.failures.first)) == alone[1]
    assert report.added == ITEMS - 4 and report.failures.count == 4
    assert not (tmp_path / "index" / "chunks").exists()


def test_a_folder_of_images_and_texts_is_built_like_by_one_process(coded_model: Path, tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for number in range(30):
        colour = ("red", "green", "blue")[number % 3]
        write_square(photos / f"{number % 4}" / f"{number}.jpg", colour)
        if number % 5 == 0:
            (photos / f"{number % 4}" / f"{number}.txt").write_text(f"the text of {number}")
    (photos / "note.txt").write_text("a text of its own")
    (photos / "1" / "broken.jpg").write_bytes(square()[:40])
    path, failures = index_alone(photos, coded_model, tmp_path / "alone")
    (tmp_path / "model").symlink_to(coded_model)
    report = build(tmp_path, tmp_path / "index", 7, "photos")
    assert contents(tmp_path / "index") == contents(path)
    assert sorted(map(str, report.failures.first)) == failures and len(failures) == 1


def test_segments_are_the_same_however_chunks_come(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "FULL_BLOCK", 100)
    job, chunks, settings = job_and_chunks(home / "items.jsonl", home / "model", 150)
    made = []
    for seed in range(2):
        out, dice = new_index(tmp_path / str(seed), home / "model"), random.Random(seed)
        with LocalWorker(settings) as worker:
            run_build(job, chunks, Shuffled(worker, dice), out)
        made.append(fingerprints(out))
    assert made[0] == made[1] and len(made[0]) > 4


class Shuffled:
    """Three workers, of which any may be done first."""

    size = 3

    def __init__(self, worker: LocalWorker, dice: random.Random) -> None:
        self._worker, self._dice = worker, dice
        self._assignments: list[Assignment] = []
        self._finished: set[int] = set()

    def start(self, assignment: Assignment) -> None:
        self._assignments.append(assignment)
        first_open = next(n for n in range(10**6) if n not in self._finished)
        assert assignment.number < first_open + (1 + AHEAD) * self.size

    def wait(self) -> int | None:
        if self._dice.random() < 0.3:
            return None
        self._worker.start(self._assignments.pop(self._dice.randrange(len(self._assignments))))
        number = self._worker.wait()
        assert number is not None
        self._finished.add(number)
        return number

    def items(self) -> int:
        return self._worker.items()


def test_a_driver_killed_anywhere_goes_on(home: Path, alone: tuple[Path, list[str]], tmp_path: Path) -> None:
    job, chunks, settings = job_and_chunks(home / "items.jsonl", home / "model", 300)
    with LocalWorker(settings) as worker:
        run_build(job, chunks, worker, new_index(tmp_path / "warm", home / "model"))
    encoder = ChunkEncoder(settings)
    seen: list[int] = []
    new_index(tmp_path / "measured", home / "model")
    watch_calls(seen.append, from_swap=False)
    run_build(job, chunks, Prepared(settings, encoder), tmp_path / "measured")
    sys.setprofile(None)
    dice, kills = random.Random(0), 0
    for number in range(2):
        out = new_index(tmp_path / f"index-{number}", home / "model")
        for _ in range(5):
            moment = dice.randint(1, seen[-1])
            child = os.fork()
            if child == 0:
                kill_at_call(moment, from_swap=False)
                run_build(job, chunks, Prepared(settings, encoder), out)
                os._exit(0)
            killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
            kills += killed
            if not killed:
                break
        run_build(job, chunks, Prepared(settings, encoder), out)
        assert contents(out) == contents(alone[0])
    assert kills > 2


class Prepared(LocalWorker):
    """A worker whose model is open already."""

    def __init__(self, settings: WorkerSettings, encoder: ChunkEncoder) -> None:
        super().__init__(settings)
        self._encoder = encoder


def test_what_was_encoded_before_a_kill_is_not_encoded_again(home: Path, tmp_path: Path) -> None:
    job, chunks, settings = job_and_chunks(home / "items.jsonl", home / "model", 300)
    out = new_index(tmp_path / "index", home / "model")
    with pytest.raises(KeyboardInterrupt), LocalWorker(settings) as worker:
        run_build(job, chunks, Interrupted(worker), out)
    waiting = sorted((out / "chunks").iterdir())
    assert len(waiting) == 2  # the third was under way
    damaged = waiting[1] / "failures.jsonl"
    damaged.write_bytes(damaged.read_bytes() + b"{}")
    with LocalWorker(settings) as worker:
        run_build(job, chunks, worker, out)
        assert worker.items() == ITEMS - 300 - 1  # the damaged one is, and a line is no item
    before = (out / "catalogue.sqlite").stat().st_mtime_ns
    with LocalWorker(settings) as worker:
        report = run_build(job, chunks, worker, out)
        assert (worker.items(), report.added, report.known) == (0, 0, ITEMS - 4)
    assert (out / "catalogue.sqlite").stat().st_mtime_ns >= before


class Interrupted:
    """Encodes the second and third chunk first, and is stopped then."""

    size = 2

    def __init__(self, worker: LocalWorker) -> None:
        self._worker = worker
        self._left = 2

    def start(self, assignment: Assignment) -> None:
        if assignment.number in (1, 2):
            self._worker.start(assignment)

    def wait(self) -> int | None:
        if not self._left:
            raise KeyboardInterrupt
        self._left -= 1
        return self._worker.wait()

    def items(self) -> int:
        return self._worker.items()


def test_a_source_that_changed_is_named_and_one_that_grew_goes_on(home: Path, tmp_path: Path) -> None:
    source = tmp_path / "items.jsonl"
    lines = (home / "items.jsonl").read_text().splitlines(keepends=True)[:400]
    source.write_text("".join(lines))
    (tmp_path / "red.jpg").write_bytes(square())
    (tmp_path / "model").symlink_to(home / "model")
    assert build(tmp_path, tmp_path / "index", 100).added == 400
    source.write_text("".join(lines) + lines[0].replace('"item 0"', '"new"'))
    assert build(tmp_path, tmp_path / "index", 100).added == 1
    source.write_text("".join(lines[1:]))
    with pytest.raises(InputError, match="was built of other chunks until now"):
        build(tmp_path, tmp_path / "index", 100)
    job, chunks, settings = job_and_chunks(source, home / "model", 100)
    source.write_text("".join(lines[2:]))
    with pytest.raises(InputError, match=r"items.jsonl: has changed since"), LocalWorker(settings) as worker:
        run_build(job, chunks, worker, new_index(tmp_path / "other", home / "model"))


def test_a_full_disk_is_a_sentence_and_what_was_committed_stays(
    home: Path, alone: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = iter(range(100))

    def append(spill: SpillFile, embeddings: Any) -> None:
        if next(calls) == 3:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(spill, embeddings)

    real = SpillFile.append
    monkeypatch.setattr(SpillFile, "append", append)
    with pytest.raises(DiskError, match="No space left on device"):
        build(home, tmp_path / "index", 300)
    with Index.open(tmp_path / "index") as index:
        assert len(index) == 900 - 4
    assert build(home, tmp_path / "index", 300).known == 900 - 4
    assert contents(tmp_path / "index") == contents(alone[0])


def test_strict_stops_at_the_first_item_that_fails(home: Path, tmp_path: Path) -> None:
    job, chunks, settings = job_and_chunks(home / "items.jsonl", home / "model", 300)
    strict = replace(job, strict=True)
    with (
        pytest.raises(InputError, match=r"nowhere.jpg"),
        LocalWorker(replace(settings, job=strict)) as worker,
    ):
        run_build(strict, chunks, worker, new_index(tmp_path / "index", home / "model"))


def test_what_can_not_be_built_so_is_refused(home: Path, tmp_path: Path) -> None:
    source = home / "items.jsonl"
    with Index.create(tmp_path / "index", home / "model") as index:
        index.add(read(source))
    with pytest.raises(InputError, match="holds items that came without --ray"):
        build(home, tmp_path / "index", 300)
    with pytest.raises(InputError, match="at least one item"):
        job_and_chunks(source, home / "model", 0)
    numbering = SimpleNamespace(name="rival", has_code_vectors=False)
    with pytest.raises(InputError, match="numbers items one after another"):
        check_chunkable(cast(Model, numbering))
    job, _, settings = job_and_chunks(source, home / "model", 300)
    with pytest.raises(MissingError, match="no model at /nowhere"):
        ChunkEncoder(WorkerSettings(job, "/nowhere"))
    with pytest.raises(MismatchError, match="another model"):
        ChunkEncoder(replace(settings, job=replace(job, model="other")))
