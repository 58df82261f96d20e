"""A spot check for people: is the image of an emoji closer to its own name than to other names?"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from genius.data.mbeir import Tree
from genius.data.records import Item, Modality, Query
from genius.data.tasks import Task
from genius.errors import InputError
from genius.model import Model


@dataclass(frozen=True)
class NamedImage:
    """An image query, its own name, and the name whose embedding is nearest."""

    query: Query
    own: str
    nearest: str

    @property
    def right(self) -> bool:
        """Whether the nearest name is its own."""
        return self.own == self.nearest


def name_images(model: Model, tree: Tree, task: Task, count: int = 20) -> list[NamedImage]:
    """Name test images of an image → text task: `count` random ones of different names, by the nearest name.

    Raises InputError if the task has fewer names.
    """
    texts = {item.id: item for item in tree.pool(task) if item.modality is Modality.TEXT}
    chosen: dict[str, tuple[Query, Item]] = {}
    queries = list(tree.queries("test", task))
    order = np.random.default_rng(0).permutation(len(queries))
    for query in (queries[number] for number in order):
        item = texts.get(query.positives[0])
        if item is not None and item.text is not None:
            chosen.setdefault(item.text, (query, item))
        if len(chosen) == count:
            break
    if len(chosen) < count:
        raise InputError(
            f"{task} has only {len(chosen)} test pictures with names of their own", path=tree.path
        )
    names = list(chosen)
    image_embeddings = model.embed_queries([query for query, _ in chosen.values()])
    name_embeddings = model.embed_items([item for _, item in chosen.values()])
    nearest = np.argmax(image_embeddings @ name_embeddings.T, axis=1)
    return [
        NamedImage(query, own, names[best])
        for (own, (query, _)), best in zip(chosen.items(), nearest, strict=True)
    ]
