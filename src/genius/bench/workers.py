"""How many queries a second several processes answer together, by the clock on the wall."""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench import systems as ours
from genius.bench.speed import SpeedSettings
from genius.bench.timing import one_thread
from genius.bench.world import make_world, open_world
from genius.display import Table
from genius.errors import GeniusError
from genius.search.hits import Mode

WAIT = 600  # seconds for a worker to open its files and to compile


@dataclass(frozen=True)
class Together:
    """What workers answered together: queries a second of the wall's clock, and of all their processors."""

    system: str
    n: int
    workers: int
    queries_per_second: float
    cores_used: float

    def fields(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


def measure_workers(
    settings: SpeedSettings,
    workers: int,
    *,
    seconds: float = 5.0,
    modes: tuple[Mode, ...] = ("safe", "fast"),
    batch: int = 8,
) -> list[Together]:
    """Let so many processes search the same files, one thread each, for some seconds in each mode."""
    found = []
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        networks = Path(scratch, "networks")
        networks.mkdir()
        ours.write_network(networks, settings.width, settings.sizes, like_paper=settings.like_paper)
        for count in settings.items:
            folder = Path(scratch, str(count))
            folder.mkdir()
            make_world(folder, count, settings.sizes, width=settings.width, queries=settings.queries)
            for mode in modes:
                row = ours.Row(mode, "int8", batch)
                work = _Work(folder, networks, row, settings.sizes, seconds)
                found.append(_together(work, count, workers))
    return found


@dataclass(frozen=True)
class _Work:
    """What each worker does."""

    folder: Path
    networks: Path
    row: ours.Row
    sizes: tuple[int, ...]
    seconds: float


def _together(work: _Work, count: int, workers: int) -> Together:
    context = multiprocessing.get_context("spawn")  # a fork would share threads that do not exist
    ready, answers = context.Barrier(workers), context.Queue()
    started = [
        context.Process(target=_answer, args=(work, ready, answers), daemon=True) for _ in range(workers)
    ]
    for process in started:
        process.start()
    try:
        told = [answers.get(timeout=WAIT + 10 * work.seconds) for _ in started]
    except Exception as error:
        raise GeniusError("a worker did not answer: measure with fewer items or workers") from error
    finally:
        for process in started:
            process.join(timeout=10)
            process.terminate()  # one that hangs
    rates, shares = zip(*told, strict=True)
    return Together(work.row.name, count, workers, float(sum(rates)), float(sum(shares)))


def _answer(work: _Work, ready: Any, answers: Any) -> None:
    """One worker: tells queries a second, and which share of a core it had."""
    with one_thread():
        answers.put(_rate(work, ready))


def _rate(work: _Work, ready: Any) -> tuple[float, float]:
    world, row = open_world(work.folder, work.sizes), work.row
    system = ours.systems(world, ours.stand_ins(world, work.networks, [row]), [row])[0]
    queries = len(world.vectors)
    system.turn(np.arange(row.batch) % queries)
    ready.wait(WAIT)
    start, used, answered = time.perf_counter(), time.thread_time(), 0
    before = system.left_out()
    while time.perf_counter() - start < work.seconds:
        system.turn((answered + np.arange(row.batch)) % queries)
        answered += row.batch
    # What the stand-in took does not count: neither as work nor as time.
    apart = system.left_out() - before
    wall, processor = time.perf_counter() - start, time.thread_time() - used
    share = min(1.0, processor / wall)
    return answered / max(wall - apart / max(share, 1e-6), 1e-6), share


def table(found: list[Together]) -> Table:
    """Queries a second of all workers."""
    made = Table(
        ("system", "items", "workers", "queries/s", "cores used"), title="together, by the wall's clock"
    )
    for one in found:
        made.add(one.system, one.n, one.workers, one.queries_per_second, one.cores_used)
    return made
