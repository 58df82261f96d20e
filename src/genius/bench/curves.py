"""Recall against queries per second over the items of an index: a curve for each system.

A single speed says little, as every system has a knob that trades recall for it. So each is measured at
several settings of its own knob, in turns with all others, on the same queries, as ann-benchmarks does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench import rivals
from genius.bench.timing import TimedSystem, TunedSystem, one_thread, time_in_turns
from genius.bench.world import BLOCK, World, grown_world, world_of_index
from genius.display import Table
from genius.errors import InputError
from genius.index.index import Index
from genius.search.engine import Engine

BEAMS = (1, 2, 5, 10, 20, 50, 100, 200)
"""How many cells our own engine looks at."""


@dataclass(frozen=True)
class CurveSettings:
    """What is measured. Raises InputError for settings that can't be."""

    items: int | None = None
    """The number of items; more than the index has are made by jitter. By default those of the index."""
    queries: int = 200
    rounds: int = 3
    k: int = 10
    libraries: bool = True
    """Whether faiss, usearch and sqlite-vec are measured."""
    seed: int = 0

    def __post_init__(self) -> None:
        if min(self.queries, self.rounds, self.k) < 1:
            raise InputError("queries, rounds and k should be at least 1")


@dataclass(frozen=True)
class CurvePoint:
    """One system at one setting, in processor time of one thread."""

    system: str
    knob: str
    value: int
    """Of the knob; 0 for systems without one."""
    n: int
    jittered: int
    """How many of these items were made by jitter."""
    recall: float
    """The mean share of the k items with the largest inner products, exactly, that it found."""
    queries_per_second: float
    ms: float
    bytes_per_item: float | None
    build_s: float | None

    def fields(self) -> dict[str, Any]:
        """The figures for a line of JSON."""
        return asdict(self)


def measure_curves(path: Path, settings: CurveSettings) -> list[CurvePoint]:
    """The curves of all systems over the items of an index; queries are like some of the items.

    All rank by embeddings alone, so that recall against exact search by embeddings compares like with like.
    """
    with (
        one_thread(),
        Index.open(path) as index,
        tempfile.TemporaryDirectory(prefix="genius-bench-") as folder,
    ):
        world = world_of_index(index, settings.queries, settings.seed)
        own = len(world)
        if settings.items is not None and settings.items > own:
            world = grown_world(world, index.model.quantizer, settings.items, Path(folder), settings.seed)
        geometry = index.decoder("fast", "geometry").decoder
        engine = Engine(world.segments, geometry, world.codebooks, weight=1.0)
        return measure_points(world, engine, settings, len(world) - own)


def measure_points(
    world: World, engine: Engine, settings: CurveSettings, jittered: int = 0
) -> list[CurvePoint]:
    """The points of all systems over a world."""
    k = settings.k
    systems = [*_own_systems(world, engine, k)]
    if settings.libraries:
        systems += rivals.tuned_systems(world, k)
    points = [(tuned, value, tuned.at(value)) for tuned in systems for value in tuned.values]
    time_in_turns([system for *_, system in points], len(world.query_embeddings), settings.rounds)
    truth = exact_rows(world, k)
    return [
        CurvePoint(
            system=tuned.system.name,
            knob=tuned.knob,
            value=value,
            n=len(world),
            jittered=jittered,
            recall=_recall(system, truth),
            queries_per_second=1 / system.seconds,
            ms=1000 * system.seconds,
            bytes_per_item=system.bytes_per_item,
            build_s=system.build_s,
        )
        for tuned, value, system in points
    ]


def exact_rows(world: World, k: int) -> np.ndarray:
    """The k rows with the largest inner products for each query, int64 [queries, k], by comparing all."""
    queries = len(world.query_embeddings)
    best = np.full((queries, k), -1, np.int64)
    scores = np.full((queries, k), -np.inf, np.float32)
    for start in range(0, len(world), BLOCK):
        rows = np.arange(start, min(start + BLOCK, len(world)))
        products = world.query_embeddings @ world.item_embeddings(rows).T
        scores, best = (
            np.concatenate([scores, products], axis=1),
            np.concatenate([best, np.broadcast_to(rows, products.shape)], axis=1),
        )
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        scores, best = np.take_along_axis(scores, order, axis=1), np.take_along_axis(best, order, axis=1)
    return best


def _recall(system: TimedSystem, truth: np.ndarray) -> float:
    shares = [np.isin(truth[query], rows).mean() for query, rows in system.results.items()]
    return float(np.mean(shares))


def _own_systems(world: World, engine: Engine, k: int) -> list[TunedSystem]:
    """Our engine by geometry, with more or fewer cells, and its scan."""
    beams = 50

    def set_beams(value: int) -> None:
        nonlocal beams
        beams = value

    def fast(queries: np.ndarray) -> np.ndarray:
        vectors, embeddings = world.query_vectors[queries], world.query_embeddings[queries]
        return engine.search(vectors, embeddings, k=k, beams=beams, mode="fast").rows

    def scan(queries: np.ndarray) -> np.ndarray:
        return engine.search(
            world.query_vectors[queries], world.query_embeddings[queries], k=k, mode="scan"
        ).rows

    packed = sum(segment.packed.nbytes for segment in world.segments) / len(world)
    ours = TimedSystem("genius fast", fast, bytes_per_item=packed + world.width, build_s=world.pack_s)
    exact = TimedSystem("genius scan", scan, bytes_per_item=float(world.width))
    return [
        TunedSystem(ours, "cells", BEAMS, set_beams),
        TunedSystem(replace(ours, name="genius fast Q=8", batch_size=8), "cells", BEAMS, set_beams),
        TunedSystem(exact, "", (0,), lambda _: None),
    ]


def table(points: Sequence[CurvePoint]) -> Table:
    """A row for each system and setting."""
    title = ""
    if points:
        made = f", {points[0].jittered:,} of them made by jitter" if points[0].jittered else ""
        title = f"{points[0].n:,} items{made}; processor time of one thread; recall@k against exact search"
    rows = Table(("system", "setting", "recall", "queries/s", "ms", "bytes/item", "built in s"), title=title)
    for point in points:
        setting = f"{point.knob} {point.value}" if point.knob else ""
        rows.add(
            point.system,
            setting,
            point.recall,
            point.queries_per_second,
            point.ms,
            point.bytes_per_item,
            point.build_s,
        )
    return rows
