"""A shard that answers for itself: what a replica of it does, on whatever machine it runs.

What it returns can be sent to another process: hits with their similarities instead of confidences, and
without the paths that led to them, which take another call (`Shard.paths`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from genius import __version__
from genius.decode.geometry import Geometry
from genius.index.answers import EncodedQueries
from genius.index.hits import NO_PATH, Hit, Hits
from genius.index.index import Index
from genius.index.query import SearchOptions
from genius.index.shard_answers import ShardSearch
from genius.search.explain import prefix_counts


@dataclass(frozen=True, eq=False)
class ShardPaths:
    """What a shard knows of the paths to hits, its own and those of other shards.

    Attributes:
        log_probabilities: of its own hits, by id.
        prefix_counts: how many of its items share the prefixes of codes, int64 [codes, levels].
    """

    log_probabilities: Mapping[str, tuple[float, ...]]
    prefix_counts: np.ndarray


class Shard(Index):
    """A shard of an index, or a whole one, that answers what a router asks."""

    _pool_geometry: Geometry | None = None

    def about(self) -> dict[str, Any]:
        """What a router compares with what it expects."""
        return {"genius": __version__, "model": self.model.fingerprint, "path": str(self.path)}

    def answer(
        self, encoded: Sequence[EncodedQueries], options: SearchOptions, temperature: float | None
    ) -> list[Hits]:
        """What it has for queries, by the options of `shard_options`.

        `temperature` is that of the geometry of the whole, if the model has none of its own.
        """
        return [_sendable(hits) for hits in self._own(options, temperature).answer_encoded(encoded)]

    def encode_item(self, id: str, options: SearchOptions) -> EncodedQueries:
        """An item of its own as a query. Raises InputError for one that is not here."""
        return self._own(options, None).encode_item(id)

    def paths(
        self, encoded: EncodedQueries, options: SearchOptions, temperature: float | None, codes: np.ndarray
    ) -> ShardPaths:
        """What it knows of the paths to the hits of one query, whose codes [n, levels] these are."""
        own = self._own(options, temperature).answer_encoded([encoded])[0]
        log_probabilities = {hit.item.id: hit.log_probabilities for hit in (*own.plain, *own.reranked)}
        with self._reading() as snapshot:
            counts = np.zeros(codes.shape, np.int64)
            if len(snapshot):
                excluded = list(self._catalogue.keys_of(options.exclude).values())
                selection = snapshot.filters.select(self._catalogue, options.condition, excluded)
                counts = prefix_counts(selection.searcher.views, codes)
        return ShardPaths(log_probabilities, counts)

    def _own(self, options: SearchOptions, temperature: float | None) -> ShardSearch:
        search, geometry = self._search(options), None
        if temperature is not None:
            geometry = self._pool_geometry
            if geometry is None or geometry.temperature != temperature:
                geometry = self._pool_geometry = Geometry(self.model.quantizer.codebooks, temperature)
        return ShardSearch(**vars(search), geometry=geometry)


def _sendable(hits: Hits) -> Hits:
    def without_paths(ranking: Sequence[Hit]) -> list[Hit]:
        return [replace(hit, path=NO_PATH) for hit in ranking]

    plain, reranked = without_paths(hits.plain), without_paths(hits.reranked)
    return Hits(
        plain,
        reranked,
        rerank=False,
        notes=(),
        mode=hits.mode,
        decoder=hits.decoder,
        num_candidates=hits.num_candidates,
        searched=hits.searched,
    )
