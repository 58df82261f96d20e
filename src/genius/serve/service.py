"""What a service does with its index, apart from HTTP: search, look up and change items."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
from collections.abc import Iterator, Sequence
from typing import Any

from genius import __version__
from genius.data.records import MODALITIES, ImageBytes, Item
from genius.errors import InputError
from genius.index.facets import Facet
from genius.index.hits import Hits
from genius.index.index import Index
from genius.index.ingest import Added
from genius.index.item_encoder import FEW
from genius.index.writer import Compacted
from genius.serve import thumbnail_files
from genius.serve.atlas import Atlas, LabelledCell, parse_prefix
from genius.serve.batching import Batcher, SearchJob, search_batch
from genius.serve.config import Settings
from genius.serve.errors import ApiError, timeout_error
from genius.serve.metrics import Metrics
from genius.serve.overview import Overview
from genius.serve.schemas import ChangeRequest, NewItem, SearchRequest, decode_base64, vectors_of
from genius.serve.thread_pool import ThreadPool
from genius.serve.thumbnail_files import ThumbnailFiles
from genius.serve.thumbnails import Thumbnail, ThumbnailCache, check_image

READERS = 2
"""Threads for filters, and as many for reading items."""


class Service:
    """An open index with the threads that work on it."""

    def __init__(self, index: Index, settings: Settings, metrics: Metrics) -> None:
        limits = settings.limits
        self.index, self.settings, self.metrics = index, settings, metrics
        files = ThumbnailFiles(thumbnail_files.default_folder(), limits.thumbnail_files)
        self._atlas = Atlas(index)
        self._thumbnails = ThumbnailCache(limits.thumbnails, files if limits.thumbnail_files else None)
        self._searches: Batcher[SearchJob, Hits] = Batcher(
            lambda jobs: search_batch(index, jobs),
            max_batch=limits.batch,
            max_waiting=limits.queue,
            seconds=limits.seconds,
            key=lambda job: job.batch_key,
            on_batch=metrics.count_batch,
            on_waiting=metrics.set_waiting,
        )
        index.filter_seconds = limits.filter_seconds
        self._filters = ThreadPool(READERS, limits.queue, limits.seconds, "filtering")
        self._readers = ThreadPool(READERS, limits.queue, limits.seconds, "reading")
        self._writer = ThreadPool(1, limits.queue, limits.seconds, "writing")
        self.overview = Overview(index, limits)

    def close(self) -> None:
        """Finish all accepted work."""
        self._filters.close()
        self._searches.close()
        self._readers.close()
        self.overview.close()
        self._writer.close()

    @property
    def alive(self) -> bool:
        """Whether the searching thread is running."""
        return self._searches.alive

    # --- reading

    async def search(self, request: SearchRequest, image: bytes | None) -> Hits:
        """The hits of a search. Raises ApiError or InputError."""
        if request.decoder == "learned" and "decoder" not in self.index.model.stages:
            raise ApiError(400, "this index's model has no learned decoder: leave decoder out")
        parts = (part.image.read() for part in request.parts() if part.image is not None)
        for sent in (*([] if image is None else [image]), *parts):
            check_image(sent, self.settings.limits.pixels)
        seconds, filter = self.settings.limits.seconds, request.filter
        try:
            async with asyncio.timeout(seconds):
                if request.browses:
                    return await self._filters.run(lambda: self.index.browse(**request.browse_options()))
                if filter is not None:  # in another thread: searches without a filter need not wait for it
                    await self._filters.run(lambda: self.index.prepare(filter))
                return await self._searches.submit(SearchJob(request, image))
        except TimeoutError:
            raise timeout_error(seconds) from None

    async def item(self, id: str) -> tuple[Item, tuple[int, ...]]:
        """An item and its code. Raises ApiError if it does not exist."""
        return await self._readers.run(lambda: self._item(id))

    def _item(self, id: str) -> tuple[Item, tuple[int, ...]]:
        with self.index.reading():
            item, code = self.index.get(id), self.index.code(id)
        if item is None or code is None:
            raise _no_item()
        return item, code

    async def thumbnail(self, id: str, size: int) -> Thumbnail:
        """The image of an item, about `size` pixels wide. Raises ApiError if there is none."""
        return await self._readers.run(lambda: self._thumbnail(id, size))

    def _thumbnail(self, id: str, size: int) -> Thumbnail:
        item = self.index.get(id)
        if item is None:
            raise _no_item()
        if item.image is None:
            raise ApiError(404, "this item has no picture")
        return self._thumbnails.get(item.image, size)

    async def cell(
        self, prefix: str, start: int, children: int, samples: int, child_samples: int
    ) -> LabelledCell:
        """The cell under a prefix, with some of its children. Raises InputError for an invalid prefix."""
        codes = parse_prefix(prefix)
        return await self._readers.run(
            lambda: self._atlas.cell(
                codes, start=start, children=children, samples=samples, child_samples=child_samples
            )
        )

    async def facets(self) -> tuple[Facet, ...]:
        """What items can be filtered by. Like filters it does not keep images and items waiting."""
        return await self._filters.run(self.index.facets)

    async def page(self, after: int, limit: int) -> list[tuple[int, Item]]:
        """The next items after a catalogue key, each with its own key."""
        return await self._readers.run(lambda: self.index.page(after, limit))

    async def about(self) -> dict[str, Any]:
        """The facts of GET /about."""
        index = self.index
        return {
            **await self._readers.run(self._counts),
            "model": index.model.fingerprint,
            "levels": index.format.sizes,
            "modality_first": self._atlas.modality_first,
            "read_only": self.settings.read_only,
            "paths": self.settings.paths,
            "made_by": f"genius {__version__}",
        }

    def _counts(self) -> dict[str, Any]:
        """The number of items in all and of each modality, where the first code is the modality."""
        index, modalities = self.index, {}
        with index.reading():
            if self._atlas.modality_first:
                modalities = {MODALITIES[code].value: count for code, count in sorted(index.cell().children)}
            return {"items": len(index), "modalities": modalities, "version": index.version}

    # --- writing

    async def add(self, items: Sequence[NewItem], *, strict: bool) -> Added:
        """Add items; one whose id exists replaces the item that has it."""
        self._check_writable()
        return await self._writer.run(lambda: self._add(items, strict))

    def _add(self, items: Sequence[NewItem], strict: bool) -> Added:
        report, valid = Added(), []
        for item in items:
            try:
                image, vector = self._image(item.image, item.id), vectors_of(item.vector)
                valid.append(Item(item.id, item.text, image, item.metadata, vector))
            except InputError as error:
                report.fail(item.id, error, strict=strict)
        with self._write_lock():
            # So few items at a time need no feature cache, and never hold many images in memory.
            for start in range(0, len(valid), FEW):
                report.add(self.index.add(valid[start : start + FEW], strict=strict))
        return report

    async def change(self, id: str, request: ChangeRequest) -> Added:
        """Change an item. Raises ApiError if it does not exist."""
        self._check_writable()
        return await self._writer.run(lambda: self._change(id, request))

    def _change(self, id: str, request: ChangeRequest) -> Added:
        fields: dict[str, Any] = request.model_dump(exclude_unset=True)
        if "image" in fields:
            fields["image"] = self._image(request.image, id)
        with self._write_lock():
            if id not in self.index:
                raise _no_item()
            return self.index.update([{"id": id, **fields}], strict=True)

    def _image(self, text: str | None, id: str) -> ImageBytes | None:
        """The image of an item from base64. Raises InputError for one that is too large."""
        if text is None:
            return None
        content = decode_base64(text)
        check_image(content, self.settings.limits.pixels)
        return ImageBytes(content, id)

    async def remove(self, id: str) -> int:
        """Remove an item. Raises ApiError if it does not exist."""
        self._check_writable()
        return await self._writer.run(lambda: self._remove(id))

    def _remove(self, id: str) -> int:
        with self._write_lock():
            removed = self.index.remove([id])
        if not removed:
            raise _no_item()
        return removed

    async def compact(self) -> Compacted:
        """Merge all segments and purge removed items."""
        self._check_writable()
        return await self._writer.run(self._compact)

    def _compact(self) -> Compacted:
        with self._write_lock():
            return self.index.compact()

    def _check_writable(self) -> None:
        if self.settings.read_only:
            raise ApiError(403, "this service only reads: its items can't be changed", kind="read_only")

    @contextlib.contextmanager
    def _write_lock(self) -> Iterator[None]:
        """A lock that one of several workers holds at a time; the system releases it after a crash."""
        with contextlib.ExitStack() as stack:
            if self.settings.shared_folder is not None:
                file = stack.enter_context((self.settings.shared_folder / "write.lock").open("ab"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield


def _no_item() -> ApiError:
    return ApiError(404, "there is no item with this id")
