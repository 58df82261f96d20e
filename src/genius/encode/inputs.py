"""The inputs of an encoder: the distinct images and texts of items and queries."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from genius.data.content_key import content_key
from genius.data.instructions import clean, query_text
from genius.data.mbeir import SPLITS, UNION, Split, Tree
from genius.data.records import ImageSource, Item, Query
from genius.encode.features import RowLookup
from genius.errors import InputError


@dataclass
class EncoderInputs:
    """Distinct images (by name) and distinct texts, in the order in which they were added.

    With `apart`, a query's instruction is a text of its own; otherwise it is put before the query's text.
    """

    apart: bool = True
    images: dict[str, ImageSource] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)

    def add_items(self, items: Iterable[Item]) -> None:
        """Add the images and texts of items."""
        for item in items:
            self._add(item.image, clean(item.text))

    def add_queries(self, queries: Iterable[Query]) -> None:
        """Add the images, texts and instructions of queries."""
        for query in queries:
            if self.apart:
                self._add(query.image, clean(query.text))
                self._add(None, clean(query.instruction))
            else:
                self._add(query.image, query_text(query))

    def add_tree(self, tree: Tree, splits: Sequence[Split] = SPLITS) -> None:
        """Add the items and queries of an M-BEIR tree, all or those of some splits, and all of its prompts.

        The items of the test split are those of all local pools, too.
        """
        if "test" in splits:
            self.add_items(tree)
            for name in tree.pools:
                if name != UNION:
                    self.add_items(tree.pool(name))
        for split in splits:
            if split != "test":
                self.add_items(tree.items(split))
        for split in splits:
            self.add_queries(tree.queries(split))
        if self.apart:
            for prompt in tree.instructions.wanted_by_prompt():
                self._add(None, clean(prompt))

    def _add(self, image: ImageSource | None, text: str) -> None:
        if image is not None:
            self.images.setdefault(image.name, image)
        if text:
            self.texts.setdefault(text)


class InputRows(RowLookup):
    """Encoder inputs by row number, as `Features` has features: for models that embed whole records."""

    def __init__(self, inputs: EncoderInputs) -> None:
        super().__init__(inputs.images, inputs.texts)
        self.images = list(inputs.images.values())
        self.texts = list(inputs.texts)

    def image_key(self, row: int) -> bytes:
        """The same for images of equal content; an unreadable image equals only itself."""
        try:
            return content_key(self.images[row].read())
        except InputError:
            return self.images[row].name.encode()

    def text_key(self, row: int) -> bytes:
        """The same for equal texts."""
        return self.texts[row].encode()
