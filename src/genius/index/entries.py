"""Items as the catalogue keeps them: text and metadata in full, images by where they are."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import orjson

from genius.data.content_key import content_key
from genius.data.object_storage import ImageInObject
from genius.data.records import MODALITIES, ImageFile, ImageInTar, ImageSource, Item
from genius.errors import DamagedError, InputError
from genius.index.shards import catalogue_of
from genius.index.sqlite import database_uri

COLUMNS = ("id", "modality", "text", "image", "image_hash", "metadata", "content_hash")


@dataclass(frozen=True, slots=True)
class Entry:
    """One item in the catalogue.

    Attributes:
        modality: its number.
        image: where the image is, as JSON, or None.
        image_hash: of the image's bytes and of given vectors, or None.
        metadata: as JSON, its keys sorted.
        content_hash: of all the rest: an equal item need not be added again, and a wrong hash means damage.
    """

    id: str
    modality: int
    text: str | None
    image: str | None
    image_hash: bytes | None
    metadata: str
    content_hash: bytes

    @property
    def intact(self) -> bool:
        """Whether the entry is what was written."""
        return self.content_hash == _digest(self)


@dataclass(frozen=True, slots=True)
class ReadValues:
    """Text and metadata (as JSON, its keys sorted) of an item as they were read from its source."""

    text: str | None
    metadata: str


def entry_of(item: Item, image_hash: bytes | None) -> Entry:
    """What to keep of an item whose image has this hash. Raises InputError for broken Unicode."""
    try:
        metadata = orjson.dumps(dict(item.metadata), option=orjson.OPT_SORT_KEYS).decode()
        image = None if item.image is None else orjson.dumps(_reference(item.image)).decode()
        entry = Entry(item.id, MODALITIES.index(item.modality), item.text, image, image_hash, metadata, b"")
        return replace(entry, content_hash=_digest(entry))
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"item {item.id!r} can't be kept: {error}") from None


def item_of(entry: Entry, catalogue: Path) -> Item:
    """The item again; an image that was given as bytes is read from the catalogue when it is needed.

    Raises DamagedError for an entry that is not what was written.
    """
    if not entry.intact:
        raise DamagedError(f"{catalogue} is damaged: item {entry.id!r} is not what was written; add it again")
    image = None
    if entry.image is not None:
        fields = orjson.loads(entry.image)
        kind = fields.pop("kind")
        if kind == "kept":
            assert entry.image_hash is not None
            image = KeptImage(str(catalogue_of(catalogue, entry.id)), entry.image_hash, fields["name"])
        else:
            image = {"file": ImageFile, "tar": ImageInTar, "object": ImageInObject}[kind](**fields)
    return Item(entry.id, entry.text, image, orjson.loads(entry.metadata))


def must_be_kept(image: ImageSource) -> bool:
    """Whether an image has no place of its own from which it could be read again."""
    return not isinstance(image, ImageFile | ImageInTar | ImageInObject)


def image_hash_of(item: Item) -> bytes | None:
    """The hash of an item's image and of the vectors given with it; None without either.

    An item whose vectors have changed is thereby another one. Raises InputError for an unreadable image.
    """
    image = b"" if item.image is None else item.image.read()
    if item.vectors is not None:
        return content_key(item.vectors.tobytes() + image)
    return content_key(image) if image else None


@dataclass(frozen=True, slots=True)
class KeptImage:
    """An image that was given as bytes, and is kept in the catalogue."""

    catalogue: str
    image_hash: bytes
    name: str

    def read(self) -> bytes:
        """The bytes."""
        connection = sqlite3.connect(database_uri(Path(self.catalogue)), uri=True)
        try:
            query = "SELECT content FROM images WHERE image_hash = ?"
            row = connection.execute(query, (self.image_hash,)).fetchone()
        except sqlite3.Error as error:
            raise DamagedError(f"{self.catalogue}: cannot read image {self.name}: {error}") from error
        finally:
            connection.close()
        if row is None:
            raise InputError(f"image {self.name} is no longer in the index", path=self.catalogue)
        return bytes(row[0])


def _reference(image: ImageSource) -> dict[str, str | int]:
    if isinstance(image, ImageFile):
        return {"kind": "file", "root": str(Path(image.root).resolve()), "path": image.path}
    if isinstance(image, ImageInTar):
        archive = str(Path(image.archive).resolve())
        return {
            "kind": "tar",
            "archive": archive,
            "path": image.path,
            "start": image.start,
            "size": image.size,
        }
    if isinstance(image, ImageInObject):
        return {"kind": "object", **asdict(image)}
    return {"kind": "kept", "name": image.name}


def _digest(entry: Entry) -> bytes:
    image_hash = None if entry.image_hash is None else entry.image_hash.hex()
    fields = [entry.id, entry.modality, entry.text, entry.image, image_hash, entry.metadata]
    return content_key(orjson.dumps(fields))
