"""The records that everything works on: items, queries and the sources of their images."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from genius.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

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


class Vectors:
    """Embeddings that the user brings along, float32 [width] each, of an item or a query.

    There is one of the whole, or one of the image and one of the text, either of which may be absent. They
    may be of any length: only their directions count. Raises InputError for what is no vector of finite
    numbers, and for widths that differ.
    """

    __slots__ = ("image", "text", "whole")

    def __init__(
        self,
        whole: np.ndarray | Sequence[float] | None = None,
        *,
        image: np.ndarray | Sequence[float] | None = None,
        text: np.ndarray | Sequence[float] | None = None,
    ) -> None:
        self.whole, self.image, self.text = _vector(whole), _vector(image), _vector(text)
        given = [vector for vector in (self.whole, self.image, self.text) if vector is not None]
        if not given or (self.whole is not None and len(given) > 1):
            raise InputError("give one vector of the whole, or vectors of its image and its text")
        if len({len(vector) for vector in given}) > 1:
            raise InputError(f"an image's vector and its text's differ in width: {[*map(len, given)]}")

    @classmethod
    def of(cls, given: Any) -> Vectors:
        """From a list of numbers, or from a mapping with `image` and `text`, as JSON has them."""
        if isinstance(given, Vectors):
            return given
        if isinstance(given, Mapping):
            if not given.keys() <= {"image", "text"}:
                raise InputError("vectors of parts are called image and text")
            return cls(image=given.get("image"), text=given.get("text"))
        return cls(given)

    def to_json(self) -> list[float] | dict[str, list[float]]:
        """What `of` reads back."""
        if self.whole is not None:
            return self.whole.tolist()  # type: ignore[no-any-return]
        parts = {"image": self.image, "text": self.text}
        return {name: part.tolist() for name, part in parts.items() if part is not None}

    @property
    def width(self) -> int:
        """How many numbers a vector has."""
        return next(len(vector) for vector in (self.whole, self.image, self.text) if vector is not None)

    def tobytes(self) -> bytes:
        """The same for equal vectors."""
        parts = (self.whole, self.image, self.text)
        return b"|".join(b"" if part is None else part.tobytes() for part in parts)


def _vector(numbers: Any) -> np.ndarray | None:
    if numbers is None:
        return None
    import numpy as np

    try:
        vector = np.array(numbers, np.float32)
    except (TypeError, ValueError):
        raise InputError("a vector is a list of numbers, and this is none") from None
    if vector.ndim != 1 or not len(vector):
        raise InputError(f"a vector is a list of numbers, not an array of the shape {list(vector.shape)}")
    if not np.isfinite(vector).all():
        raise InputError("a vector holds NaN or infinity: embed this again")
    if not vector.any():
        raise InputError("a vector is all zeros, which points nowhere: embed this again")
    return vector


def _vectors(given: Any) -> Vectors | None:
    return None if given is None else Vectors.of(given)


@dataclass(frozen=True, slots=True)
class Item:
    """Something that can be found: an id, a text and/or an image, and metadata.

    `vector` is an embedding of one's own (or `Vectors`), for a model that was fitted on given vectors. An
    item of a vector alone is shown by its id. Instead of an image's source, its path, its bytes or a Pillow
    image may be given.
    """

    id: str
    text: str | None = None
    image: ImageSource | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=dict)
    vector: Vectors | np.ndarray | Sequence[float] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.vector is not None:
            object.__setattr__(self, "vector", _vectors(self.vector))
            if not self.text and self.image is None:
                object.__setattr__(self, "text", self.id)
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
        object.__setattr__(self, "image", _image_source(self.image))
        if self.text == "":
            object.__setattr__(self, "text", None)
        for key, value in self.metadata.items():
            check_scalar(key, value)

    @property
    def modality(self) -> Modality:
        """The modality, by which of text and image the item has."""
        return _modality(self.text, self.image)

    @property
    def image_path(self) -> Path | None:
        """The full path of the image, if it is a file of its own on this machine."""
        return self.image.file.absolute() if isinstance(self.image, ImageFile) else None

    @property
    def is_vector_alone(self) -> bool:
        """Whether it is a vector and nothing else, so that its id stands for its text."""
        return self.vector is not None and self.image is None and self.text == self.id

    @property
    def vectors(self) -> Vectors | None:
        """The embeddings that were given with the item."""
        return _vectors(self.vector)


MAX_PARTS = 16
"""How many parts may be added to a query, or taken away from it."""
MAX_WEIGHT = 100.0


@dataclass(frozen=True, slots=True)
class QueryPart:
    """A text and/or an image that is added to a query, or with a negative weight taken away from it.

    Raises InputError for nothing at all, and for a weight that is zero, not finite or beyond 100.
    """

    text: str | None = None
    image: ImageSource | None = None
    weight: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", check_weight(abs(self.weight)) * (-1 if self.weight < 0 else 1))
        if not self.text and self.image is None:
            raise InputError("a part of a query is a text, an image or both, and this is nothing")
        if not isinstance(self.text, str | None):
            raise InputError(f"a part of a query is a text, and this is a {type(self.text).__name__}")


def check_weight(weight: object) -> float:
    """The weight of a part as a number. Raises InputError for one that is none."""
    if isinstance(weight, int | float) and not isinstance(weight, bool) and 0 < weight <= MAX_WEIGHT:
        return float(weight)
    raise InputError(f"a weight is a number above 0 and up to {MAX_WEIGHT:g}, not {weight!r}")


@dataclass(frozen=True, slots=True)
class Query:
    """A query: text and/or image, an instruction, and the wanted modality.

    `plus` and `minus` add parts to it, or take them away: `Query("sunset").minus("people", 0.5)`. `weight` is
    that of its own text and image beside them. Instead of text and image, `vector` is an embedding of one's
    own (or `Vectors`). An image may be given as its path, its bytes or a Pillow image, too.

    `positives` and `negatives` are the ids of right and wrong answers, known for training and evaluation
    only; `task` is M-BEIR's task number, and `dataset` the data set that the query comes from.
    """

    text: str | None = None
    image: ImageSource | None = None
    instruction: str | None = None
    want: Modality | None = None
    id: str = ""
    positives: tuple[str, ...] = ()
    negatives: tuple[str, ...] = ()
    task: int | None = None
    dataset: str | None = None
    vector: Vectors | np.ndarray | Sequence[float] | None = field(default=None, repr=False, compare=False)
    weight: float = 1.0
    parts: tuple[QueryPart, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "weight", check_weight(self.weight))
        object.__setattr__(self, "parts", tuple(self.parts))
        object.__setattr__(self, "image", _image_source(self.image))
        if not isinstance(self.text, str | None):
            raise InputError(f"the text of a query is a {type(self.text).__name__}, not a text")
        if len(self.parts) > MAX_PARTS:
            raise InputError(f"a query has {len(self.parts)} parts, and up to {MAX_PARTS} can be combined")
        if self.vector is not None:
            if self.text or self.image is not None:
                raise InputError("a query is a vector, or a text and an image: give one of them")
            if self.parts:
                raise InputError("a vector can't be combined with other parts: add the vectors yourself")
            object.__setattr__(self, "vector", _vectors(self.vector))
            return
        if not self.text and self.image is None:
            if any(part.weight < 0 for part in self.parts):
                raise InputError("minus takes something away from a query: say what to search for, too")
            raise InputError(f"query {self.id!r} has neither text nor image" if self.id else "an empty query")
        if self.text == "":
            object.__setattr__(self, "text", None)

    def plus(
        self,
        text: str | None = None,
        weight: float = 1.0,
        *,
        image: Path | str | bytes | Image.Image | ImageSource | None = None,
    ) -> Query:
        """The query with something added: a text, an image (path, bytes, Pillow image), or both as one."""
        from genius.data.images import image_source

        source = None if image is None else image_source(image)
        return replace(self, parts=(*self.parts, QueryPart(text, source, check_weight(weight))))

    def minus(
        self,
        text: str | None = None,
        weight: float = 1.0,
        *,
        image: Path | str | bytes | Image.Image | ImageSource | None = None,
    ) -> Query:
        """The query with something taken away: what is like that comes later."""
        added = self.plus(text, weight, image=image)
        *before, last = added.parts
        return replace(self, parts=(*before, replace(last, weight=-last.weight)))

    @property
    def modality(self) -> Modality:
        """The modality, by which of text and image the query has (the instruction does not count).

        A vector counts as what it says that it is of, or else as a text.
        """
        if (vectors := self.vectors) is None or vectors.image is None:
            return _modality(self.text, self.image)
        return Modality.IMAGE if vectors.text is None else Modality.PAIR

    @property
    def vectors(self) -> Vectors | None:
        """The embeddings that are the query."""
        return _vectors(self.vector)


def _image_source(image: ImageSource | None) -> ImageSource | None:
    """The source of an image, also of one that a user gave as a path, as bytes or as a Pillow image."""
    if image is None or callable(getattr(image, "read", None)):
        return image
    from genius.data.images import image_source

    return image_source(image)


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
