"""Items and hits of a service; images and the paths of hits are fetched when they are first read."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from genius.client.replicas import Replicas
from genius.client.transport import Transport, item_path
from genius.data.records import Item
from genius.errors import GeniusError
from genius.index.facets import Facet
from genius.index.hits import NO_PATH, Hit, Hits, KnownConfidence
from genius.serve.thumbnails import SIZES


@dataclass(frozen=True)
class RemoteImage:
    """The image of a service's item; it comes encoded anew, and at most 1536 pixels wide."""

    transport: Transport | Replicas
    id: str

    @property
    def name(self) -> str:
        """The item's id."""
        return self.id

    def read(self) -> bytes:
        """The bytes, as WebP."""
        content: bytes = self.transport.call("GET", f"{item_path(self.id)}/image?size={SIZES[-1]}")
        return content


def remote_item(transport: Transport | Replicas, fields: Mapping[str, Any]) -> Item:
    """An item from its JSON fields."""
    image = RemoteImage(transport, fields["id"]) if fields["has_image"] else None
    return Item(fields["id"], fields["text"], image, fields["metadata"])


def remote_facet(fields: Mapping[str, Any]) -> Facet:
    """A facet from its JSON fields."""
    values = tuple((listed["value"], listed["count"]) for listed in fields["values"])
    return Facet(**{**fields, "values": values})


def remote_hits(
    transport: Transport | Replicas, request: Mapping[str, Any], answer: Mapping[str, Any], *, rerank: bool
) -> Hits:
    """The hits of a service's answer to a search request; only the requested ranking is there."""
    explanation = _Explanation(transport, request)
    hits = [_remote_hit(transport, explanation, hit) for hit in answer["hits"]]
    return Hits(
        [] if rerank else hits,
        hits if rerank else [],
        rerank=rerank,
        notes=answer["notes"],
        mode=answer["mode"],
        decoder=answer["decoder"],
        num_candidates=answer["num_candidates"],
        total=answer["total"],
        nearest=None if answer["nearest"] is None else _remote_hit(transport, explanation, answer["nearest"]),
        missing_shards=answer["missing_shards"],
    )


def _remote_hit(transport: Transport | Replicas, explanation: _Explanation, fields: Mapping[str, Any]) -> Hit:
    item, code = remote_item(transport, fields["item"]), tuple(fields["code"])
    if fields["score"] is None:  # browsed, without a query
        return Hit(item, fields["rank"], math.nan, math.nan, code, NO_PATH)
    path = RemotePath(explanation, item.id, code)
    confidence = math.nan if fields["confidence"] is None else fields["confidence"]
    judgement = KnownConfidence(confidence)
    return Hit(item, fields["rank"], fields["score"], fields["cosine"], code, path, judgement)


class _Explanation:
    """The answer to a search request with the paths to all hits, for which it is sent once more."""

    def __init__(self, transport: Transport | Replicas, request: Mapping[str, Any]) -> None:
        self._transport, self._request = transport, request

    @cached_property
    def hits(self) -> dict[str, Mapping[str, Any]]:
        """The hits by item id."""
        answer = self._transport.call("POST", "/search", {**self._request, "explain": True})
        return {hit["item"]["id"]: hit for hit in answer["hits"]}


@dataclass(frozen=True)
class RemotePath:
    """The path to a hit, fetched when it is first read (`hits.CodePath`)."""

    explanation: _Explanation
    id: str
    code: tuple[int, ...]

    @property
    def log_probabilities(self) -> tuple[float, ...]:
        """The log-probability of each level's code given those before."""
        return self._field("log_probabilities")

    @property
    def prefix_counts(self) -> tuple[int, ...]:
        """The number of items that share the code up to each level."""
        return self._field("prefix_counts")

    def _field(self, name: str) -> tuple[Any, ...]:
        """A field of the hit. Raises GeniusError if the item is no longer found."""
        hit = self.explanation.hits.get(self.id)
        if hit is None or tuple(hit["code"]) != self.code:
            raise GeniusError(
                f"the index has changed, and item {self.id!r} is not found as before: search again"
            )
        return tuple(hit[name])
