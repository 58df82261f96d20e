"""Queries per second beside rival systems, for several numbers of items, in one run."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench import rivals, systems
from genius.bench.systems import SPECS, DecodersByPrecision, SystemSpec
from genius.bench.timing import TimedSystem, one_thread, time_in_turns
from genius.bench.world import World, make_world, world_of_index
from genius.display import Table
from genius.errors import InputError
from genius.index.index import Index

PAPER_SIZES = (3, *[4096] * 8)
"""The paper's codes: a modality code, and eight levels of 4096."""
OUR_SIZES = (3, *[1024] * 4, *[4096] * 4)
"""The codes of our own recipe for 10⁵ items."""
HUGGING_FACE = "HF generate"


@dataclass(frozen=True)
class SpeedSettings:
    """What is measured; the defaults take about a minute. Raises InputError for settings that can't be."""

    items: tuple[int, ...] = (10_000, 100_000)
    width: int = 512
    """The width of embeddings."""
    queries: int = 64
    rounds: int = 5
    k: int = 10
    paper_sizes: bool = True
    """Whether network and codes have the paper's sizes; otherwise our own defaults."""
    hugging_face: bool = True
    hugging_face_items: int = 20_000
    """The most items in its dictionary: a million take several gigabytes."""
    libraries: bool = True
    graph_items: int = 20_000
    """The most items in an HNSW graph: building one of a million takes minutes."""
    library_items: int = 1_000_000
    """With more items than this, faiss and usearch are not measured."""
    seed: int = 0

    @property
    def code_sizes(self) -> tuple[int, ...]:
        """The number of codes of each level."""
        return PAPER_SIZES if self.paper_sizes else OUR_SIZES

    def __post_init__(self) -> None:
        if not self.items or min(self.items) < 100:
            raise InputError("a benchmark needs at least 100 items")
        if min(self.width, self.queries, self.rounds, self.k) < 1:
            raise InputError("width, queries, rounds and k should be at least 1")


@dataclass(frozen=True)
class Speed:
    """The speed of one system at one number of items, in processor time of one thread."""

    system: str
    n: int
    queries_per_second: float
    ratio_to_hf: float | None
    ms: float
    """Per query: the time of a call divided by its batch size."""
    p50_ms: float
    """Per call; every query of a batch waits that long."""
    p99_ms: float
    bytes_per_item: float | None
    build_s: float | None
    recall: float | None
    """The share of the k best items by an exhaustive scan of int8 embeddings; None if not comparable."""
    holds: int
    """The number of items that the system holds."""

    def fields(self) -> dict[str, Any]:
        """The figures for a line of JSON."""
        return asdict(self)


def measure_speed(settings: SpeedSettings, specs: Sequence[SystemSpec] = SPECS) -> list[Speed]:
    """Measure all systems at all numbers of items, over synthetic items."""
    speeds = []
    with one_thread():
        for world, _, networks in synthetic_worlds(settings):
            decoders = systems.stand_in_decoders(world, networks, specs)
            speeds += measure_world(world, decoders, settings, specs)
    return speeds


def measure_index_speed(
    path: Path, settings: SpeedSettings, specs: Sequence[SystemSpec] = SPECS
) -> list[Speed]:
    """Measure all systems over the items of an index, by its model's decoders.

    Queries are like some of the items. Without a learned decoder, only geometry is measured.
    """
    with one_thread(), Index.open(path) as index:
        world = world_of_index(index, settings.queries, settings.seed)
        learned = "decoder" in index.model.stages
        usable = [spec for spec in specs if learned or spec.precision is None]
        return measure_world(world, systems.trained_decoders(index, usable), settings, usable)


def synthetic_worlds(settings: SpeedSettings) -> Iterator[tuple[World, Path, Path]]:
    """For each number of items a world, its folder, and the folder of untrained networks.

    The folders are temporary: they are deleted when the iterator ends.
    """
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as scratch:
        networks = Path(scratch, "networks")
        networks.mkdir()
        sizes = settings.code_sizes
        systems.write_network(networks, settings.width, sizes, paper_sizes=settings.paper_sizes)
        for count in settings.items:
            folder = Path(scratch, str(count))
            folder.mkdir()
            width, queries, seed = settings.width, settings.queries, settings.seed
            world = make_world(folder, count, sizes, width=width, queries=queries, seed=seed)
            yield world, folder, networks


def measure_world(
    world: World, decoders: DecodersByPrecision, settings: SpeedSettings, specs: Sequence[SystemSpec]
) -> list[Speed]:
    """Measure all systems over one world, in turns."""
    k = settings.k
    timed = systems.scan_systems(world, k)
    timed += systems.engine_systems(world, decoders, specs, k=k)
    if settings.libraries and len(world) <= settings.library_items:
        timed += rivals.faiss_systems(world, graph_items=settings.graph_items, k=k)
        timed.append(rivals.usearch_system(world, items=settings.graph_items, k=k))
    if settings.hugging_face:
        timed.insert(0, rivals.hugging_face_system(world, items=settings.hugging_face_items))
    time_in_turns(timed, len(world.query_vectors), settings.rounds)
    return summarise(timed, len(world))


def summarise(timed: Sequence[TimedSystem], count: int) -> list[Speed]:
    """The speeds of systems over `count` items, with ratios to Hugging Face and recall against a scan."""
    by_name = {system.name: system for system in timed}
    baseline = by_name[HUGGING_FACE].seconds if HUGGING_FACE in by_name else None
    speeds = []
    for system in timed:
        holds = count if system.num_items is None else system.num_items
        truth = by_name.get("scan of bytes km" if system.name.endswith(" km") else "scan of bytes")
        speeds.append(
            Speed(
                system=system.name,
                n=count,
                queries_per_second=1 / system.seconds,
                ratio_to_hf=None if baseline is None else baseline / system.seconds,
                ms=1000 * system.seconds,
                p50_ms=1000 * system.call_quantile(0.5),
                p99_ms=1000 * system.call_quantile(0.99),
                bytes_per_item=system.bytes_per_item,
                build_s=system.build_s,
                recall=None if truth is None or holds < count else _recall(system, truth),
                holds=holds,
            )
        )
    return speeds


def _recall(system: TimedSystem, truth: TimedSystem) -> float | None:
    """The mean share of the true results that a system found, over queries that both answered."""
    both = sorted(system.results.keys() & truth.results.keys())
    if not both:
        return None
    shares = [np.isin(truth.results[query], system.results[query]).mean() for query in both]
    return float(np.mean(shares))


def table(speeds: Sequence[Speed], count: int) -> Table:
    """The speeds at one number of items, ratios first."""
    rows = Table(
        ("system", "× HF", "ms", "p99 ms", "queries/s", "bytes/item", "built in s", "recall", "holds"),
        title=f"{count:,} items; processor time of one thread",
    )
    for speed in speeds:
        if speed.n == count:
            rows.add(
                speed.system,
                speed.ratio_to_hf,
                speed.ms,
                speed.p99_ms,
                speed.queries_per_second,
                speed.bytes_per_item,
                speed.build_s,
                speed.recall,
                speed.holds,
            )
    return rows
