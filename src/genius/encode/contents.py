"""What there is to encode: the distinct pictures and texts of items and queries."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from genius.data.mbeir import SPLITS, UNION, Tree
from genius.data.records import ImageSource, Item, Query
from genius.data.text import clean, query_text
from genius.encode.feature_cache import content_key
from genius.encode.features import ABSENT
from genius.errors import InputError


@dataclass
class Contents:
    """Distinct pictures, by their names, and distinct texts, in the order in which they were met.

    With `apart`, a query's instruction is a text of its own; otherwise it stands before the query's text.
    """

    apart: bool = True
    images: dict[str, ImageSource] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)

    def add_items(self, items: Iterable[Item]) -> None:
        """Add what items are made of."""
        for item in items:
            self._add(item.image, clean(item.text))

    def add_queries(self, queries: Iterable[Query]) -> None:
        """Add what queries are made of."""
        for query in queries:
            if self.apart:
                self._add(query.image, clean(query.text))
                self._add(None, clean(query.instruction))
            else:
                self._add(query.image, query_text(query))

    def add_tree(self, tree: Tree) -> None:
        """Add all items and queries of an M-BEIR tree, and all of its prompts."""
        names = [name for name in tree.pools if name != UNION]
        self.add_items(tree)
        for name in names:
            self.add_items(tree.pool(name))
        for split in SPLITS:
            self.add_queries(tree.queries(split))
        if self.apart:
            for prompt in tree.instructions.wanted_by_prompt():
                self._add(None, clean(prompt))

    def _add(self, image: ImageSource | None, text: str) -> None:
        if image is not None:
            self.images.setdefault(image.name, image)
        if text:
            self.texts.setdefault(text)


class ContentRows:
    """Contents by row, in the way that features are, for models that embed whole records."""

    def __init__(self, contents: Contents) -> None:
        self.images = list(contents.images.values())
        self.texts = list(contents.texts)
        self._image_rows: dict[str | None, int] = {name: row for row, name in enumerate(contents.images)}
        self._text_rows: dict[str | None, int] = {text: row for row, text in enumerate(contents.texts)}

    def image_rows(self, names: Iterable[str | None]) -> np.ndarray:
        """The rows of pictures by name; -1 where there is none."""
        return np.array([self._image_rows.get(name, ABSENT) for name in names], np.int32)

    def text_rows(self, texts: Iterable[str | None]) -> np.ndarray:
        """The rows of texts; -1 where there is none."""
        return np.array([self._text_rows.get(text, ABSENT) for text in texts], np.int32)

    def image_key(self, row: int) -> bytes:
        """What is the same for pictures of equal content; one that can't be read is only like itself."""
        try:
            return content_key(self.images[row].read())
        except InputError:
            return self.images[row].name.encode()

    def text_key(self, row: int) -> bytes:
        """What is the same for equal texts."""
        return self.texts[row].encode()
