"""What is searched for and what is found: items, queries and where their pictures are."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from genius.errors import InputError

Scalar = str | int | float | bool | None
"""What metadata may hold: the scalars of JSON."""


class Modality(StrEnum):
    """What an item is made of. M-BEIR writes `pair` as `image,text`."""

    IMAGE = "image"
    TEXT = "text"
    PAIR = "pair"

    @classmethod
    def parse(cls, name: object) -> Modality:
        """The modality called `name`, in any spelling that is in use (`pair`, `image,text`, `text,image`).

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
        """The name as M-BEIR spells it."""
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
    """Something that can give an image's bytes."""

    @property
    def name(self) -> str:
        """What to call it in a message."""

    def read(self) -> bytes:
        """The encoded bytes. Raises InputError when they can't be had."""


@dataclass(frozen=True, slots=True)
class ImageFile:
    """A picture in a file below `root`; `path` is relative, with forward slashes."""

    root: str
    path: str

    @property
    def name(self) -> str:
        """The relative path."""
        return self.path

    @property
    def file(self) -> Path:
        """The whole path."""
        return Path(self.root, self.path)

    def read(self) -> bytes:
        """The file's bytes; refuses a link that leaves the root."""
        try:
            real = self.file.resolve(strict=True)
            if not real.is_relative_to(Path(self.root).resolve()):
                raise InputError(f"image {self.path!r} leaves its folder by a link", path=self.file)
            return real.read_bytes()
        except OSError as error:
            raise InputError(f"cannot read image: {error.strerror or error}", path=self.file) from error


@dataclass(frozen=True, slots=True)
class ImageInTar:
    """A picture that is a member of an uncompressed tar file, found by its place in it."""

    archive: str
    path: str
    start: int
    size: int

    @property
    def name(self) -> str:
        """The member's path, behind its archive's."""
        return f"{self.archive}!{self.path}"

    def read(self) -> bytes:
        """The member's bytes."""
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
    """A picture held in memory."""

    content: bytes = field(repr=False)
    name: str = "(bytes)"

    def read(self) -> bytes:
        """The bytes themselves."""
        return self.content


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be found: an id, a text and/or an image, and metadata that travels with it."""

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
        """What the item is made of, by what it has."""
        return _modality(self.text, self.image)


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked: text and/or image, an instruction, the wanted modality, and what would answer it.

    `positives` and `negatives` are item ids, known for training and evaluation only; `task` is
    M-BEIR's number, and `dataset` the name of the set that the query comes from.
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
        """What the query is made of (its instruction apart)."""
        return _modality(self.text, self.image)


def _modality(text: str | None, image: ImageSource | None) -> Modality:
    if image is None:
        return Modality.TEXT
    return Modality.PAIR if text else Modality.IMAGE


def check_scalar(key: object, value: object) -> None:
    """Raise InputError unless `key: value` can be metadata: a text key, and a scalar that JSON can write."""
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
