"""The sources of an index: the folders and tables that its items come from, and what their ids begin with.

Ids are relative to their source, so those of two sources may be equal: every camera has an IMG_1.jpg. The ids
of the first source stay as they are. A further source some of whose ids are in use gets its own name before
all of its ids (`holiday/IMG_1.jpg`), once and for all: a source that is added again finds its items again. A
folder within a folder that is a source belongs to that one.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import orjson

from genius.data.collection import Collection
from genius.data.folder import Folder
from genius.data.mbeir import Tree
from genius.data.records import MODALITIES, ImageFile, ImageInTar, ImageSource, Item
from genius.errors import InputError
from genius.index.entries import Entry, ReadValues, image_hash_of, item_of

if TYPE_CHECKING:
    from genius.index.catalogue import Catalogue

CHUNK = 512
"""How many ids are compared with the catalogue at a time."""
MOVED = 64
"""So many images with equal bytes, and none with others, mean that a folder was moved."""


@dataclass(frozen=True)
class Source:
    """A folder or table of which items were added: its path, its kind, and what its items' ids begin with."""

    path: str
    kind: str
    prefix: str


@dataclass(frozen=True)
class SourceItems:
    """The items of a collection, under the ids that they have in an index.

    Attributes:
        collection: the items as they are read.
        source: the source that they belong to.
        inner: where the collection is within the source's folder, as a prefix of paths; usually empty.
        replacing: whether items of other sources with these ids are to be replaced.
        former_prefix: what ids of the source began with until now, if they are to be replaced, too.
    """

    collection: Collection
    source: Source
    inner: str = ""
    replacing: bool = False
    former_prefix: str = ""

    @property
    def prefix(self) -> str:
        """What ids begin with."""
        return self.source.prefix + self.inner

    def __iter__(self) -> Iterator[Item]:
        if not self.prefix:
            return iter(self.collection)
        return (
            replace(item, id=self.prefix + item.id, image=self._image(item.image)) for item in self.collection
        )

    def _image(self, image: ImageSource | None) -> ImageSource | None:
        if not self.inner or not isinstance(image, ImageFile):
            return image
        return ImageFile(self.source.path, self.inner + image.path)

    @property
    def is_folder(self) -> bool:
        """Whether its items are files of a folder."""
        return isinstance(self.collection, Folder)

    @property
    def is_whole_folder(self) -> bool:
        """Whether they are all files of a folder that genius reads."""
        return isinstance(self.collection, Folder) and self.collection.files is None

    def keep_text_files(self, catalogue: Catalogue, ids: Sequence[str]) -> None:
        """Store which items are text files of the source, if it is a folder."""
        if ids and self.is_folder:
            catalogue.keep_text_files(self.source.path, ids)

    def conflict(self, item: Item, old: Entry, catalogue: Path) -> InputError | None:
        """Why an item may not replace the one that has its id: that is another photo, which still exists."""
        if self.replacing or not self.is_folder or item.image is None:
            return None
        if old.image is None or not is_in_use(item, old, catalogue):
            return None
        place = _place(item_of(old, catalogue).image) or "another source"
        return InputError(f"its id is that of another image, {place}: rename one of the two files")


@dataclass(frozen=True)
class FolderItems:
    """Tells which items are files of the folders among an index's sources."""

    catalogue: Catalogue

    def read_values(self, stored: Mapping[str, tuple[int, Entry]]) -> dict[str, ReadValues]:
        """What was read of those of these items that are such files, by id."""
        keys = [key for key, _ in stored.values()]
        texts, known = self.catalogue.text_folders(keys), self.catalogue.read_values(keys)
        folders = {source.path for source in known_sources(self.catalogue) if source.kind == Folder.kind}
        return {
            id: known.get(key) or ReadValues(entry.text, entry.metadata)
            for id, (key, entry) in stored.items()
            if key in texts or image_root(entry) in folders
        }


def image_root(entry: Entry) -> str | None:
    """The folder that an item's image is below, if it is a file."""
    fields = {} if entry.image is None else orjson.loads(entry.image)
    return fields["root"] if fields.get("kind") == "file" else None


def known_sources(catalogue: Catalogue) -> list[Source]:
    """The sources of an index, in the order in which they came."""
    return [Source(**fields) for fields in catalogue.sources()]


def attach(catalogue: Catalogue, collection: Collection, *, replacing: bool) -> SourceItems:
    """The collection as a source of the index, which is recorded before anything is added.

    Of an M-BEIR tree, the instructions are recorded too, with the modality that each asks for.
    """
    if isinstance(collection, Tree):
        wanted = collection.instructions.wanted_by_prompt()
        catalogue.add_instructions({prompt: MODALITIES.index(want) for prompt, want in wanted.items()})
    items = locate(catalogue, collection, replacing=replacing)
    if not replacing or not items.former_prefix:
        keep_source(catalogue, items.source)
    return items


def keep_source(catalogue: Catalogue, source: Source, former: str | None = None) -> None:
    """Record a source, unless it is; or where the one that was at `former` is now."""
    known = known_sources(catalogue)
    kept = [source if entry.path == former else entry for entry in known]
    if all(entry.path != source.path for entry in kept):
        kept.append(source)
    if kept != known:
        catalogue.keep_sources([asdict(entry) for entry in kept])


def locate(catalogue: Catalogue, collection: Collection, *, replacing: bool) -> SourceItems:
    """The collection as a source of the index: one that it has, or a new one. Nothing is recorded."""
    known = known_sources(catalogue)
    path, place = collection.path.resolve(), collection.place
    for source in known:
        if source.path == place:
            if not replacing:
                return SourceItems(collection, source)
            plain = replace(source, prefix="")
            return SourceItems(collection, plain, replacing=True, former_prefix=source.prefix)
    outer = _outer_folder(known, path) if isinstance(collection, Folder) else None
    if outer is not None:
        inner = path.relative_to(outer.path).as_posix() + "/"
        return SourceItems(collection, outer, inner, replacing=replacing)
    prefix = ""
    if len(catalogue) and not replacing and _collides(catalogue, collection):
        prefix = _free_prefix(catalogue, known, path)
    return SourceItems(collection, Source(place, collection.kind, prefix), replacing=replacing)


def drop_former_items(catalogue: Catalogue, items: SourceItems) -> None:
    """Remove what a source had under its prefix, after the same items were added without it."""
    if items.former_prefix:
        catalogue.remove(catalogue.keys_with_prefix(items.former_prefix))
        known = known_sources(catalogue)
        kept = [items.source if source.path == items.source.path else source for source in known]
        catalogue.keep_sources([asdict(source) for source in kept])


def is_in_use(item: Item, old: Entry, catalogue: Path) -> bool:
    """Whether an id stands for something else than an item that has it too.

    The same file is the same item, and so is a file that was moved: the old one is gone, and the bytes are
    equal.
    """
    before = item_of(old, catalogue)
    place = _place(before.image)
    if place is not None and place == _place(item.image):
        return False
    if place is not None and place.exists():
        return True
    if before.image is None and before.text != item.text:
        return True
    try:
        return image_hash_of(item) != old.image_hash
    except InputError:
        return False  # whoever encodes it will say what is wrong


def _outer_folder(known: list[Source], path: Path) -> Source | None:
    """The innermost folder among the sources that holds this one."""
    outer = [source for source in known if source.kind == Folder.kind and path.is_relative_to(source.path)]
    return max(outer, key=lambda source: len(source.path), default=None)


def _collides(catalogue: Catalogue, collection: Collection) -> bool:
    """Whether some id of a new source stands for another item already."""
    items, same = iter(collection.without_exif()), 0
    while chunk := list(itertools.islice(items, CHUNK)):
        stored = catalogue.stored(item.id for item in chunk)
        for item in chunk:
            if item.id in stored:
                if is_in_use(item, stored[item.id][1], catalogue.path):
                    return True
                same += 1
                if same == MOVED:
                    return False
    return False


def _free_prefix(catalogue: Catalogue, known: list[Source], path: Path) -> str:
    """The source's name, numbered if ids begin with it already."""
    name = path.name.split(".")[0] or "source"
    taken = {source.prefix for source in known}
    for number in itertools.count(1):
        prefix = f"{name}/" if number == 1 else f"{name}-{number}/"
        if prefix not in taken and not catalogue.keys_with_prefix(prefix, most=1):
            return prefix
    raise AssertionError("counting has no end")


def _place(image: ImageSource | None) -> Path | None:
    """The file that an image is in, if it has a place of its own."""
    if isinstance(image, ImageFile):
        return Path(os.path.normpath(Path(image.root).resolve() / image.path))
    if isinstance(image, ImageInTar):
        return Path(image.archive).resolve()
    return None
