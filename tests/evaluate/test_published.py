"""The published figures, against themselves: the paper prints many of them twice, and their averages."""

from __future__ import annotations

import numpy as np
import pytest

from genius.data.tasks import Task
from genius.evaluate.published import PublishedMethod, PublishedTable, published_tables, published_tasks

TABLES = {table.number: table for table in published_tables()}
MISPRINTS = {
    ("CLIP-SF", "infoseek_task6"): (27.9, 23.9),
    ("BLIP-FF", "mscoco_task0"): (79.7, 67.5),
    ("CLIP-SF", "nights_task4"): (33.4, 32.0),
    ("CLIP-SF", "fashioniq_task7"): (26.2, 24.3),
    ("CLIP-SF", "cirr_task7"): (43.0, 43.9),
    ("BLIP-FF", "oven_task6"): (34.7, 38.7),
}
"""Where a table of the paper and the same table of the supplement differ."""


def _again(method: PublishedMethod, table: PublishedTable) -> PublishedMethod:
    """The same method in another table, where it may stand twice: tuned on all tasks comes last."""
    return [other for other in table.methods if (other.name, other.beams) == (method.name, method.beams)][-1]


def test_the_tables_are_those_of_the_paper() -> None:
    sizes = {number: (table.rows, table.pool, len(table.methods)) for number, table in TABLES.items()}
    assert sizes == {
        1: ("methods", "local", 6),
        2: ("tasks", "union", 4),
        8: ("methods", "local", 10),
        9: ("tasks", "union", 8),
    }
    assert all(len(table.tasks) == 16 == len(set(table.tasks)) for table in TABLES.values())
    assert len(published_tasks()) == 16
    at_10 = {str(task) for task in published_tasks() if task.cutoff == 10}
    assert at_10 == {"fashion200k_task0", "fashion200k_task3", "fashioniq_task7"}


@pytest.mark.parametrize(("short", "long"), [(1, 8), (2, 9)])
def test_the_supplement_repeats_the_paper_but_for_known_misprints(short: int, long: int) -> None:
    differing = {}
    for method in TABLES[short].methods:
        again = _again(method, TABLES[long])
        assert set(method.values) == set(again.values)
        for task, value in method.values.items():
            if value != again.values[task]:
                differing[method.name, str(task)] = (value, again.values[task])
    expected = {key: both for key, both in MISPRINTS.items() if key in differing}
    assert differing == expected and len(differing) == (2 if short == 1 else 4)


def test_averages_are_those_of_their_columns() -> None:
    for method in (*TABLES[2].methods, *TABLES[9].methods):
        misprinted = any(key[0] == method.name for key in MISPRINTS) and method in TABLES[2].methods
        mean = float(np.mean(list(method.values.values())))
        assert method.average == pytest.approx(mean, abs=0.3 if misprinted else 0.06)


def test_a_method_names_our_system_that_does_the_same() -> None:
    names = {method.label: method.counterpart("genius") for method in TABLES[8].methods}
    assert names == {
        "CLIP-SF (one task)": None,
        "BLIP-FF (one task)": None,
        "CLIP-SF": "dense",
        "BLIP-FF": None,
        "GRACE (one task)": None,
        "IRGen (one task)": None,
        "GENIUS (B = 30)": "genius-b30",
        "GENIUS^R (B = 30)": "genius-b30+rerank",
        "GENIUS (B = 50)": "genius-b50",
        "GENIUS^R (B = 50)": "genius-b50+rerank",
    }


def test_a_few_figures_by_hand() -> None:
    """Read off the printed tables once more, one from each corner."""
    values = {number: [m.values for m in table.methods] for number, table in TABLES.items()}
    assert values[1][0][Task("mscoco", 0)] == 81.1 and values[1][5][Task("infoseek", 8)] == 30.1
    assert values[2][0][Task("visualnews", 0)] == 42.6 and values[2][3][Task("infoseek", 8)] == 28.6
    assert values[8][0][Task("mscoco", 0)] == 81.7 and values[8][9][Task("cirr", 7)] == 39.5
    assert values[8][6][Task("edis", 2)] == 35.6 and values[8][7][Task("webqa", 1)] == 36.3
    assert values[9][4][Task("mscoco", 0)] == 55.4 and values[9][5][Task("oven", 8)] == 40.9
    assert list(values[1][2]) == [Task("mscoco", 0)]  # IRGen has one figure
