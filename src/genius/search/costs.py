"""What searching costs, by which `auto` chooses between looking at everything and decoding."""

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
"""Between so many items it depends on machine and decoder which is quicker; with fewer, looking at all is."""

_KNOWN: WeakKeyDictionary[Decoder, Costs] = WeakKeyDictionary()


@dataclass(frozen=True)
class Costs:
    """Seconds on one core; the defaults were measured with 512 numbers an item and geometry as decoder."""

    item: float = 5e-8
    """Of looking at one item in bytes."""
    scan: float = 1.5e-4
    """Of a query that looks at everything, apart from its items."""
    fast: float = 1.5e-3
    """Of a query in the mode `fast`, with the items below its beams."""

    def prefer_scan(self, items: np.ndarray) -> np.ndarray:
        """Whether looking at so many items takes no longer than decoding: bool, of the same shape."""
        return np.asarray(self.scan + self.item * items <= self.fast)


def costs_of(
    engine: Engine, vectors: np.ndarray, joined: np.ndarray | None, first: np.ndarray | None
) -> Costs:
    """What searching costs with an engine's decoder: measured once in a process, and only if that matters."""
    if engine.decoder not in _KNOWN:
        if not UNCLEAR[0] <= len(engine) <= UNCLEAR[1]:
            return Costs()
        _KNOWN[engine.decoder] = measured(engine, vectors, joined, first)
    return _KNOWN[engine.decoder]


def measured(
    engine: Engine, vectors: np.ndarray, joined: np.ndarray | None, first: np.ndarray | None
) -> Costs:
    """What the first query takes in an engine, and what looking at items does: medians, after a warm-up."""
    vectors, joined = vectors[:1], None if joined is None else joined[:1]
    first = None if first is None else first[:1]
    asked = engine.compared(engine.find(vectors, mode="scan"), joined)
    part = replace(max(engine.parts, key=len), allowed=None)  # to skip an item is not to look at it

    def look(items: int) -> None:
        rank([part], np.array([0, 1]), np.array([[0]]), np.array([[items]]), asked, 10)

    items = min(len(part), ITEMS)
    one, many = _seconds(lambda: look(1)), _seconds(lambda: look(items))
    fast = _seconds(lambda: engine.search(vectors, joined, first=first, mode="fast"))
    return Costs(max(many - one, 0) / items, one, fast)


def _seconds(work: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS + 1):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times[1:]))
