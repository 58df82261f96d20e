"""The queries of a benchmark's tasks, with the items that answer them."""

from __future__ import annotations

import dataclasses
import zlib
from dataclasses import dataclass

import numpy as np

from genius.corpus.items import CorpusItems
from genius.corpus.records import Records, RecordSource, query_records
from genius.data.instructions import clean
from genius.data.mbeir import Split, Tree
from genius.data.records import MODALITIES, Query
from genius.data.tasks import Task
from genius.encode.features import ABSENT
from genius.errors import InputError
from genius.quantize.fusion_inputs import query_kinds


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

    def sampled(self, count: int, seed: int) -> TaskQueries:
        """At most `count` of the queries, the same ones for the same seed whatever the other tasks are."""
        if len(self) <= count:
            return self
        generator = np.random.default_rng([seed, zlib.crc32(str(self.task).encode())])
        return self.select(np.sort(generator.choice(len(self), count, replace=False)))

    def select(self, places: np.ndarray) -> TaskQueries:
        """Some of the queries, by their places [n]."""
        positives = [self.positives(place) for place in places]
        return dataclasses.replace(
            self,
            ids=[self.ids[place] for place in places],
            contents=self.contents[places],
            starts=_starts(positives),
            items=np.concatenate([np.zeros(0, np.int64), *positives]),
            negatives=[self.negatives[place] for place in places],
            own_texts=self.own_texts[places],
        )


def kind_of_query(task: TaskQueries) -> int:
    """Which kind a task's queries are: of images, of texts, or of both (`FusionInputs.kinds`)."""
    has_image, has_text = bool((task.contents.image >= 0).any()), bool((task.contents.text >= 0).any())
    return int(query_kinds(np.array([has_image]), np.array([has_text]))[0])


def read_queries(
    tree: Tree, source: RecordSource, items: CorpusItems, split: Split, *, apart: bool = True
) -> list[TaskQueries]:
    """The queries of each task of a split that have an answer among the items.

    With `apart`, an instruction has a row of its own; otherwise it stands in front of the text. Raises
    InputError if the split has none at all.
    """
    tasks = [_read_task(tree, source, items, split, task, apart) for task in tree.tasks(split)]
    answered = [queries for queries in tasks if len(queries)]
    if not answered:
        raise InputError(f"has no {split} queries with an answer in its pools", path=tree.path)
    return answered


def read_prompts(tree: Tree, source: RecordSource) -> tuple[np.ndarray, np.ndarray]:
    """The rows of all known prompts, and the numbers of the modalities that they ask for."""
    wanted = tree.instructions.wanted_by_prompt()
    rows = source.text_rows(clean(prompt) for prompt in wanted)
    numbers = np.array([MODALITIES.index(modality) for modality in wanted.values()])
    return rows[rows != ABSENT], numbers[rows != ABSENT]


def _read_task(
    tree: Tree, source: RecordSource, items: CorpusItems, split: Split, task: Task, apart: bool
) -> TaskQueries:
    queries: list[Query] = []
    positives: list[np.ndarray] = []
    for query in tree.queries(split, task):
        relevant = _numbers(query.positives, items)
        if len(relevant):
            queries.append(query)
            positives.append(relevant)
    prompts = tree.instructions.prompts(
        queries[0].id if queries else "", task.dataset, task.query, task.target
    )
    return TaskQueries(
        task=task,
        ids=[query.id for query in queries],
        contents=query_records(queries, source, apart=apart),
        starts=_starts(positives),
        items=np.concatenate([np.zeros(0, np.int64), *positives]),
        negatives=[_numbers(query.negatives, items) for query in queries],
        prompts=source.text_rows(map(clean, prompts)),
        own_texts=source.text_rows(clean(query.text) or None for query in queries),
    )


def _numbers(ids: tuple[str, ...], items: CorpusItems) -> np.ndarray:
    return np.array([items.numbers[id] for id in ids if id in items.numbers], np.int64)


def _starts(positives: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(relevant) for relevant in positives], dtype=np.int64)])
