"""M-BEIR's tasks: the modalities of queries and targets, and the rank of the headline metric."""

from __future__ import annotations

from dataclasses import dataclass

from genius.data.records import Modality

TASK_MODALITIES: dict[int, tuple[Modality, Modality]] = {
    0: (Modality.TEXT, Modality.IMAGE),
    1: (Modality.TEXT, Modality.TEXT),
    2: (Modality.TEXT, Modality.PAIR),
    3: (Modality.IMAGE, Modality.TEXT),
    4: (Modality.IMAGE, Modality.IMAGE),
    5: (Modality.IMAGE, Modality.PAIR),
    6: (Modality.PAIR, Modality.TEXT),
    7: (Modality.PAIR, Modality.IMAGE),
    8: (Modality.PAIR, Modality.PAIR),
}
"""Modalities of query and target, by M-BEIR's task number."""

_RESULT_ORDER = (
    *("visualnews_task0", "mscoco_task0", "fashion200k_task0", "webqa_task1", "edis_task2", "webqa_task2"),
    *(
        "visualnews_task3",
        "mscoco_task3",
        "fashion200k_task3",
        "nights_task4",
        "oven_task6",
        "infoseek_task6",
    ),
    *("fashioniq_task7", "cirr_task7", "oven_task8", "infoseek_task8"),
)
_RECALL_AT_10 = ("fashion200k_task0", "fashion200k_task3", "fashioniq_task7")


@dataclass(frozen=True, slots=True)
class Task:
    """One task of one data set: `fashion_task7` is image and text → image."""

    dataset: str
    number: int

    @classmethod
    def parse(cls, name: str) -> Task:
        """The task of a name like `fashion_task7`."""
        dataset, _, number = name.rpartition("_task")
        return cls(dataset, int(number))

    def __str__(self) -> str:
        return f"{self.dataset}_task{self.number}"

    @property
    def query(self) -> Modality:
        """The modality of the queries."""
        return TASK_MODALITIES[self.number][0]

    @property
    def target(self) -> Modality:
        """The modality of the answers."""
        return TASK_MODALITIES[self.number][1]

    @property
    def cutoff(self) -> int:
        """The k of the headline metric, hit rate at k: 5, or 10 where M-BEIR says so."""
        return 10 if str(self) in _RECALL_AT_10 else 5


def result_order(task: Task) -> tuple[int, int, str]:
    """Sort key for tasks: the order of M-BEIR's result tables, then others by number and data set."""
    name = str(task)
    known = _RESULT_ORDER.index(name) if name in _RESULT_ORDER else len(_RESULT_ORDER)
    return known, task.number, task.dataset
