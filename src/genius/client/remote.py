"""Items and hits of a service; images and the paths of hits are fetched when they are first read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

from genius.client.transport import Transport, item_path
from genius.data.records import Item
from genius.errors import GeniusError
from genius.index.hits import Hit, Hits
from genius.serve.thumbnails import SIZES


@dataclass(frozen=True)
class RemoteImage:
    """The image of a service's item; it comes encoded anew, and at most 1536 pixels wide."""

    transport: Transport
    id: str

    @property
    def name(self) -> str:
        """The item's id."""
        return self.id

    def read(self) -> bytes:
        """The bytes, as WebP."""
        content: bytes = self.transport.call("GET", f"{item_path(self.id)}/image?size={SIZES[-1]}")
        return content


def remote_item(transport: Transport, fields: Mapping[str, Any]) -> Item:
    """An item from its JSON fields."""
    image = RemoteImage(transport, fields["id"]) if fields["has_image"] else None
    return Item(fields["id"], fields["text"], image, fields["metadata"])


def remote_hits(
    transport: Transport, request: Mapping[str, Any], answer: Mapping[str, Any], *, rerank: bool
) -> Hits:
    """The hits of a service's answer to a search request; only the requested ranking is there."""
    paths = _Paths(transport, request)
    hits: list[Hit] = [RemoteHit(paths, remote_item(transport, hit["item"]), hit) for hit in answer["hits"]]
    return Hits(
        [] if rerank else hits,
        hits if rerank else [],
        rerank=rerank,
        notes=answer["notes"],
        mode=answer["mode"],
        decoder=answer["decoder"],
        under=answer["num_candidates"],
    )


class _Paths:
    """The paths to all hits of a search, for which it is done once more."""

    def __init__(self, transport: Transport, request: Mapping[str, Any]) -> None:
        self._transport, self._request = transport, request

    @cached_property
    def _hits(self) -> dict[str, Mapping[str, Any]]:
        answer = self._transport.call("POST", "/search", {**self._request, "explain": True})
        return {hit["item"]["id"]: hit for hit in answer["hits"]}

    def get(self, id: str, code: tuple[int, ...], name: str) -> tuple[Any, ...]:
        """A field of the path to an item. Raises GeniusError if the item is no longer found."""
        hit = self._hits.get(id)
        if hit is None or tuple(hit["code"]) != code:
            raise GeniusError(f"the index has changed, and item {id!r} is not found as before: search again")
        return tuple(hit[name])


class RemoteHit(Hit):
    """A hit whose path is fetched when it is first read."""

    def __init__(self, paths: _Paths, item: Item, answer: Mapping[str, Any]) -> None:
        known = {name: answer[name] for name in ("rank", "score", "cosine")}
        self.__dict__.update(known, item=item, code=tuple(answer["code"]), _paths=paths)

    @cached_property
    def log_probabilities(self) -> tuple[float, ...]:
        """The log-probability of each level's code given those before."""
        return self._path("log_probabilities")

    @cached_property
    def below(self) -> tuple[int, ...]:
        """The number of items that share the code up to each level."""
        return self._path("prefix_counts")

    def _path(self, name: str) -> tuple[Any, ...]:
        paths: _Paths = self.__dict__["_paths"]
        return paths.get(self.item.id, self.code, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled, it is a plain hit with its path, as a connection can't be pickled."""
        return Hit, tuple(getattr(self, field.name) for field in fields(Hit))
