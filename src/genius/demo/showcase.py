"""What `genius demo` shows: a collection of pictures, and three searches in it by the model that ships."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from PIL import Image

from genius.data.contact_sheet import Tile, contact_sheet, stack, tile_of
from genius.data.images import load
from genius.data.mbeir import Tree
from genius.data.records import ImageFile, Item, Query
from genius.index.hits import Hit
from genius.index.index import Index

FOLDER = "mbeir_images/noto/"
"""Of the three vendors' drawings, those that are indexed."""
HITS = 5
_SKIN_TONE = re.compile(r"1f3f[b-f]")
_POOL = "emoji_task2"
"""Pictures with their names."""


@dataclass(frozen=True)
class Search:
    """A search by words, by a picture of the collection, or by both."""

    title: str
    text: str | None = None
    image_key: str | None = None

    def query(self, tree: Tree) -> Query:
        """The query, with the picture from the collection."""
        image = ImageFile(str(tree.path), f"{FOLDER}{self.image_key}.png") if self.image_key else None
        return Query(text=self.text, image=image)


SEARCHES = (
    Search("by words", "something to drink"),
    Search("by a picture", image_key="1f431"),
    Search("by a picture and words", "in green", "1f34e"),
)


def showcase_items(tree: Tree) -> list[Item]:
    """One picture of each emoji, whatever its skin tones; its name is metadata, which no search looks at."""
    items = []
    for named in tree.pool(_POOL):
        path = named.image.name if named.image else ""
        if path.startswith(FOLDER) and not _SKIN_TONE.search(path):
            items.append(Item(path.removeprefix(FOLDER), None, named.image, {"name": named.text}))
    return items


@dataclass(frozen=True)
class Answered:
    """A search with its hits."""

    search: Search
    query: Query
    hits: Sequence[Hit]

    def lines(self) -> list[str]:
        """The search and its hits as text, a line each."""
        image = f"[{self.search.image_key}.png]" if self.search.image_key else None
        content = " + ".join(filter(None, (image, self.search.text)))
        return [f"{self.search.title}: {content}", *(f"  {hit.rank}. {_name(hit)}" for hit in self.hits)]

    def sheet(self) -> Image.Image:
        """The query and its hits side by side."""
        text = self.query.text or ""
        if self.query.image is None:
            query = Tile(None, "asked", text)
        else:
            query = Tile(load(self.query.image), f"asked: {text}" if text else "asked")
        tiles = [query, *(tile_of(hit.item, f"{hit.rank}. {_name(hit)}") for hit in self.hits)]
        return contact_sheet(tiles, columns=1 + HITS, title=self.search.title)


def answer(index: Index, tree: Tree) -> list[Answered]:
    """Run the three searches; a picture of the collection does not find itself."""
    answered = []
    for search in SEARCHES:
        query = search.query(tree)
        itself = [f"{search.image_key}.png"] if search.image_key else []
        answered.append(Answered(search, query, index.search(query, want="image", k=HITS, exclude=itself)))
    return answered


def showcase_sheet(answered: Sequence[Answered]) -> Image.Image:
    """All searches on one sheet, each below the one before."""
    return stack([search.sheet() for search in answered])


def _name(hit: Hit) -> str:
    return str(hit.item.metadata["name"])
