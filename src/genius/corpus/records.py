"""A tree as arrays over features (or over contents): its items, and its queries with their answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from genius.data.mbeir import UNION, Split, Tree
from genius.data.records import MODALITIES, Item, Query
from genius.data.tasks import Task
from genius.data.text import clean, query_text
from genius.encode.features import ABSENT
from genius.errors import InputError


class Rows(Protocol):
    """Pictures and texts by number: the rows of features, or contents as they are."""

    def image_rows(self, names: Iterable[str | None]) -> np.ndarray:
        """The rows of pictures by name; -1 where there is none."""

    def text_rows(self, texts: Iterable[str | None]) -> np.ndarray:
        """The rows of texts; -1 where there is none."""

    def image_key(self, row: int) -> bytes:
        """What is the same for pictures of equal content."""

    def text_key(self, row: int) -> bytes:
        """What is the same for equal texts."""


@dataclass(frozen=True)
class Records:
    """What n records are made of, as rows of features (or of contents); -1 is absent."""

    image: np.ndarray
    text: np.ndarray
    instruction: np.ndarray

    def __len__(self) -> int:
        return len(self.image)

    def __getitem__(self, rows: np.ndarray | slice) -> Records:
        return Records(self.image[rows], self.text[rows], self.instruction[rows])

    @property
    def present(self) -> np.ndarray:
        """Which records have anything to be embedded by."""
        present: np.ndarray = (self.image != ABSENT) | (self.text != ABSENT)
        return present


@dataclass(frozen=True)
class Pool:
    """The items of a corpus, numbered."""

    ids: list[str]
    contents: Records
    modality: np.ndarray
    numbers: dict[str, int]


@dataclass(frozen=True)
class TaskQueries:
    """The queries of one task; the positives of query i are `items[starts[i]:starts[i + 1]]`."""

    task: Task
    ids: list[str]
    contents: Records
    starts: np.ndarray
    items: np.ndarray
    negatives: list[np.ndarray]
    prompts: np.ndarray
    """Rows of the instructions that any query of this task may be given."""
    own_texts: np.ndarray
    """Rows of the queries' texts without an instruction; -1 where no row is that text."""

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def want(self) -> int:
        """The number of the wanted modality."""
        return MODALITIES.index(self.task.target)

    def positives(self, query: int) -> np.ndarray:
        """The numbers of the items that answer a query."""
        return self.items[self.starts[query] : self.starts[query + 1]]


def read_pool(tree: Tree, features: Rows, split: Split = "test") -> Pool:
    """Every item of a tree: those of its union pool for a split, and of all local pools."""
    items: dict[str, Item] = {}
    names = tree.pools
    for name in [UNION, *names] if UNION in names else names:
        for item in tree.pool(name, split):
            items.setdefault(item.id, item)
    listed = list(items.values())
    modality = np.array([MODALITIES.index(item.modality) for item in listed], np.int8)
    numbers = {item.id: number for number, item in enumerate(listed)}
    return Pool(list(numbers), item_contents(listed, features), modality, numbers)


def read_queries(
    tree: Tree, features: Rows, pool: Pool, split: Split, *, apart: bool = True
) -> list[TaskQueries]:
    """The queries of each task of a split that have an answer in the pool.

    With `apart`, an instruction has a row of its own; otherwise it stands before the text. Raises InputError
    if the split has none at all.
    """
    found = [_read_task(tree, features, pool, split, task, apart) for task in tree.tasks(split)]
    tasks = [queries for queries in found if len(queries)]
    if not tasks:
        raise InputError(f"has no {split} queries with an answer in its pools", path=tree.path)
    return tasks


def read_prompts(tree: Tree, features: Rows) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all known prompts, and the numbers of the modalities that they ask for."""
    wanted = tree.instructions.wanted_by_prompt()
    rows = features.text_rows(clean(prompt) for prompt in wanted)
    numbers = np.array([MODALITIES.index(modality) for modality in wanted.values()])
    return rows[rows != ABSENT], numbers[rows != ABSENT]


def _read_task(tree: Tree, features: Rows, pool: Pool, split: Split, task: Task, apart: bool) -> TaskQueries:
    queries: list[Query] = []
    positives: list[list[int]] = []
    for query in tree.queries(split, task):
        known = [pool.numbers[id] for id in query.positives if id in pool.numbers]
        if known:
            queries.append(query)
            positives.append(known)
    prompts = tree.instructions.prompts(
        queries[0].id if queries else "", task.dataset, task.query, task.target
    )
    return TaskQueries(
        task=task,
        ids=[query.id for query in queries],
        contents=query_contents(queries, features, apart=apart),
        starts=np.concatenate([[0], np.cumsum([len(known) for known in positives], dtype=np.int64)]),
        items=np.array([number for known in positives for number in known], np.int64),
        negatives=[
            np.array([pool.numbers[id] for id in query.negatives if id in pool.numbers], np.int64)
            for query in queries
        ],
        prompts=features.text_rows(map(clean, prompts)),
        own_texts=features.text_rows(clean(query.text) or None for query in queries),
    )


def item_contents(items: Iterable[Item], features: Rows) -> Records:
    """What items are made of."""
    listed = list(items)
    images = features.image_rows(item.image.name if item.image else None for item in listed)
    texts = features.text_rows(clean(item.text) or None for item in listed)
    return Records(images, texts, np.full(len(listed), ABSENT, np.int32))


def query_contents(queries: Iterable[Query], features: Rows, *, apart: bool = True) -> Records:
    """What queries are made of, the instruction apart from the text or before it."""
    listed = list(queries)
    images = features.image_rows(query.image.name if query.image else None for query in listed)
    if not apart:
        texts = features.text_rows(query_text(query) or None for query in listed)
        return Records(images, texts, np.full(len(listed), ABSENT, np.int32))
    return Records(
        images,
        features.text_rows(clean(query.text) or None for query in listed),
        features.text_rows(clean(query.instruction) or None for query in listed),
    )
