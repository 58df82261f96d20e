"""DSI's semantically structured identifiers: a path in a tree of clusters of ten, then a number.

Papers: https://arxiv.org/abs/2202.06991 (DSI) and https://arxiv.org/abs/2206.02743 (NCI).
Known (from what others write of them, GENIUS's section 2 among them, not from the authors' code): documents'
embeddings are clustered into ten, a cluster of more than a hundred again, and the last part numbers the
documents of a leaf; one T5 learns "document → identifier" and "query → identifier" together. NCI has trees of
30, an encoder-decoder whose decoder knows the level, and generated queries.
Ours: the tree of `structured` with DSI's two numbers, over embeddings of stage 0; a number is one symbol and
not two digits; the decoder reads an embedding and not the words of a document; no generated queries.
Size: about 5 to 8 levels of 11 symbols and one of 512, below 45 bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from genius.identifiers.structured import Structured


@dataclass(frozen=True)
class Dsi(Structured):
    """Paths in a tree whose clusters are divided into ten."""

    branching: ClassVar[int] = 10
    leaf: ClassVar[int] = 100
