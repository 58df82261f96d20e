"""What searching costs, by which the mode `auto` chooses between scanning and decoding."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from genius.decode.decoder import Decoder
from genius.search.rerank import rank

if TYPE_CHECKING:
    from genius.search.engine import Engine

ROUNDS = 5
ITEMS = 20_000

UNCLEAR = (5_000, 1_000_000)
"""Between so many items it depends on machine and decoder which is quicker; with fewer, scanning is."""

_MEASURED: WeakKeyDictionary[Decoder, Costs] = WeakKeyDictionary()


@dataclass(frozen=True)
class Costs:
    """Seconds on one core; the defaults were measured with 512 numbers an item and geometry as decoder."""

    item: float = 5e-8
    """Of scoring one item by its int8 embedding."""
    scan: float = 1.5e-4
    """Of a query that scans everything, apart from its items."""
    fast: float = 1.5e-3
    """Of a query in the mode `fast`, with the items below its beams."""

    def prefer_scan(self, items: np.ndarray) -> np.ndarray:
        """Whether scanning so many items takes no longer than decoding: bool, of the same shape."""
        return np.asarray(self.scan + self.item * items <= self.fast)


def costs_of(
    engine: Engine, vectors: np.ndarray, embeddings: np.ndarray | None, modality_code: np.ndarray | None
) -> Costs:
    """What searching costs with an engine's decoder: measured once in a process, and only if that matters."""
    if engine.decoder not in _MEASURED:
        if not UNCLEAR[0] <= len(engine) <= UNCLEAR[1]:
            return Costs()
        _MEASURED[engine.decoder] = measure(engine, vectors, embeddings, modality_code)
    return _MEASURED[engine.decoder]


def measure(
    engine: Engine, vectors: np.ndarray, embeddings: np.ndarray | None, modality_code: np.ndarray | None
) -> Costs:
    """The times of the first query in an engine, and of scoring an item: medians, after a warm-up."""
    vectors, embeddings = vectors[:1], None if embeddings is None else embeddings[:1]
    modality_code = None if modality_code is None else modality_code[:1]
    scorer = engine.scorer(engine.find(vectors, mode="scan"), embeddings)
    segment = replace(max(engine.segments, key=len), allowed=None)  # to skip an item is not to score it

    def score(items: int) -> None:
        rank([segment], np.array([0, 1]), np.array([[0]]), np.array([[items]]), scorer, 10)

    items = min(len(segment), ITEMS)
    single, many = _seconds(lambda: score(1)), _seconds(lambda: score(items))
    fast = _seconds(lambda: engine.search(vectors, embeddings, modality_code=modality_code, mode="fast"))
    return Costs(max(many - single, 0) / items, single, fast)


def _seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))
