"""Random pools of codes and queries for the tests of the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

from genius.search import codes as packed
from genius.search.beam import Found
from genius.search.codes import PackedCodes
from genius.search.segment_view import Part
from tests.search.test_beam import Table


@dataclass
class Pool:
    """Codes in one or several parts, of which some rows may be hidden."""

    table: Table
    codes: np.ndarray
    part_of: np.ndarray
    hidden: np.ndarray
    semantic: int
    large: bool
    queries: int
    first: np.ndarray | None

    @property
    def shown(self) -> np.ndarray:
        return np.flatnonzero(~self.hidden)

    @property
    def vectors(self) -> np.ndarray:
        return np.arange(self.queries, dtype=np.float32)[:, None]

    def parts(self, masked: bool = True) -> tuple[list[Part], list[np.ndarray]]:
        """The parts, and the item of each of their rows."""
        parts, items = [], []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(packed, "FEWEST", 0 if self.large else 45_000)
            patch.setattr(packed, "SHARE", 1e6)
            for number in np.unique(self.part_of):
                mine = np.flatnonzero(self.part_of == number)
                made, order = PackedCodes.build(self.codes[mine], self.table.sizes, self.semantic)
                allowed = ~self.hidden[mine][order] if masked and self.hidden.any() else None
                parts.append(Part(made, allowed))
                items.append(mine[order])
        return parts, items


@st.composite
def pools(draw: st.DrawFn, several: bool = True) -> Pool:
    levels = draw(st.integers(2, 9))
    sizes = [draw(st.integers(1, 3))] + [
        draw(st.sampled_from([2, 3, 5, 300, 4096])) for _ in range(levels - 1)
    ]
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    used = [min(size, draw(st.sampled_from([1, 2, 4]))) for size in sizes]  # few: long runs that are shared
    count = draw(st.integers(1, 40))
    codes = rng.integers(0, used, (count, levels))
    if draw(st.booleans()):  # all alike until the last levels
        codes[:, : min(6, levels - 1)] = codes[0, : min(6, levels - 1)]
    queries = draw(st.integers(0, 4))
    first = draw(st.none() | st.lists(st.integers(-1, sizes[0]), min_size=queries, max_size=queries))
    return Pool(
        Table(sizes, draw(st.integers(0, 99))),
        codes,
        rng.integers(0, draw(st.integers(1, 3 if several else 1)), count),
        rng.random(count) < (draw(st.sampled_from([0, 0.3, 0.9])) if several else 0),
        draw(st.integers(0, 1)),
        draw(st.booleans()),
        queries,
        None if first is None else np.array(first, np.int64),
    )


def items_below(pool: Pool, found: Found, items: list[np.ndarray], query: int) -> list[set[int]]:
    """The items that are shown below each prefix of a query."""
    shown = set(pool.shown.tolist())
    return [
        {
            int(item)
            for part, numbers in enumerate(items)
            for item in numbers[found.starts[part, prefix] : found.ends[part, prefix]]
        }
        & shown
        for prefix in range(found.bounds[query], found.bounds[query + 1])
    ]
