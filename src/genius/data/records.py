"""The records that everything works on: items, queries and the sources of their images."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from genius.errors import InputError

Scalar = str | int | float | bool | None
"""The type of a metadata value: a JSON scalar."""


class Modality(StrEnum):
    """The content of an item or query: image, text or both. M-BEIR writes `pair` as `image,text`."""

    IMAGE = "image"
    TEXT = "text"
    PAIR = "pair"

    @classmethod
    def parse(cls, name: object) -> Modality:
        """The modality called `name`, in any spelling in use (`pair`, `image,text`, `text,image`).

        Raises InputError for anything else.
        """
        modality = _MODALITY_NAMES.get(name) if isinstance(name, str) else None
        if modality is None and isinstance(name, str):
            modality = _MODALITY_NAMES.get(name.replace(" ", "").lower())
        if modality is None:
            raise InputError(f"unknown modality {name!r}: expected image, text or pair (also image,text)")
        return modality

    @property
    def mbeir(self) -> str:
        """The name in M-BEIR's spelling."""
        return "image,text" if self is Modality.PAIR else self.value


MODALITIES = tuple(Modality)
"""The order in which modalities are numbered."""

_MODALITY_NAMES: dict[str, Modality] = {
    "image": Modality.IMAGE,
    "text": Modality.TEXT,
    "pair": Modality.PAIR,
    "image,text": Modality.PAIR,
    "text,image": Modality.PAIR,
}


class ImageSource(Protocol):
    """Anything that can read the encoded bytes of an image."""

    @property
    def name(self) -> str:
        """A name for messages."""

    def read(self) -> bytes:
        """The encoded bytes. Raises InputError if they can't be read."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """An image file below the folder `root`; `path` is relative to it, with forward slashes."""

    root: str
    path: str

    @property
    def name(self) -> str:
        """The relative path."""
        return self.path

    @property
    def file(self) -> Path:
        """The full path."""
        return Path(self.root, self.path)

    def read(self) -> bytes:
        """The file's bytes. Raises InputError if it can't be read or is a link that leaves the root."""
        try:
            real = self.file.resolve(strict=True)
            if not real.is_relative_to(Path(self.root).resolve()):
                raise InputError(f"image {self.path!r} leaves its folder by a link", path=self.file)
            return real.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read image: {error.strerror or error}", path=self.file) from error


@dataclass(frozen=True, slots=True)
class ImageInTar:
    """An image inside an uncompressed tar file, `size` bytes from the offset `start`."""

    archive: str
    path: str
    start: int
    size: int

    @property
    def name(self) -> str:
        """The archive's path and the member's."""
        return f"{self.archive}!{self.path}"

    def read(self) -> bytes:
        """The member's bytes. Raises InputError if the archive can't be read or is cut short."""
        try:
            with Path(self.archive).open("rb") as archive:
                archive.seek(self.start)
                content = archive.read(self.size)
        except OSError as error:
            raise InputError(f"cannot read: {error.strerror or error}", path=self.archive) from error
        if len(content) != self.size:
            raise InputError(f"cut short: member {self.path!r} is not whole", path=self.archive)
        return content


@dataclass(frozen=True, slots=True)
class ImageBytes:
    """An image in memory, encoded in one of the usual formats."""

    content: bytes = field(repr=False)
    name: str = "(bytes)"

    def read(self) -> bytes:
        """The bytes themselves."""
        return self.content


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be found: an id, a text and/or an image, and metadata."""

    id: str
    text: str | None = None
    image: ImageSource | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.id:
            raise InputError("an item needs an id")
        if not isinstance(self.id, str) or "\0" in self.id:
            raise InputError(f"an item's id is a text without zero bytes, not {self.id!r}")
        if not isinstance(self.text, str | None):
            raise InputError(f"the text of item {self.id!r} is a {type(self.text).__name__}, not a text")
        if not isinstance(self.metadata, Mapping):
            raise InputError(f"the metadata of item {self.id!r} are no mapping of names to values")
        if not self.text and self.image is None:
            raise InputError(f"item {self.id!r} has neither text nor image")
        if self.text == "":
            object.__setattr__(self, "text", None)
        for key, value in self.metadata.items():
            check_scalar(key, value)

    @property
    def modality(self) -> Modality:
        """The modality, by which of text and image the item has."""
        return _modality(self.text, self.image)


@dataclass(frozen=True, slots=True)
class Query:
    """A query: text and/or image, an instruction, and the wanted modality.

    `positives` and `negatives` are the ids of right and wrong answers, known for training and evaluation
    only; `task` is M-BEIR's task number, and `dataset` the data set that the query comes from.
    """

    id: str = ""
    text: str | None = None
    image: ImageSource | None = None
    instruction: str | None = None
    want: Modality | None = None
    positives: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    task: int | None = None
    dataset: str | None = None

    def __post_init__(self) -> None:
        if not self.text and self.image is None:
            raise InputError(f"query {self.id!r} has neither text nor image" if self.id else "an empty query")
        if self.text == "":
            object.__setattr__(self, "text", None)

    @property
    def modality(self) -> Modality:
        """The modality, by which of text and image the query has (the instruction does not count)."""
        return _modality(self.text, self.image)


def _modality(text: str | None, image: ImageSource | None) -> Modality:
    if image is None:
        return Modality.TEXT
    return Modality.PAIR if text else Modality.IMAGE


def check_scalar(key: object, value: object) -> None:
    """Raise InputError unless `key: value` is valid metadata: a text, and a scalar that JSON can write."""
    if not isinstance(key, str):
        raise InputError(f"metadata key {key!r} is not text")
    if not isinstance(value, str | int | float | bool | None):
        raise InputError(
            f"metadata {key!r} is a {type(value).__name__}: it may be text, a number, true, false or null"
        )
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"metadata {key!r} is {value}, which JSON can't write")
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise InputError(f"metadata {key!r} is an integer of more than 64 bits")
