"""Random pools of codes and queries for the tests of the engine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import strategies as st

from genius.search import codes as code_layout
from genius.search.beam import BeamResult
from genius.search.codes import PackedCodes
from genius.search.segment_view import SegmentView
from tests.search.table_decoder import TableDecoder


@dataclass
class SegmentedPool:
    """Items by number with their codes, in one or several segments, where some may be hidden; and queries."""

    decoder: TableDecoder
    codes: np.ndarray
    segment_of: np.ndarray
    hidden: np.ndarray
    semantic: int
    large: bool
    queries: int
    modality_code: np.ndarray | None

    @property
    def shown(self) -> np.ndarray:
        """The numbers of the items that are not hidden."""
        return np.flatnonzero(~self.hidden)

    @property
    def vectors(self) -> np.ndarray:
        """Of the queries: their numbers, as `TableDecoder` takes them."""
        return np.arange(self.queries, dtype=np.float32)[:, None]

    def wanted(self, query: int) -> int:
        """The modality code that a query wants, -1 for any."""
        return -1 if self.modality_code is None else int(self.modality_code[query])

    def items_of(self, query: int) -> list[int]:
        """The shown items that have the modality code that a query wants."""
        wanted = self.wanted(query)
        return [int(item) for item in self.shown if wanted < 0 or self.codes[item, 0] == wanted]

    def segments(self) -> tuple[list[SegmentView], list[np.ndarray]]:
        """The segments, and the item of each of their rows."""
        views, items = [], []
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(code_layout, "MIN_ITEMS_FOR_CELLS", 0 if self.large else 45_000)
            patch.setattr(code_layout, "MAX_CELL_BYTES", 1e6)
            for number in np.unique(self.segment_of):
                own = np.flatnonzero(self.segment_of == number)
                packed, order = PackedCodes.build(self.codes[own], self.decoder.sizes, self.semantic)
                views.append(SegmentView(packed, ~self.hidden[own][order] if self.hidden.any() else None))
                items.append(own[order])
        return views, items


@st.composite
def pools(draw: st.DrawFn, several: bool = True) -> SegmentedPool:
    """Pools of up to 40 items; without `several`, in one segment with nothing hidden.

    Codes take any number of bits up to 209: one word, or several.
    """
    wide = draw(st.sampled_from([False, False, True]))
    levels = draw(st.sampled_from([12, 14, 17]) if wide else st.integers(2, 9))
    semantic_sizes = draw(st.sampled_from([[300, 4096, 8192], [8192]])) if wide else [2, 3, 5, 300, 4096]
    sizes = [draw(st.integers(1, 3))] + [draw(st.sampled_from(semantic_sizes)) for _ in range(levels - 1)]
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    used = [min(size, draw(st.sampled_from([1, 2, 4]))) for size in sizes]  # few: long runs that are shared
    count = draw(st.integers(1, 40))
    codes = rng.integers(0, used, (count, levels))
    if draw(st.booleans()):  # the highest codes, too: their bits are ones
        codes[:, 1:] = (np.array(sizes) - 1 - codes)[:, 1:]
    if draw(st.booleans()):  # all alike until the last levels
        alike = draw(st.sampled_from([levels - 3, levels - 2, levels - 1])) if wide else min(6, levels - 1)
        codes[:, :alike] = codes[0, :alike]
    queries = draw(st.integers(0, 4))
    wanted = draw(st.none() | st.lists(st.integers(-1, sizes[0]), min_size=queries, max_size=queries))
    return SegmentedPool(
        TableDecoder(sizes, draw(st.integers(0, 99))),
        codes,
        rng.integers(0, draw(st.integers(1, 3 if several else 1)), count),
        rng.random(count) < (draw(st.sampled_from([0, 0.3, 0.9])) if several else 0),
        draw(st.integers(0, 1)),
        draw(st.booleans()),
        queries,
        None if wanted is None else np.array(wanted, np.int64),
    )


def items_below(
    pool: SegmentedPool, result: BeamResult, items: list[np.ndarray], query: int
) -> list[set[int]]:
    """The shown items below each prefix of a query; `items` are those of the segments' rows."""
    shown = set(pool.shown.tolist())
    return [
        {
            int(item)
            for segment, numbers in enumerate(items)
            for item in numbers[result.starts[segment, prefix] : result.ends[segment, prefix]]
        }
        & shown
        for prefix in range(result.bounds[query], result.bounds[query + 1])
    ]
