"""The published figures of GENIUS (`published.toml`): the paper's Tables 1, 2, 8 and 9."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

from genius.data.tasks import Task

BEAMS = (30, 50)
"""The numbers of beams that the paper reports."""
DEPTH = 10
"""The most results of a query that a published figure looks at."""


@dataclass(frozen=True)
class PublishedMethod:
    """A method and its figures in one of the tables, in percent."""

    name: str
    values: Mapping[Task, float]
    """By task, without those for which the paper has a dash."""
    average: float | None = None
    dense: bool = False
    """Whether it is exact search by embeddings, so that ours is its counterpart."""
    beams: int = 0
    """Beams of a search by codes, of which ours is the counterpart; 0 for other methods."""
    reranked: bool = False
    tuned_on: str = ""
    """What the method was tuned on, if not on all of M-BEIR."""

    @property
    def label(self) -> str:
        """Its name with what tells it from others of that name."""
        more = f"B = {self.beams}" if self.beams else self.tuned_on
        return f"{self.name} ({more})" if more else self.name

    def counterpart(self, decoder: str) -> str | None:
        """The name of our system that does the same, searching by this decoder; None if there is none."""
        if self.beams:
            return f"{decoder}-b{self.beams}{'+rerank' if self.reranked else ''}"
        return "dense" if self.dense else None


@dataclass(frozen=True)
class PublishedTable:
    """One of the paper's tables."""

    number: int
    title: str
    source: str
    pool: Literal["local", "union"]
    rows: Literal["methods", "tasks"]
    """What its rows are; the other are its columns."""
    tasks: tuple[Task, ...]
    methods: tuple[PublishedMethod, ...]
    notes: tuple[str, ...]
    """What is doubtful about the printed figures."""


@cache
def published_tables() -> tuple[PublishedTable, ...]:
    """The paper's tables of retrieval on M-BEIR, by number."""
    with Path(__file__).with_name("published.toml").open("rb") as file:
        return tuple(_table(described) for described in tomllib.load(file)["tables"])


def published_tasks() -> tuple[Task, ...]:
    """The tasks that the tables have figures for."""
    return tuple(dict.fromkeys(task for table in published_tables() for task in table.tasks))


def _table(described: dict[str, Any]) -> PublishedTable:
    tasks = tuple(map(Task.parse, described.pop("tasks")))
    methods = tuple(_method(method, tasks) for method in described.pop("methods"))
    return PublishedTable(tasks=tasks, methods=methods, notes=tuple(described.pop("notes")), **described)


def _method(described: dict[str, Any], tasks: tuple[Task, ...]) -> PublishedMethod:
    values = zip(tasks, described.pop("values"), strict=True)
    return PublishedMethod(
        values={task: value for task, value in values if not math.isnan(value)}, **described
    )
