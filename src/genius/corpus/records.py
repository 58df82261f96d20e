"""Items and queries of a benchmark as rows of images, texts and instructions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from genius.data.instructions import clean, query_text
from genius.data.records import Item, Query
from genius.encode.features import ABSENT


class RecordSource(Protocol):
    """Images and texts by row: the rows of features, or of the contents themselves."""

    def image_rows(self, names: Iterable[str | None]) -> np.ndarray:
        """The rows of images by name; -1 for absent ones."""

    def text_rows(self, texts: Iterable[str | None]) -> np.ndarray:
        """The rows of texts; -1 for absent ones."""

    def text_list(self) -> list[str]:
        """The texts by row."""

    def image_key(self, row: int) -> bytes:
        """Equal for images of equal content."""

    def text_key(self, row: int) -> bytes:
        """Equal for equal texts."""


@dataclass(frozen=True)
class Records:
    """What n records are made of, as rows of a source; -1 is absent."""

    image: np.ndarray
    text: np.ndarray
    instruction: np.ndarray

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, places: np.ndarray | slice) -> Records:
        return Records(self.image[places], self.text[places], self.instruction[places])

    @property
    def present(self) -> np.ndarray:
        """Which records have an image or a text."""
        present: np.ndarray = (self.image != ABSENT) | (self.text != ABSENT)
        return present


def record_texts(records: Records, source: RecordSource) -> list[str]:
    """The texts of records, empty where they have none."""
    texts = source.text_list()
    return ["" if row == ABSENT else texts[row] for row in records.text.tolist()]


def item_records(items: Iterable[Item], source: RecordSource) -> Records:
    """What items are made of."""
    listed = list(items)
    images = source.image_rows(item.image.name if item.image else None for item in listed)
    texts = source.text_rows(clean(item.text) or None for item in listed)
    return Records(images, texts, np.full(len(listed), ABSENT, np.int32))


def query_records(queries: Iterable[Query], source: RecordSource, *, apart: bool = True) -> Records:
    """What queries are made of, the instruction apart from the text or in front of it."""
    listed = list(queries)
    images = source.image_rows(query.image.name if query.image else None for query in listed)
    if not apart:
        texts = source.text_rows(query_text(query) or None for query in listed)
        return Records(images, texts, np.full(len(listed), ABSENT, np.int32))
    return Records(
        images,
        source.text_rows(clean(query.text) or None for query in listed),
        source.text_rows(clean(query.instruction) or None for query in listed),
    )
