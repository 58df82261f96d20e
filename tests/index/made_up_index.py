"""An index with a made-up model: all of `Index` but for towers, and beside it what it should find."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from genius.data.records import Item, Query
from genius.decode.geometry import Geometry
from genius.index.catalogue import Catalogue
from genius.index.index import Index
from genius.index.item_encoder import CodedItems
from genius.index.snapshot import is_index, make_folder
from genius.model import Model
from genius.quantize.quantizer import Quantizer
from tests.index.made_up import CODING, WIDTH, made_up_codes

_BOOKS = [np.random.default_rng(7).normal(size=(size, WIDTH)) for size in CODING.sizes]


class MadeUpModel:
    """What an index asks of a model."""

    path = Path("nowhere")
    fingerprint = "made up"
    width = WIDTH
    rerank_weight = 0.6
    stages = ("encoder", "quantizer")
    uses_features = True

    def __init__(self) -> None:
        self.quantizer = Quantizer(_BOOKS, modality_code="given")
        self.geometry = Geometry(_BOOKS, 2.0)
        self.encoder = SimpleNamespace(too_long=lambda texts: [False] * len(texts))

    def fusion_inputs(self, queries: Sequence[Query]) -> Any:
        """Numbers that depend on the text alone."""
        rows = [
            np.random.default_rng(list((query.text or "").encode())).normal(size=WIDTH) for query in queries
        ]
        return SimpleNamespace(embeddings=np.array(rows, np.float32))

    def vectors(self, parts: Any) -> np.ndarray:
        """The same numbers, the other way round."""
        return np.ascontiguousarray(parts.embeddings[:, ::-1])

    def modality_codes_for(self, want: int, count: int) -> np.ndarray:
        """The modality is the first code."""
        return np.full(count, want)

    def query_texts(self, queries: Sequence[Query]) -> tuple[list[str], list[str]]:
        """Of text and instruction."""
        return [query.text or "" for query in queries], [query.instruction or "" for query in queries]


class MadeUpIndex(Index):
    """An index whose items are coded by made-up codes."""

    @contextmanager
    def _coder(self, cache: Path | None, workers: int) -> Iterator[Callable[[Sequence[Item]], CodedItems]]:
        yield coded


def coded(items: Sequence[Item]) -> CodedItems:
    """Made-up codes, with the lengths of their vectors."""
    found = made_up_codes(items)
    quantized = Quantizer(_BOOKS, modality_code="given").reconstruct(found.codes)
    return CodedItems(
        **{**vars(found), "halves": (0.5 * (quantized**2).sum(1)).astype(np.float32)},
    )


def open_made_up(path: Path) -> MadeUpIndex:
    """The index at `path`, which is made if there is none."""
    if not is_index(path):
        make_folder(path, {"model": {"path": "", "fingerprint": ""}, "coding": vars(CODING)})
    return MadeUpIndex(path, Catalogue(path), cast(Model, MadeUpModel()))


def likeness(items: Mapping[str, Item], text: str) -> dict[str, float]:
    """By which items are re-ranked for a query, from the formula, looking at every one."""
    model = MadeUpModel()
    embeddings = model.fusion_inputs([Query(text=text)]).embeddings[0]
    return like(items, embeddings, embeddings[::-1])


def like(items: Mapping[str, Item], embeddings: np.ndarray, vector: np.ndarray) -> dict[str, float]:
    """The same for a query of this embedding and vector."""
    made = coded(list(items.values()))
    quantized = sum(book[made.codes[:, level]] for level, book in enumerate(_BOOKS))
    near = quantized @ vector - (np.asarray(quantized) ** 2).sum(1) / 2
    scores = MadeUpModel.rerank_weight * (made.embeddings.astype(np.float32) @ embeddings)
    scores = scores + (1 - MadeUpModel.rerank_weight) * near
    return dict(zip(items, scores.tolist(), strict=True))
