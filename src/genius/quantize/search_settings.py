"""How the codes of a model are searched."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class SearchSettings:
    """How codes are searched. The defaults find most; the other values are the reference code's."""

    force_modality: bool = True
    """Whether a query that wants a modality starts behind the first code that stands for it; otherwise only
    items of that modality are searched, whatever their first code is."""
    more_beams: bool = True
    """Whether the mode `paper` follows more beams where these lead to fewer items than asked for."""
    bucket_order: Literal["score", "added"] = "score"
    """The order of items with one and the same code where codes alone rank them by log-probability: by score,
    or as they were added."""
    query_bits: Literal[16, 32] = 32
    """The precision of queries' embeddings when they are compared with those of items, which are kept in 16
    bits."""
