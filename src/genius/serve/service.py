"""What a service does with its index, whatever the requests look like: search, look up, change."""

from __future__ import annotations

import contextlib
import fcntl
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from genius.data.records import MODALITIES, ImageBytes, Item
from genius.index.build import Added
from genius.index.hit import Hits
from genius.index.index import Index
from genius.serve.batching import Batcher
from genius.serve.cells import Atlas, LabelledCell, parse_prefix
from genius.serve.metrics import Metrics
from genius.serve.models import ChangeRequest, NewItem, SearchRequest, decoded
from genius.serve.pool import Pool
from genius.serve.refusals import Refusal
from genius.serve.searching import Search, search_together
from genius.serve.settings import Settings
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
            count=metrics.batch,
        )
        metrics.waiting(lambda: len(self._searches))
        self._readers = Pool(READERS, limits.queue, limits.seconds, "reading")
        self._writer = Pool(1, limits.queue, limits.seconds, "writing")

    def close(self) -> None:
        """Finish what was accepted."""
        self._searches.close()
        self._readers.close()
        self._writer.close()

    # --- asking

    async def search(self, request: SearchRequest, picture: bytes | None) -> Hits:
        """What a request finds."""
        if picture is not None:
            check_picture(picture, self.settings.limits.pixels)
        return await self._searches.ask(Search(request, picture))

    async def item(self, id: str) -> tuple[Item, tuple[int, ...]]:
        """An item and its code. Raises Refusal if there is none."""
        return await self._readers.run(lambda: self._item(id))

    def _item(self, id: str) -> tuple[Item, tuple[int, ...]]:
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

    async def modalities(self) -> dict[str, int]:
        """How many items there are of each modality, where the first code tells."""
        if not self.index.coding.told:
            return {}
        found = await self.cell("", 0, 0, 0, 0)
        return {MODALITIES[code].value: count for code, count in sorted(found.cell.children)}

    # --- changing

    async def add(self, items: Sequence[NewItem]) -> Added:
        """Add items, or put them in the place of older ones."""
        self._check_writable()
        return await self._writer.run(lambda: self._add(items))

    def _add(self, items: Sequence[NewItem]) -> Added:
        made = [Item(item.id, item.text, self._image(item.image, item.id), item.metadata) for item in items]
        with self._turn() as cache:
            return self.index.add(made, cache=cache)

    async def change(self, id: str, request: ChangeRequest) -> Added:
        """Change an item. Raises Refusal if there is none."""
        self._check_writable()
        return await self._writer.run(lambda: self._change(id, request))

    def _change(self, id: str, request: ChangeRequest) -> Added:
        fields: dict[str, Any] = request.model_dump(exclude_unset=True)
        if "image" in fields:
            fields["image"] = self._image(request.image, id)
        with self._turn() as cache:
            if id not in self.index:
                raise _no_item()
            return self.index.update([{"id": id, **fields}], strict=True, cache=cache)

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

    def _check_writable(self) -> None:
        if self.settings.read_only:
            raise Refusal(403, "this service only reads: its items can't be changed", kind="read_only")

    @contextlib.contextmanager
    def _turn(self) -> Iterator[Path]:
        """The turn to write, which one of several workers has at a time, and a cache for what is encoded.

        A crash lets go of the turn. To open the user's cache takes long where it is large, and what comes one
        by one is hardly ever in it.
        """
        with contextlib.ExitStack() as stack:
            if self.settings.shared is not None:
                file = stack.enter_context((self.settings.shared / "turn.lock").open("ab"))
                fcntl.flock(file, fcntl.LOCK_EX)
            yield Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="genius-serve-")))


def _no_item() -> Refusal:
    return Refusal(404, "there is no item with this id")
