"""Which columns of a table hold the id, the texts and the image: by their names, or as the user says."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from genius.data.vectors import VECTOR_COLUMNS
from genius.errors import InputError

ID_NAMES = ("id", "_id", "did", "key", "sku", "item_id", "product_id")
TEXT_NAMES = ("text", "txt", "caption")
"""Names of a column that is the whole text; without one, a title and a description are the text together."""
TITLE_NAMES = ("title", "name", "product_name", "headline")
DESCRIPTION_NAMES = ("description", "summary", "body", "content")
IMAGE_NAMES = (
    *("image", "img_path", "image_path", "file_name", "filename", "path", "file"),
    *("img", "image_file", "picture", "photo"),
)
_CONTENT_NAMES = (*TEXT_NAMES, *TITLE_NAMES, *DESCRIPTION_NAMES, *IMAGE_NAMES)
_FIELDS = ("id", "text", "image")
CODE_COLUMN, EMBEDDING_COLUMN = "genius_code", "genius_embedding"
EXPORTED_COLUMNS = frozenset((CODE_COLUMN, EMBEDDING_COLUMN))
"""What an export of an index adds to its items; readers leave it out, as another index has its own."""
MEMORISED = 256
"""Of so many different sets of names, the columns are kept."""


@dataclass(frozen=True)
class Columns:
    """The columns that a user names as the id, the texts and the image; others are known by their names."""

    id: str | None = None
    text: tuple[str, ...] = ()
    image: str | None = None

    @classmethod
    def of(cls, names: Columns | Mapping[str, Any] | None) -> Columns:
        """Columns from a mapping such as `{"id": "sku", "text": ["title", "body"], "image": "photo"}`."""
        if names is None or isinstance(names, Columns):
            return names or cls()
        unknown = sorted(set(names) - set(_FIELDS), key=str)
        if unknown:
            raise InputError(f"unknown field {unknown[0]!r} of columns: expected {', '.join(_FIELDS)}")
        text = names.get("text") or ()
        return cls(names.get("id"), (text,) if isinstance(text, str) else tuple(text), names.get("image"))

    def locate(self, names: Sequence[str]) -> ContentColumns:
        """The columns of a row with these names; rows of the same names are the usual case."""
        key = tuple(names)
        if key not in self._located:
            if len(self._located) == MEMORISED:
                self._located.clear()
            self._located[key] = _locate(self, key)
        return self._located[key]

    @cached_property
    def _located(self) -> dict[tuple[str, ...], ContentColumns]:
        return {}

    def check(self, names: Sequence[str]) -> None:
        """Raise InputError if a table with these columns lacks one that was named."""
        for wanted in (self.id, *self.text, self.image):
            if wanted is not None and wanted not in names:
                near = difflib.get_close_matches(wanted, names, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"it has {_listed(names)}"
                raise InputError(f"has no column {wanted!r}: {hint}")

    def check_content(self, names: Sequence[str]) -> None:
        """Raise InputError, with the nearest names, if no column can be a text, an image or a vector."""
        located = self.locate(names)
        if not located.texts and located.image is None and VECTOR_COLUMNS.isdisjoint(names):
            raise InputError(f"has no column for a text or an image, only {_listed(names)}: {_advice(names)}")

    def check_id(self, names: Sequence[str]) -> None:
        """Raise InputError if no column of a table can be the id of an item."""
        located = self.locate(names)
        if located.id is None and located.image is None:
            raise InputError(
                f"has no column for an id, only {_listed(names)}: rename one to {ID_NAMES[0]!r}, or name it "
                "with --id-column"
            )


@dataclass(frozen=True)
class ContentColumns:
    """The columns of one table: of the id, the texts (to be joined) and the image."""

    id: str | None
    texts: tuple[str, ...]
    image: str | None

    @cached_property
    def all(self) -> frozenset[str | None]:
        """The names of these columns; every other column is metadata."""
        return frozenset((self.id, *self.texts, self.image))

    @cached_property
    def no_metadata(self) -> frozenset[str | None]:
        """The names of columns that are no metadata by themselves."""
        return self.all | EXPORTED_COLUMNS | {"metadata"}


def _locate(columns: Columns, names: tuple[str, ...]) -> ContentColumns:
    by_plain_name: dict[str, str] = {}
    for name in names:
        by_plain_name.setdefault(_plain(name), name)

    def first(known: Sequence[str]) -> tuple[str, ...]:
        """The column with the first of the known names, if there is one."""
        return next(((by_plain_name[name],) for name in known if name in by_plain_name), ())

    def named(wanted: str | None, known: Sequence[str]) -> str | None:
        """The column that the user wants, if the row has it; else the first of the known names."""
        chosen = first(known) if wanted is None else tuple(name for name in names if name == wanted)
        return next(iter(chosen), None)

    texts = tuple(name for name in columns.text if name in names)
    if not columns.text:
        texts = first(TEXT_NAMES) or first(TITLE_NAMES) + first(DESCRIPTION_NAMES)
    return ContentColumns(named(columns.id, ID_NAMES), texts, named(columns.image, IMAGE_NAMES))


def _plain(name: str) -> str:
    """A column's name as the known names are written: `Product Name` is `product_name`."""
    return name.strip().lower().replace(" ", "_").replace("-", "_")


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _advice(names: Sequence[str]) -> str:
    way_out = "name them with --text-column and --image-column"
    for name in names:
        near = difflib.get_close_matches(_plain(name), _CONTENT_NAMES, 1, cutoff=0.7)
        if near:
            return f"is {name!r} meant to be {near[0]!r}? Rename it, or {way_out}"
    return f"rename them to {TEXT_NAMES[0]!r} and {IMAGE_NAMES[0]!r}, or {way_out}"
