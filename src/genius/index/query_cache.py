"""What was embedded of texts lately: a query that is asked again, for its next page, with another filter or
by someone else, does not run the encoder once more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence

from genius.index.query_batch import (
    QueryBatch,
    TargetedQuery,
    concatenated,
    embed_queries,
    query_notes,
)
from genius.model import Model

MOST = 1000
"""So many queries are kept: about 4 KB each."""

EmbeddedQuery = tuple[QueryBatch, tuple[str, ...]]
"""What a search needs of one query, and what its user should know of it."""


class QueryCache:
    """Embeds queries by a model, and keeps those of the last texts; threads may share it."""

    def __init__(self, model: Model, most: int = MOST) -> None:
        self._model, self._most = model, most
        self._kept: OrderedDict[Hashable, EmbeddedQuery] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """How many are kept."""
        return len(self._kept)

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._kept.clear()

    def embed(self, queries: Sequence[TargetedQuery]) -> tuple[QueryBatch, list[list[str]]]:
        """What a search needs of queries (`query_batch.embed_queries`), and the notes of each."""
        keys = [_key(query) for query in queries]
        embedded_queries = [self._get(key) for key in keys]
        missing = [place for place, embedded in enumerate(embedded_queries) if embedded is None]
        for place, embedded in zip(
            missing, self._embedded([queries[place] for place in missing]), strict=True
        ):
            embedded_queries[place] = embedded
            self._put(keys[place], embedded)
        known = [embedded for embedded in embedded_queries if embedded is not None]
        return concatenated([batch for batch, _ in known]), [list(notes) for _, notes in known]

    def _embedded(self, queries: Sequence[TargetedQuery]) -> list[EmbeddedQuery]:
        """Each query by itself, embedded together."""
        if not queries:
            return []
        batch, notes = embed_queries(self._model, queries), query_notes(self._model, queries)
        embedded, start = [], 0
        for query, own in zip(queries, notes, strict=True):
            rows = max(1, len(query.modalities))
            embedded.append((batch[slice(start, start + rows)], tuple(own)))
            start += rows
        return embedded

    def _get(self, key: Hashable) -> EmbeddedQuery | None:
        with self._lock:
            if key is None or key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key]

    def _put(self, key: Hashable, embedded: EmbeddedQuery) -> None:
        if key is None:
            return
        with self._lock:
            self._kept[key] = embedded
            while len(self._kept) > self._most:
                self._kept.popitem(last=False)


def _key(query: TargetedQuery) -> Hashable:
    """What tells queries apart; None for those that are not of texts alone."""
    if any(part.image is not None or part.vectors is not None for part in query.contents):
        return None
    texts = tuple((part.text, part.instruction) for part in query.contents)
    return texts, tuple(query.weights), query.modalities
