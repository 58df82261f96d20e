"""What is written is what is read, for any record with any Unicode."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import genius
from genius.data.collection import SeenIds
from genius.data.mbeir import Tree
from genius.data.mbeir_writer import write_tree
from genius.data.records import ImageFile, Item, Modality, Query
from genius.data.tables import write_items
from genius.data.tasks import TASK_MODALITIES, Task
from genius.errors import InputError
from genius.paths import safe_path

TEXT = st.text(min_size=1)  # any Unicode but lone surrogates, which no encoding can write
CHARACTERS = st.characters(exclude_characters="/\\\0:", exclude_categories=["Cs"])
PART = st.text(CHARACTERS, min_size=1).filter(lambda part: part.strip(".") != "" and not part.startswith("."))
PATHS = st.lists(PART, min_size=1, max_size=3).map("/".join)
NAMES = TEXT.filter(lambda name: name not in ("id", "_id", "did", "key", "metadata"))
SCALARS = (
    TEXT
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.booleans()
    | st.none()
)


@st.composite
def contents(draw: st.DrawFn, modality: Modality | None = None) -> dict[str, Any]:
    modality = modality or draw(st.sampled_from(Modality))
    text = None if modality is Modality.IMAGE else draw(TEXT)
    return {"text": text, "image": None if modality is Modality.TEXT else draw(PATHS)}


def record(kind: type, root: str, fields: dict[str, Any], **more: Any) -> Any:
    image = ImageFile(root, fields["image"]) if fields["image"] is not None else None
    return kind(text=fields["text"], image=image, **more)


@given(
    st.dictionaries(
        TEXT.filter(lambda id: "\0" not in id),
        st.tuples(contents(), st.dictionaries(TEXT, SCALARS, max_size=4)),
        min_size=1,
        max_size=6,
    )
)
def test_items_as_jsonl(rows: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        items = [record(Item, folder, fields, id=id, metadata=extra) for id, (fields, extra) in rows.items()]
        path = Path(folder, "items.jsonl")
        assert write_items(path, items) == len(items)
        assert list(genius.read(path, strict=True)) == items


Contents = dict[str, Any]
"""The text of a record and the path of its image, either of which may be None."""
DrawnTree = tuple[dict[Modality, list[Contents]], dict[int, list[Contents]]]
"""Items by modality, and queries by number of task."""


@st.composite
def trees(draw: st.DrawFn) -> DrawnTree:
    """A pool of each modality, and queries of every task with positives in it."""
    pools = {m: draw(st.lists(contents(m), min_size=1, max_size=3)) for m in Modality}
    tasks = draw(st.lists(st.sampled_from(sorted(TASK_MODALITIES)), min_size=1, unique=True))
    queries = {
        number: draw(st.lists(contents(TASK_MODALITIES[number][0]), min_size=1, max_size=3))
        for number in tasks
    }
    return pools, queries


@given(trees())
def test_mbeir_trees(drawn: DrawnTree) -> None:
    with tempfile.TemporaryDirectory() as folder:
        ids = iter(range(10_000))
        pools: dict[Modality, list[Item]] = {
            m: [record(Item, folder, row, id=f"30:{next(ids)}") for row in rows]
            for m, rows in drawn[0].items()
        }
        named: dict[str, list[Item]] = {}
        queries: dict[Task, list[Query]] = {}
        for number, rows in drawn[1].items():
            task = Task("own", number)
            named[str(task)] = pools[task.target]
            positives = tuple(item.id for item in pools[task.target][:2])
            shared = {"want": task.target, "positives": positives, "task": number, "dataset": "own"}
            queries[task] = [record(Query, folder, row, id=f"30:{next(ids)}", **shared) for row in rows]
        write_tree(
            Path(folder),
            pools=named,
            queries={("test", task): rows for task, rows in queries.items()},
            instructions={},
        )
        tree = Tree(folder, instructed=False)
        assert {str(task): list(tree.pool(task)) for task in tree.tasks("test")} == named
        assert {task: list(tree.queries("test", task)) for task in tree.tasks("test")} == queries
        assert {item.id for item in tree} == {item.id for items in named.values() for item in items}
        for task, listed in queries.items():
            assert tree.judgements("test", task) == {query.id: list(query.positives) for query in listed}
        tree.check("test")


@given(st.lists(st.lists(st.text(max_size=2), max_size=30), max_size=20))
def test_seen_ids_equal_a_set(blocks: list[list[str]]) -> None:
    seen, known = SeenIds(), set()
    for block in blocks:
        expected = set()
        for place, id in enumerate(block):
            if id in known:
                expected.add(place)
            known.add(id)
        assert seen.add(block) == expected


@given(st.text(st.sampled_from("ab./\\:C "), min_size=1, max_size=12))
def test_a_safe_path_stays_below_its_root(path: str) -> None:
    try:
        safe = safe_path(path)
    except InputError:
        return
    root = Path("/root/of/images")
    assert not safe.startswith("/")
    assert ".." not in safe.split("/")
    assert root in (root / safe).parents
    assert safe_path(safe) == safe
