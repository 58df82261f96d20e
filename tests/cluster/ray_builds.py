"""Builds on a cluster in which something goes wrong at chosen moments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

from genius.cluster.build import run_build
from genius.cluster.connection import Layout
from genius.cluster.ray_workers import RayWorkers
from genius.index.ingest import Added
from tests.cluster.made_up_build import job_and_chunks, new_index

CHUNK = 200

Mishap = Callable[["ChaoticWorkers"], Any]


class ChaoticWorkers(RayWorkers):
    """Workers to which something happens when their driver has heard from them so many times."""

    news = 0
    mishaps: Mapping[int, Mishap]

    def at(self, mishaps: Mapping[int, Mishap]) -> Self:
        """The same, with these mishaps."""
        self.mishaps = mishaps
        return self

    def wait(self) -> int | None:
        self.news += 1
        if self.news in self.mishaps:
            self.mishaps[self.news](self)
        return super().wait()

    def end_a_worker(self) -> None:
        """Kill the worker that has worked longest, in the middle of its chunk."""
        for worker, _ in self._running.values():
            self._ray.kill(worker)
            return


def build_on(
    ray: Any,
    home: Path,
    out: Path,
    prepared: Callable[[ChaoticWorkers], ChaoticWorkers] = lambda workers: workers.at({}),
    workers: int = 3,
) -> Added:
    """Build the index of the made-up source."""
    job, chunks, settings = job_and_chunks(home / "items.jsonl", home / "model", CHUNK)
    new_index(out, home / "model")
    with prepared(ChaoticWorkers(ray, settings, Layout(workers, 1))) as several:
        return run_build(job, chunks, several, out)
