"""What a service does with its index, whatever the requests look like: search, look up, change."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
from collections.abc import Iterator, Sequence
from typing import Any

from genius.data.records import MODALITIES, ImageBytes, Item
from genius.errors import InputError
from genius.index.hits import Hits
from genius.index.index import Index
from genius.index.ingest import Added
from genius.index.item_encoder import FEW
from genius.index.writer import Compacted
from genius.serve.atlas import Atlas, LabelledCell, parse_prefix
from genius.serve.batching import Batcher, Search, search_together
from genius.serve.config import Settings
from genius.serve.errors import Refusal, late
from genius.serve.metrics import Metrics
from genius.serve.schemas import ChangeRequest, NewItem, SearchRequest, decoded
from genius.serve.thread_pool import Pool
from genius.serve.thumbnails import Thumbnail, Thumbnails, check_picture

READERS = 2


class Service:
    """An open index at work."""

    def __init__(self, index: Index, settings: Settings, metrics: Metrics) -> None:
        limits = settings.limits
        self.index, self.settings, self.metrics = index, settings, metrics
        self._atlas, self._thumbnails = Atlas(index), Thumbnails(limits.thumbnails)
        self._searches: Batcher[Search, Hits] = Batcher(
            lambda searches: search_together(index, searches),
            batch=limits.batch,
            waiting=limits.queue,
            seconds=limits.seconds,
            group=lambda search: search.shared,
            count=metrics.batch,
            wait=metrics.waiting,
        )
        index.filter_seconds = limits.filter_seconds
        self._filters = Pool(READERS, limits.queue, limits.seconds, "filtering")
        self._readers = Pool(READERS, limits.queue, limits.seconds, "reading")
        self._writer = Pool(1, limits.queue, limits.seconds, "writing")

    def close(self) -> None:
        """Finish what was accepted."""
        self._filters.close()
        self._searches.close()
        self._readers.close()
        self._writer.close()

    @property
    def alive(self) -> bool:
        """Whether searches are worked on."""
        return self._searches.alive

    # --- asking

    async def search(self, request: SearchRequest, picture: bytes | None) -> Hits:
        """What a request finds."""
        if request.decoder == "learned" and "decoder" not in self.index.model.stages:
            raise Refusal(400, "this index's model has no learned decoder: leave decoder out")
        if picture is not None:
            check_picture(picture, self.settings.limits.pixels)
        seconds, filter = self.settings.limits.seconds, request.filter
        try:
            async with asyncio.timeout(seconds):
                if filter is not None:  # decided beside the searches, which need not wait for it
                    await self._filters.run(lambda: self.index.prepare(filter))
                return await self._searches.ask(Search(request, picture))
        except TimeoutError:
            raise late(seconds) from None

    async def item(self, id: str) -> tuple[Item, tuple[int, ...]]:
        """An item and its code. Raises Refusal if there is none."""
        return await self._readers.run(lambda: self._item(id))

    def _item(self, id: str) -> tuple[Item, tuple[int, ...]]:
        with self.index.reading():
            item, code = self.index.get(id), self.index.code(id)
        if item is None or code is None:
            raise _no_item()
        return item, code

    async def thumbnail(self, id: str, size: int) -> Thumbnail:
        """The picture of an item, small. Raises Refusal if there is none."""
        return await self._readers.run(lambda: self._thumbnail(id, size))

    def _thumbnail(self, id: str, size: int) -> Thumbnail:
        item = self.index.get(id)
        if item is None:
            raise _no_item()
        if item.image is None:
            raise Refusal(404, "this item has no picture")
        return self._thumbnails.of(item.image, size)

    async def cell(
        self, prefix: str, start: int, children: int, samples: int, child_samples: int
    ) -> LabelledCell:
        """What lies under a code. Raises InputError for a prefix that can't be."""
        wanted = parse_prefix(prefix)
        asked = {"start": start, "children": children, "samples": samples, "child_samples": child_samples}
        return await self._readers.run(lambda: self._atlas.look(wanted, **asked))

    async def page(self, after: int, most: int) -> list[tuple[int, Item]]:
        """The items behind a row, each with its own."""
        return await self._readers.run(lambda: self.index.page(after, most))

    async def counts(self) -> dict[str, Any]:
        """The version, how many items it has, and how many of each modality, where the first code tells."""
        return await self._readers.run(self._counts)

    def _counts(self) -> dict[str, Any]:
        index, kinds = self.index, {}
        with index.reading():
            if index.coding.told:
                kinds = {MODALITIES[code].value: count for code, count in sorted(index.cell().children)}
            return {"items": len(index), "modalities": kinds, "version": index.version}

    # --- changing

    async def add(self, items: Sequence[NewItem], *, strict: bool) -> Added:
        """Add items, or put them in the place of older ones."""
        self._check_writable()
        return await self._writer.run(lambda: self._add(items, strict))

    def _add(self, items: Sequence[NewItem], strict: bool) -> Added:
        report, made = Added(), []
        for item in items:
            try:
                made.append(Item(item.id, item.text, self._image(item.image, item.id), item.metadata))
            except InputError as error:
                report.fail(item.id, error, strict=strict)
        with self._turn():
            # So few at a time need no cache of features, and never have many pictures in memory.
            for start in range(0, len(made), FEW):
                report.add(self.index.add(made[start : start + FEW], strict=strict))
        return report

    async def change(self, id: str, request: ChangeRequest) -> Added:
        """Change an item. Raises Refusal if there is none."""
        self._check_writable()
        return await self._writer.run(lambda: self._change(id, request))

    def _change(self, id: str, request: ChangeRequest) -> Added:
        fields: dict[str, Any] = request.model_dump(exclude_unset=True)
        if "image" in fields:
            fields["image"] = self._image(request.image, id)
        with self._turn():
            if id not in self.index:
                raise _no_item()
            return self.index.update([{"id": id, **fields}], strict=True)

    def _image(self, text: str | None, id: str) -> ImageBytes | None:
        """The picture of an item. Raises InputError for one that is too large."""
        if text is None:
            return None
        content = decoded(text)
        check_picture(content, self.settings.limits.pixels)
        return ImageBytes(content, id)

    async def remove(self, id: str) -> int:
        """Remove an item. Raises Refusal if there is none."""
        self._check_writable()
        return await self._writer.run(lambda: self._remove(id))

    def _remove(self, id: str) -> int:
        with self._turn():
            removed = self.index.remove([id])
        if not removed:
            raise _no_item()
        return removed

    async def compact(self) -> Compacted:
        """Make one segment of all."""
        self._check_writable()
        return await self._writer.run(self._compact)

    def _compact(self) -> Compacted:
        with self._turn():
            return self.index.compact()

    def _check_writable(self) -> None:
        if self.settings.read_only:
            raise Refusal(403, "this service only reads: its items can't be changed", kind="read_only")

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        """The turn to write, which one of several workers has at a time; a crash lets go of it."""
        with contextlib.ExitStack() as stack:
            if self.settings.shared is not None:
                file = stack.enter_context((self.settings.shared / "turn.lock").open("ab"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _no_item() -> Refusal:
    return Refusal(404, "there is no item with this id")
