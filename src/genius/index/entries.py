"""Items as the catalogue keeps them: text and metadata as they are, pictures by where they are."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, replace
from pathlib import Path

import orjson

from genius.data.records import MODALITIES, ImageFile, ImageInTar, ImageSource, Item
from genius.encode.feature_cache import content_key
from genius.errors import DamagedError, InputError

COLUMNS = ("id", "modality", "text", "image", "picture", "metadata", "content")


@dataclass(frozen=True, slots=True)
class Entry:
    """One item in the catalogue.

    Attributes:
        modality: its number.
        image: where the picture is, as JSON, or None.
        picture: a hash of the picture's bytes, or None.
        metadata: as JSON, its keys sorted.
        content: a hash of all the rest: what is equal need not be added again, what does not fit is damaged.
    """

    id: str
    modality: int
    text: str | None
    image: str | None
    picture: bytes | None
    metadata: str
    content: bytes

    @property
    def sound(self) -> bool:
        """Whether the entry is what was written."""
        return self.content == _digest(self)


def entry_of(item: Item, picture: bytes | None) -> Entry:
    """What to keep of an item whose picture's bytes have this hash. Raises InputError for broken Unicode."""
    try:
        metadata = orjson.dumps(dict(item.metadata), option=orjson.OPT_SORT_KEYS).decode()
        image = None if item.image is None else orjson.dumps(_reference(item.image)).decode()
        entry = Entry(item.id, MODALITIES.index(item.modality), item.text, image, picture, metadata, b"")
        return replace(entry, content=_digest(entry))
    except (TypeError, UnicodeEncodeError) as error:
        raise InputError(f"item {item.id!r} can't be kept: {error}") from None


def item_of(entry: Entry, catalogue: Path) -> Item:
    """The item again; a picture that was given as bytes is read from the catalogue when it is needed."""
    image = None
    if entry.image is not None:
        fields = orjson.loads(entry.image)
        kind = fields.pop("kind")
        if kind == "kept":
            assert entry.picture is not None
            image = KeptImage(str(catalogue), entry.picture, fields["name"])
        else:
            image = {"file": ImageFile, "tar": ImageInTar}[kind](**fields)
    return Item(entry.id, entry.text, image, orjson.loads(entry.metadata))


def must_be_kept(image: ImageSource) -> bool:
    """Whether a picture has no place of its own from which it could be read again."""
    return not isinstance(image, ImageFile | ImageInTar)


def picture_key(image: ImageSource | None) -> bytes | None:
    """The hash of a picture's bytes. Raises InputError if they can't be had."""
    return None if image is None else content_key(image.read())


@dataclass(frozen=True, slots=True)
class KeptImage:
    """A picture that was given as bytes, and is kept in the catalogue."""

    catalogue: str
    picture: bytes
    name: str

    def read(self) -> bytes:
        """The bytes."""
        connection = sqlite3.connect(f"{Path(self.catalogue).absolute().as_uri()}?mode=ro", uri=True)
        try:
            found = connection.execute("SELECT content FROM pictures WHERE picture = ?", (self.picture,))
            row = found.fetchone()
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
    return {"kind": "kept", "name": image.name}


def _digest(entry: Entry) -> bytes:
    picture = None if entry.picture is None else entry.picture.hex()
    fields = [entry.id, entry.modality, entry.text, entry.image, picture, entry.metadata]
    return content_key(orjson.dumps(fields))
