from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from genius.data.mbeir import Tree
from genius.data.records import Item, Query
from genius.data.tasks import Task
from genius.demo.naming import name_images
from genius.errors import InputError
from genius.model import Model

TASK = Task("mscoco", 3)


class OneHotModel:
    """Each name is an axis; images are embedded at the axis of the name that `names` gives them."""

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names
        self.axes: dict[str, int] = {}

    def axis(self, name: str) -> np.ndarray:
        return np.asarray(np.eye(8)[self.axes.setdefault(name, len(self.axes))])

    def embed_items(self, items: Sequence[Item]) -> np.ndarray:
        return np.stack([self.axis(item.text or "") for item in items])

    def embed_queries(self, queries: Sequence[Query]) -> np.ndarray:
        return np.stack([self.axis(self.names[query.id]) for query in queries])


def own_names(tree: Tree) -> dict[str, str]:
    texts = {item.id: item.text or "" for item in tree.pool(TASK)}
    return {query.id: texts[query.positives[0]] for query in tree.queries("test", TASK)}


def test_images_get_the_nearest_name(miniature: Path) -> None:
    tree = Tree(miniature)
    own = own_names(tree)
    given = own | {"9:2031": "A blue square."}  # which is the name of another
    named = name_images(cast(Model, OneHotModel(given)), tree, TASK, count=4)
    assert {image.query.id: image.own for image in named} == own
    assert {image.query.id: image.nearest for image in named} == given
    assert [image.right for image in named] == [image.query.id != "9:2031" for image in named]


def test_a_task_with_too_few_names_is_refused(miniature: Path) -> None:
    tree = Tree(miniature)
    with pytest.raises(InputError, match="mscoco_task3 has only 4 test pictures with names of their own"):
        name_images(cast(Model, OneHotModel(own_names(tree))), tree, TASK, count=5)
