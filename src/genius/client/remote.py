"""Items and hits that a service has: what is large or takes long comes when somebody looks at it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any
from urllib.parse import quote

from genius.client.transport import Caller
from genius.data.records import Item
from genius.errors import GeniusError
from genius.index.hits import Hit
from genius.serve.thumbnails import SIZES


def address(id: str) -> str:
    """Where an item is."""
    return f"/items/{quote(id, safe='')}"


@dataclass(frozen=True)
class RemoteImage:
    """The picture of an item that a service has; what comes is written anew, and at most 1536 pixels wide."""

    caller: Caller
    id: str

    @property
    def name(self) -> str:
        """The item's id."""
        return self.id

    def read(self) -> bytes:
        """The bytes, as WebP."""
        found: bytes = self.caller.call("GET", f"{address(self.id)}/image?size={SIZES[-1]}")
        return found


def remote_item(caller: Caller, fields: Mapping[str, Any]) -> Item:
    """An item from what a service says of it."""
    image = RemoteImage(caller, fields["id"]) if fields["has_image"] else None
    return Item(fields["id"], fields["text"], image, fields["metadata"])


def remote_hits(caller: Caller, asked: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> list[Hit]:
    """Hits from what a service answered to what was asked."""
    paths = _Paths(caller, asked)
    return [RemoteHit(paths, remote_item(caller, hit["item"]), hit) for hit in found]


class _Paths:
    """The paths to all hits of a search, for which it is done once more."""

    def __init__(self, caller: Caller, asked: Mapping[str, Any]) -> None:
        self._caller, self._asked = caller, asked

    @cached_property
    def _found(self) -> dict[str, Mapping[str, Any]]:
        answer = self._caller.call("POST", "/search", {**self._asked, "explain": True})
        return {hit["item"]["id"]: hit for hit in answer["hits"]}

    def of(self, id: str, code: tuple[int, ...], name: str) -> tuple[Any, ...]:
        """The path to an item. Raises GeniusError if it is no longer found."""
        hit = self._found.get(id)
        if hit is None or tuple(hit["code"]) != code:
            raise GeniusError(f"the index has changed, and item {id!r} is not found as before: search again")
        return tuple(hit[name])


class RemoteHit(Hit):
    """A hit whose path is asked for when somebody looks at it."""

    def __init__(self, paths: _Paths, item: Item, found: Mapping[str, Any]) -> None:
        known = {name: found[name] for name in ("rank", "score", "cosine")}
        self.__dict__.update(known, item=item, code=tuple(found["code"]), _paths=paths)

    @cached_property
    def log_probabilities(self) -> tuple[float, ...]:
        """Of each level's code, given those before."""
        return self._path("log_probabilities")

    @cached_property
    def below(self) -> tuple[int, ...]:
        """How many items share the beginning of the code, up to each level."""
        return self._path("below")

    def _path(self, name: str) -> tuple[Any, ...]:
        paths: _Paths = self.__dict__["_paths"]
        return paths.of(self.item.id, self.code, name)

    def __reduce__(self) -> tuple[Any, ...]:
        """Sent elsewhere it is a plain hit, as the connection is not."""
        return Hit, tuple(getattr(self, field.name) for field in fields(Hit))
