"""An index with a made-up model: all of `Index` but for towers, and beside it what it should find."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np

from genius.data.instructions import clean
from genius.data.records import Item, Query
from genius.decode.geometry import Geometry
from genius.index.index import Index
from genius.index.item_encoder import EncodedItems, EncodeItems
from genius.index.segments import KeptEmbeddings
from genius.index.shard_catalogue import open_catalogue
from genius.index.snapshot import create_index_folder, is_index
from genius.model import Model
from genius.quantize.fusion_inputs import query_kinds
from genius.quantize.quantizer import Quantizer
from genius.quantize.search_settings import SearchSettings
from tests.index.made_up import GIVEN, WIDTH, made_up_codes, made_up_rows, quantized

CODEBOOKS = [np.random.default_rng(7).normal(size=(size, WIDTH)) for size in GIVEN.sizes]


class MadeUpModel:
    """What an index needs of a model."""

    path = Path("nowhere")
    fingerprint = "made up"
    width = vector_width = content_width = WIDTH
    rerank_weight = 0.6
    stages = ("encoder", "quantizer")
    identifier_name = "codes"
    has_code_vectors = True
    uses_features = True
    takes_vectors = False
    has_temperature = True
    search_settings = SearchSettings()

    def __init__(self) -> None:
        self.quantizer = self.code_space = Quantizer(CODEBOOKS, modality_code="given")
        self.geometry = Geometry(CODEBOOKS, 2.0)
        self.encoder = SimpleNamespace(too_long=lambda texts: [False] * len(texts))

    def known_as(self, fingerprint: str) -> MadeUpModel:
        """It was never known by another one."""
        return self

    def fusion_inputs(self, queries: Sequence[Query]) -> Any:
        """Numbers that depend on the text and on the bytes of the image."""
        contents = [
            (query.text or "").encode() + (query.image.read() if query.image else b"") for query in queries
        ]
        rows = [np.random.default_rng(list(content)).normal(size=WIDTH) for content in contents]
        has_image, has_text = (
            np.array([bool(part) for part in parts])
            for parts in ([query.image for query in queries], [query.text for query in queries])
        )
        kinds = query_kinds(has_image, has_text)
        return SimpleNamespace(embeddings=np.array(rows, np.float32), kinds=kinds)

    def vectors(self, parts: Any) -> np.ndarray:
        """The same numbers, the other way round."""
        return np.ascontiguousarray(parts.embeddings[:, ::-1])

    query_vectors = vectors

    def vectors_as_queries(self, vectors: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """The same: items and queries have one space."""
        return vectors

    def rerank_weights(self, kinds: np.ndarray) -> np.ndarray:
        """One for all."""
        return np.full(len(kinds), self.rerank_weight, np.float32)

    read_text = staticmethod(clean)

    def retargeted(self, inputs: Any, rows: np.ndarray, want: np.ndarray) -> Any:
        """The embeddings of queries are the same whatever they want."""
        return SimpleNamespace(embeddings=inputs.embeddings[rows], kinds=inputs.kinds[rows])

    def wanting(self, embeddings: np.ndarray, want: np.ndarray) -> np.ndarray:
        """The same, for items."""
        return embeddings

    def modality_codes_for(self, want: int, count: int) -> np.ndarray:
        """The modality is the first code."""
        return np.full(count, want)

    def unread_words(self, texts: Sequence[str]) -> list[list[str]]:
        """Everything is read."""
        return [[] for _ in texts]

    def query_texts(self, queries: Sequence[Query]) -> tuple[list[str], list[str]]:
        """Of text and instruction."""
        return [query.text or "" for query in queries], [query.instruction or "" for query in queries]


class MadeUpIndex(Index):
    """An index whose items are coded by made-up codes."""

    @contextmanager
    def _item_encoder(self, cache: Path | None, workers: int) -> Iterator[EncodeItems]:
        yield encode


def encode(items: Sequence[Item]) -> EncodedItems:
    """Made-up codes, with the norms of their vectors."""
    encoded = made_up_codes(items)
    norms = 0.5 * (quantized(CODEBOOKS, encoded.codes) ** 2).sum(axis=1)
    return replace(encoded, half_sq_norms=norms.astype(np.float32))


def open_made_up(path: Path) -> MadeUpIndex:
    """The index at `path`, which is made if there is none."""
    if not is_index(path):
        create_index_folder(path, {"model": {"path": "", "fingerprint": ""}, "codes": asdict(GIVEN)})
    return MadeUpIndex(path, open_catalogue(path), cast(Model, MadeUpModel()))


def made(
    path: Path, items: Iterable[Item] = (), embeddings: KeptEmbeddings = "int8", shards: int | None = None
) -> Path:
    """An index of these items, added one after another, so that it has several segments."""
    settings = {
        "model": {"path": "", "fingerprint": MadeUpModel.fingerprint},
        "codes": asdict(replace(GIVEN, embeddings=embeddings)),
    }
    create_index_folder(path, settings, shards)
    with open_made_up(path) as index:
        waiting = list(items)
        while waiting:
            index.add(waiting[: (count := 1 + len(waiting) // 2)])
            waiting = waiting[count:]
    return path


def scores_for_text(items: Mapping[str, Item], text: str) -> dict[str, float]:
    """What items are re-ranked by for a query, from the formula, for every item by its id."""
    model = MadeUpModel()
    embedding = model.fusion_inputs([Query(text=text)]).embeddings[0]
    return scores_for(items, embedding, embedding[::-1])


def scores_for(items: Mapping[str, Item], embedding: np.ndarray, vector: np.ndarray) -> dict[str, float]:
    """The same for a query of this embedding and vector."""
    codes, embeddings = made_up_rows(list(items.values()))
    vectors = quantized(CODEBOOKS, codes)
    code_scores = vectors @ vector - (vectors**2).sum(axis=1) / 2
    scores = MadeUpModel.rerank_weight * (embeddings.astype(np.float32) @ embedding)
    scores = scores + (1 - MadeUpModel.rerank_weight) * code_scores
    return dict(zip(items, scores.tolist(), strict=True))
