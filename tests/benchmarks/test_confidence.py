"""The benchmarks of confidences and of composed queries, on a tiny tree."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from genius import Index, Item, Query
from tests.benchmarks.scripts import RunScript, json_rows, load


def test_confidences_of_a_tree(run: RunScript, miniature: Path, trained: Path) -> None:
    rows = json_rows(
        run(
            "confidence",
            *("--tree", miniature, "--model", trained, "--workers", 1, "--json", "--queries", 4),
            *("--split", "test", "--final"),
        )
    )
    figures = {row["task"]: row for row in rows if "task" in row}
    assert {"mscoco_task0", "mscoco_task3", "webqa_task4", "all_task0"} <= set(figures)
    for row in figures.values():
        assert 0 <= row["kept, sure"] <= row["kept, likely"] <= 100
        assert 0 <= row["nothing, likely"] <= row["nothing, sure"] <= 100
        assert row["left out, likely"] <= row["left out, sure"]
    reached = [row for row in rows if row.get("direction") == "text → image"]
    shares = [row["without an answer"] for row in reached]
    assert shares == sorted(shares, reverse=True) and len(shares) == 7


def test_queries_about_other_things(miniature: Path) -> None:
    script = load("confidence")
    tree = script.Tree(miniature)
    task = script.Task("mscoco", 0)
    own = {query.text for query in tree.queries("val", task)}
    others = script.foreign_queries(tree, "val", task, 3)
    assert len(others) == 3 and all(query.text and query.image is None for query in others)
    assert {query.text for query in others} - own or own  # the miniature repeats its texts in all data sets
    images = script.foreign_queries(tree, "val", script.Task("webqa", 4), 3)
    assert all(query.image is not None and query.text is None for query in images)


def test_composed_queries_of_a_tree(run: RunScript, miniature: Path, trained: Path) -> None:
    arguments = ("--tree", miniature, "--model", trained, "--workers", 1, "--json", "--queries", 3)
    rows = json_rows(run("composed", *arguments))
    assert {row["task"] for row in rows} == {"oven_task7", "oven_task8"}
    assert {row["lean"] for row in rows} == {-0.4, -0.2, 0.0, 0.2, 0.4}
    assert all(0 <= row["hit@10"] <= 100 and row["queries"] == 3 for row in rows)


def test_the_hand_made_list() -> None:
    script = load("composed")
    queries = script.read_list()
    assert len(queries) == 50
    assert len({(query.text, query.image, query.plus, query.minus) for query in queries}) == 50
    for query in queries:
        assert (query.text is None) != (query.image is None)
        assert query.expected and (query.plus or query.minus)
    images: dict[str, Any] = {query.image: None for query in queries}
    heart = queries[0].composed(images, 0.5)
    assert heart == Query("heart").minus("red", 0.5)
    assert queries[0].sentence(images) == Query("heart, not red")


def test_scores_of_the_list(trained: Path, tmp_path: Path) -> None:
    script = load("composed")
    colours = ("red", "green", "blue")
    with Index.create(tmp_path / "index", trained) as index:
        index.add([Item(name, f"The {name} one", None, {"name": name}) for name in colours])
        query = script.ComposedQuery("The red one", None, (), (), frozenset({"red", "green", "blue"}))
        figures = script.score(index, [query], [Query("The red one")])
        assert figures == {"found": pytest.approx(100), "first": 1.0, "queries": 1}
        nothing = script.ComposedQuery("x", None, (), (), frozenset({"no such"}))
        assert script.score(index, [nothing], [Query("x")])["found"] == 0


@pytest.mark.parametrize("arguments", [(), ("--emoji", "--tree", "x"), ("--tree", "x")])
def test_what_composed_needs(run: RunScript, arguments: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("composed", *arguments)
    assert ended.value.code == 2
