"""The collection as a whole, for requests: albums, duplicates, odd ones, samples, computed once a version."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from genius.collection.albums import Album, Albums
from genius.collection.duplicates import Duplicates, Level
from genius.collection.outliers import Outliers
from genius.collection.samples import SampleKind
from genius.data.records import Item
from genius.index.index import Index
from genius.serve.config import Limits
from genius.serve.errors import ApiError
from genius.serve.thread_pool import ThreadPool

T = TypeVar("T")

MAX_CACHED = 16
"""How many results are kept."""
PAIRS = 400
"""How many pairs of image and text a service compares: they are encoded again, beside its searches."""


class Overview:
    """What is computed over all items, by one thread, so that searches are not kept waiting.

    A request that takes too long is refused, but its result is kept for the next one.
    """

    def __init__(self, index: Index, limits: Limits) -> None:
        self._index = index
        self._thread = ThreadPool(1, limits.queue, limits.seconds, "overview")
        self._cached: OrderedDict[Any, tuple[int, Any]] = OrderedDict()

    def close(self) -> None:
        """Finish all accepted work."""
        self._thread.close()

    async def duplicates(self, level: Level | None, similarity: float | None) -> Duplicates:
        """What the index holds twice."""
        return await self._get(
            ("duplicates", level, similarity), lambda: self._index.duplicates(level, similarity=similarity)
        )

    async def albums(self, n: int) -> Albums:
        """About `n` albums; after a change of the index they start from those before."""
        _, before = self._cached.get(("albums", n), (0, None))
        return await self._get(("albums", n), lambda: self._index.albums(n, like=before or None))

    async def album(
        self, id: str, n: int, within: str | None, start: int, limit: int
    ) -> tuple[Album, list[Item]]:
        """An album by its id, perhaps within another one, and some of its items, from `start` on.

        Raises ApiError if there is none.
        """
        albums = (await self.albums(n)).albums
        if within is not None:
            albums = _named(albums, within).albums
        album = _named(albums, id)
        return album, await self._thread.run(lambda: self._items(album.ids[start : start + limit]))

    def _items(self, ids: Sequence[str]) -> list[Item]:
        """The items of these ids that are still there."""
        with self._index.reading():
            return [item for id in ids if (item := self._index.get(id)) is not None]

    async def outliers(self, n: int) -> Outliers:
        """The oddest items."""
        return await self._get(("outliers", n), lambda: self._index.outliers(n, pairs=PAIRS))

    async def sample(self, n: int, kind: SampleKind, seed: int) -> list[Item]:
        """Items that stand for all."""
        return await self._get(("sample", n, kind, seed), lambda: self._index.sample(n, kind, seed=seed))

    async def _get(self, key: Any, make: Callable[[], T]) -> T:
        return await self._thread.run(lambda: self._made(key, make))

    def _made(self, key: Any, make: Callable[[], T]) -> T:
        """The result for the newest version; only the one thread looks here."""
        with self._index.reading():
            version = self._index.version
            if key in self._cached and self._cached[key][0] == version:
                self._cached.move_to_end(key)
                cached: T = self._cached[key][1]
                return cached
            made = make()
        self._cached[key] = version, made
        self._cached.move_to_end(key)
        if len(self._cached) > MAX_CACHED:
            self._cached.popitem(last=False)
        return made


def _named(albums: tuple[Album, ...], id: str) -> Album:
    for album in albums:
        if album.id == id:
            return album
    raise ApiError(404, "there is no such album any more: ask for all albums again")
