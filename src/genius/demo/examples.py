"""Example searches for people: one query of each kind with its hits, as text and on a contact sheet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from PIL import Image

from genius.data.contact_sheet import Tile, contact_sheet, stack, tile_of
from genius.data.images import load
from genius.data.mbeir import Tree
from genius.data.records import Item, Query
from genius.data.tasks import Task
from genius.index.hits import Hit
from genius.index.index import Index

HITS = 5
TASK_NUMBERS = (0, 3, 7)
"""Words to an image, an image to its name, and an image with a change to another image."""


@dataclass(frozen=True)
class Example:
    """A test query of a task, and its hits; right ones are marked."""

    task: Task
    query: Query
    hits: Sequence[Hit]

    @property
    def title(self) -> str:
        """What is searched with what: `text to image`."""
        return f"{self.task.query.value} to {self.task.target.value}"

    def lines(self) -> list[str]:
        """The query and its hits as text, a line each."""
        hits = (f"  {hit.rank}. {'✓' if self.is_right(hit) else '':2}{_text(hit.item)}" for hit in self.hits)
        return [f"{self.title}: {_text(self.query)}", *hits]

    def sheet(self) -> Image.Image:
        """The query and its hits side by side."""
        tiles = [_query_tile(self.query), *(tile_of(hit.item, self._caption(hit)) for hit in self.hits)]
        return contact_sheet(tiles, columns=1 + HITS, title=self.title)

    def is_right(self, hit: Hit) -> bool:
        """Whether a hit is among the query's positives."""
        return hit.item.id in self.query.positives

    def _caption(self, hit: Hit) -> str:
        text = hit.item.text if hit.item.image else ""
        return " ".join(
            part for part in (f"{hit.rank}.", "right:" if self.is_right(hit) else "", text) if part
        )


def search_examples(index: Index, tree: Tree) -> list[Example]:
    """Search with the first test query of each kind of task; they are not chosen for being good ones."""
    by_number = {task.number: task for task in reversed(tree.tasks("test"))}
    examples = []
    for task in (by_number[number] for number in TASK_NUMBERS if number in by_number):
        query = next(iter(tree.queries("test", task)))
        # Negatives are excluded: asking for a heart in purple, one already has the red one.
        hits = index.search(query, only=task.target, k=HITS, exclude=query.negatives)
        examples.append(Example(task, query, hits))
    return examples


def example_sheet(examples: Iterable[Example]) -> Image.Image:
    """The examples on one sheet, each below the one before."""
    return stack([example.sheet() for example in examples])


def _text(record: Item | Query) -> str:
    image = record.image.name if record.image else ""
    return f"{record.text} ({image})" if record.text and image else record.text or image


def _query_tile(query: Query) -> Tile:
    if query.image is None:
        return Tile(None, "asked", query.text or "")
    return Tile(load(query.image), f"asked: {query.text}" if query.text else "asked")
