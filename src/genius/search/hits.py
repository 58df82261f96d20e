"""What a search found: the items, and on the way to them what is below the beams."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from genius.search.beam import Found

Mode = Literal["paper", "exact", "safe", "fast", "scan", "auto"]
MODES: tuple[Mode, ...] = get_args(Mode)


@dataclass(frozen=True, eq=False)
class Hits:
    """What was found for each query, best first; filled up with -1 and -inf. k is at most the number of rows.

    Attributes:
        rows: sorted rows, those of all parts numbered one after another, int64 [queries, k].
        numbers: what those rows are called (`Part.numbers`), int64 [queries, k].
        likeness: by embeddings, codes or both, as the engine weighs them, float32 [queries, k].
        totals: the summed log-probability of the codes that were searched, float32 [queries, k].
        gains: each level's part of it, float32 [queries, k, levels]; NaN for levels that were not searched.
        depths: how many levels were searched, int64 [queries].
        below: how many items there were to choose from, int64 [queries].
        modes: in which mode each query was searched.
    """

    rows: np.ndarray
    numbers: np.ndarray
    likeness: np.ndarray
    totals: np.ndarray
    gains: np.ndarray
    depths: np.ndarray
    below: np.ndarray
    modes: tuple[Mode, ...]


@dataclass(frozen=True, eq=False)
class Search:
    """What is below the beams of each query, and in which mode that was found."""

    vectors: np.ndarray
    found: Found
    modes: tuple[Mode, ...]
