"""The vocabulary's words as queries of a model, embedded once."""

from __future__ import annotations

import numpy as np

from genius.collection.vocabulary import VOCABULARY
from genius.data.records import Query
from genius.errors import GeniusError
from genius.index.query import SearchOptions
from genius.index.query_batch import QueryBatch, embed_queries, targeted
from genius.model import Model

BLOCK = 128
"""How many words are embedded at a time."""
_embedded: dict[str, list[QueryBatch]] = {}


def word_vectors(model: Model, width: int) -> np.ndarray | None:
    """What the vocabulary's words look for among images, float32 [words, width]; None if the model reads no
    words, or has no vectors of that width."""
    if model.takes_vectors:
        return None
    if model.fingerprint not in _embedded:
        options = SearchOptions.of(only="image")
        queries = [targeted(Query(text=word), options, {}) for word in VOCABULARY]
        try:
            batches = [
                embed_queries(model, queries[start : start + BLOCK])
                for start in range(0, len(queries), BLOCK)
            ]
        except GeniusError:  # albums are of use without names, too
            return None
        _embedded.clear()  # of the last model only
        _embedded[model.fingerprint] = batches
    for name in ("embeddings", "vectors"):
        rows = np.concatenate([getattr(batch, name) for batch in _embedded[model.fingerprint]])
        if rows.shape[1] == width:
            return rows
    return None
