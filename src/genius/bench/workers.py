"""The throughput of several processes that search the same files, by the wall clock."""

from __future__ import annotations

import multiprocessing
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench.speed import SpeedSettings, synthetic_worlds
from genius.bench.systems import SystemSpec, engine_systems, stand_in_decoders
from genius.bench.timing import one_thread
from genius.bench.world import open_world
from genius.display import Table
from genius.errors import GeniusError
from genius.search.engine import Mode

START_SECONDS = 600
"""How long a worker may take to open its files and to compile."""


@dataclass(frozen=True)
class Throughput:
    """What workers answered together: queries per second by the wall clock, and the cores they used."""

    system: str
    n: int
    workers: int
    queries_per_second: float
    cores_used: float

    def fields(self) -> dict[str, Any]:
        """The figures for a line of JSON."""
        return asdict(self)


def measure_throughput(
    settings: SpeedSettings,
    workers: int,
    *,
    seconds: float = 5.0,
    modes: tuple[Mode, ...] = ("safe", "fast"),
    batch_size: int = 8,
) -> list[Throughput]:
    """Let processes search the same synthetic items, one thread each, for some seconds in each mode."""
    measured = []
    for world, folder, networks in synthetic_worlds(settings):
        for mode in modes:
            spec = SystemSpec(mode, "int8", batch_size)
            job = _Job(folder, networks, spec, settings.code_sizes, seconds)
            measured.append(_run_workers(job, len(world), workers))
    return measured


@dataclass(frozen=True)
class _Job:
    """What each worker does."""

    folder: Path
    networks: Path
    spec: SystemSpec
    code_sizes: tuple[int, ...]
    seconds: float


def _run_workers(job: _Job, count: int, workers: int) -> Throughput:
    context = multiprocessing.get_context("spawn")  # a fork would inherit locks of threads that it lacks
    ready, answers = context.Barrier(workers), context.Queue()
    processes = [
        context.Process(target=_work, args=(job, ready, answers), daemon=True) for _ in range(workers)
    ]
    for process in processes:
        process.start()
    try:
        measured = [answers.get(timeout=START_SECONDS + 10 * job.seconds) for _ in processes]
    except Exception as error:
        raise GeniusError("a worker did not answer: measure with fewer items or workers") from error
    finally:
        for process in processes:
            process.join(timeout=10)
            process.terminate()  # in case it hangs
    rates, core_shares = zip(*measured, strict=True)
    return Throughput(job.spec.name, count, workers, float(sum(rates)), float(sum(core_shares)))


def _work(job: _Job, ready: Any, answers: Any) -> None:
    """One worker: reports its queries per second, and the share of a core that it had."""
    with one_thread():
        answers.put(_measure_rate(job, ready))


def _measure_rate(job: _Job, ready: Any) -> tuple[float, float]:
    world, spec = open_world(job.folder, job.code_sizes), job.spec
    system = engine_systems(world, stand_in_decoders(world, job.networks, [spec]), [spec])[0]
    queries, batch = len(world.query_vectors), np.arange(spec.batch_size)
    system.time_call(batch % queries)
    ready.wait(START_SECONDS)
    start, processor_start, answered = time.perf_counter(), time.thread_time(), 0
    excluded_before = system.excluded_seconds()
    while time.perf_counter() - start < job.seconds:
        system.time_call((answered + batch) % queries)
        answered += spec.batch_size
    # The stand-in's own scoring does not count, neither as work nor as time.
    excluded = system.excluded_seconds() - excluded_before
    wall, processor = time.perf_counter() - start, time.thread_time() - processor_start
    core_share = min(1.0, processor / wall)
    return answered / max(wall - excluded / max(core_share, 1e-6), 1e-6), core_share


def table(measured: list[Throughput]) -> Table:
    """The throughput of all workers together."""
    rows = Table(
        ("system", "items", "workers", "queries/s", "cores used"),
        title="all workers together, by the wall clock",
    )
    for throughput in measured:
        rows.add(
            throughput.system,
            throughput.n,
            throughput.workers,
            throughput.queries_per_second,
            throughput.cores_used,
        )
    return rows
