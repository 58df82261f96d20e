"""Queries a second beside other people's systems, for several numbers of items, in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench import rivals as others
from genius.bench import systems as ours
from genius.bench.timing import System, measure, one_thread
from genius.bench.world import World, make_world, real_world
from genius.display import Table
from genius.errors import InputError
from genius.index.index import Index

SIZES = (3, *[4096] * 8)
"""As the paper's codes: a modality, and eight levels of 4096."""
OUR_SIZES = (3, *[1024] * 4, *[4096] * 4)
"""As those of our own recipe for 10⁵ items."""
HF = "HF generate"


@dataclass(frozen=True)
class SpeedSettings:
    """What is measured; the defaults take about a minute."""

    items: tuple[int, ...] = (10_000, 100_000)
    width: int = 512
    """Of embeddings."""
    queries: int = 64
    rounds: int = 5
    k: int = 10
    like_paper: bool = True
    """Whether network and codes have the paper's sizes; otherwise our own defaults."""
    hugging_face: bool = True
    hugging_face_items: int = 20_000
    """How many its dictionary holds at most: a million take several gigabytes."""
    libraries: bool = True
    graph_items: int = 20_000
    """How many a graph (HNSW) holds at most: to make one of a million takes minutes."""
    library_items: int = 1_000_000
    """Up to how many items the other libraries are measured at all."""
    seed: int = 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many codes each level has."""
        return SIZES if self.like_paper else OUR_SIZES

    def __post_init__(self) -> None:
        if not self.items or min(self.items) < 100:
            raise InputError("a benchmark needs at least 100 items")
        if min(self.width, self.queries, self.rounds, self.k) < 1:
            raise InputError("width, queries, rounds and k should be at least 1")


@dataclass(frozen=True)
class Speed:
    """What was measured of one system at one number of items; a processor's time, on one thread."""

    system: str
    n: int
    queries_per_second: float
    ratio_to_hf: float | None
    ms: float
    """Of a query: a call's time shared out over its batch."""
    p50_ms: float
    """Of a call, for which all queries of a batch wait."""
    p99_ms: float
    bytes_per_item: float | None
    build_s: float | None
    recall: float | None
    """Of the k best by an exhaustive look at embeddings in bytes; None where that means nothing."""
    holds: int

    def fields(self) -> dict[str, Any]:
        """For a line of JSON."""
        return asdict(self)


def measure_speed(settings: SpeedSettings, rows: Sequence[ours.Row] = ours.ROWS) -> list[Speed]:
    """Measure all systems at all numbers of items, with codes that are made up."""
    found = []
    with one_thread(), tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        networks = Path(scratch, "networks")
        networks.mkdir()
        ours.write_network(networks, settings.width, settings.sizes, like_paper=settings.like_paper)
        for count in settings.items:
            folder = Path(scratch, str(count))
            folder.mkdir()
            world = make_world(
                folder,
                count,
                settings.sizes,
                width=settings.width,
                queries=settings.queries,
                seed=settings.seed,
            )
            found += speeds(world, ours.stand_ins(world, networks, rows), settings, rows)
    return found


def speeds(
    world: World, decoders: ours.Decoders, settings: SpeedSettings, rows: Sequence[ours.Row]
) -> list[Speed]:
    """Measure all systems in one world, in turns."""
    k = settings.k
    systems = ours.exhaustive(world, k)
    systems += ours.systems(world, decoders, rows, k=k)
    if settings.libraries and len(world) <= settings.library_items:
        systems += others.faiss_systems(world, graph_items=settings.graph_items, k=k)
        systems.append(others.usearch_system(world, items=settings.graph_items, k=k))
    if settings.hugging_face:
        systems.insert(0, others.hugging_face(world, items=settings.hugging_face_items))
    measure(systems, len(world.vectors), settings.rounds)
    return summed_up(systems, len(world))


def summed_up(systems: Sequence[System], count: int) -> list[Speed]:
    """What was measured, with ratios to Hugging Face's time and recall against looking at everything."""
    by_name = {system.name: system for system in systems}
    baseline = by_name[HF].seconds if HF in by_name else None
    found = []
    for system in systems:
        holds = count if system.items is None else system.items
        truth = by_name.get("scan of bytes km" if system.name.endswith(" km") else "scan of bytes")
        found.append(
            Speed(
                system=system.name,
                n=count,
                queries_per_second=1 / system.seconds,
                ratio_to_hf=None if baseline is None else baseline / system.seconds,
                ms=1000 * system.seconds,
                p50_ms=1000 * system.quantile(0.5),
                p99_ms=1000 * system.quantile(0.99),
                bytes_per_item=system.bytes_per_item,
                build_s=system.build_s,
                recall=None if truth is None or holds < count else _recall(system, truth),
                holds=holds,
            )
        )
    return found


def _recall(system: System, truth: System) -> float | None:
    both = sorted(system.found.keys() & truth.found.keys())
    if not both:
        return None
    shares = [np.isin(truth.found[query], system.found[query]).mean() for query in both]
    return float(np.mean(shares))


def table(found: Sequence[Speed], count: int) -> Table:
    """What was measured at one number of items, ratios first."""
    made = Table(
        ("system", "× HF", "ms", "p99 ms", "queries/s", "bytes/item", "made in s", "recall", "holds"),
        title=f"{count:,} items; a processor's time of one thread",
    )
    for one in found:
        if one.n == count:
            made.add(
                one.system,
                one.ratio_to_hf,
                one.ms,
                one.p99_ms,
                one.queries_per_second,
                one.bytes_per_item,
                one.build_s,
                one.recall,
                one.holds,
            )
    return made


def measure_index(path: Path, settings: SpeedSettings, rows: Sequence[ours.Row] = ours.ROWS) -> list[Speed]:
    """Measure all systems over the items of an index, by its model's decoders, with queries that are like
    some of the items."""
    with one_thread(), Index.open(path) as index:
        world = real_world(index, settings.queries, settings.seed)
        learned = "decoder" in index.model.stages
        known = [row for row in rows if learned or row.decoder is None]
        return speeds(world, ours.trained(index.model, known), settings, known)
