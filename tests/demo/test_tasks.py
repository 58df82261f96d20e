"""The content of the demo corpus, built from small made-up packages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from genius.data.mbeir import SPLITS, Split, Tree
from genius.data.records import ImageSource, Item, Query
from genius.data.tasks import Task
from genius.demo.emoji import Emoji, difference, split_of
from genius.demo.tasks import TASKS
from tests.demo.made_up import key_of, vendor_of


def images(query: Query, items: dict[str, Item]) -> list[ImageSource]:
    """The images of a query and of its positives and negatives."""
    records: list[Item | Query] = [query, *(items[did] for did in (*query.positives, *query.negatives))]
    return [record.image for record in records if record.image]


def families(queries: Iterable[Query], items: dict[str, Item], emojis: dict[str, Emoji]) -> set[str]:
    """The families of all emoji that queries, their positives and their negatives show or name."""
    shown: set[str] = set()
    for query in queries:
        names = [items[did].text for did in (*query.positives, *query.negatives)]
        shown.update(emojis[name].family for name in names if name)
        shown.update(emojis[key_of(image)].family for image in images(query, items))
    return shown


def test_every_family_is_in_one_split_and_fluent_is_for_transfer_only(
    built: Path, emojis: dict[str, Emoji]
) -> None:
    tree = Tree(built)
    items = {item.id: item for item in tree}
    for split in SPLITS:
        tree.check(split)
        shown = families(tree.queries(split), items, emojis)
        assert shown
        assert all(split_of(family) == split for family in shown)
        assert {task.number for task in tree.tasks(split) if task.dataset == "emoji"} == set(TASKS)
    trained_splits: list[Split] = ["train", "val"]
    for split in trained_splits:
        assert {task.dataset for task in tree.tasks(split)} == {"emoji"}
        for query in tree.queries(split):
            assert "fluent" not in {vendor_of(image) for image in images(query, items)}


def test_every_positive_is_in_its_own_pool_and_of_the_tasks_modality(built: Path) -> None:
    tree = Tree(built)
    for split in SPLITS:
        for task in tree.tasks(split):
            pool = {item.id: item for item in tree.pool(task, split)}
            judged = tree.judgements(split, task)
            for query in tree.queries(split, task):
                assert query.modality is task.query
                assert query.positives
                assert not set(query.positives) & set(query.negatives)
                assert {pool[did].modality for did in query.positives} == {task.target}
                assert judged[query.id] == list(query.positives)


def test_ids_occur_once_and_carry_the_data_sets_number(built: Path) -> None:
    tree = Tree(built)
    queries = [query for split in SPLITS for query in tree.queries(split)]
    assert len({query.id for query in queries}) == len(queries)
    prefixes: dict[str | None, str] = {"emoji": "20:", "fluent": "21:"}
    for query in queries:
        assert query.id.startswith(prefixes[query.dataset])
    assert len({(query.task, query.dataset, query.text, query.image) for query in queries}) == len(queries)


def test_a_change_leads_to_the_image_that_has_it(built: Path, emojis: dict[str, Emoji]) -> None:
    tree = Tree(built)
    items = {item.id: item for item in tree}
    kinds: Counter[str] = Counter()
    parts: list[tuple[str, Split]] = [("emoji", "train"), ("emoji", "test"), ("fluent", "test")]
    for dataset, split in parts:
        for query in tree.queries(split, Task(dataset, 7)):
            (target,) = (items[did].image for did in query.positives)
            source = emojis[key_of(query.image)]
            change = difference(source, emojis[key_of(target)])
            assert change is not None and query.text is not None
            if vendor_of(query.image) != vendor_of(target):
                assert change == {}
                assert {"noto": "Noto", "twemoji": "Twemoji"}[vendor_of(target)] in query.text
            else:
                assert change
                # "default" is worded as "the default yellow skin", every other value as itself
                assert all(value in query.text for value in change.values())
            kinds.update(list(change) or ["style"])
            assert [key_of(items[did].image) for did in query.negatives] == [source.key]
    assert {"tone", "gender", "style"} <= set(kinds)


def test_images_lead_to_their_own_name_and_to_other_vendors_drawings(
    built: Path, emojis: dict[str, Emoji]
) -> None:
    tree = Tree(built)
    items = {item.id: item for item in tree}
    for query in tree.queries("test", Task("emoji", 3)):
        assert [items[did].text for did in query.positives] == [emojis[key_of(query.image)].name]
    for dataset, others in (("emoji", 1), ("fluent", 2)):
        for query in tree.queries("test", Task(dataset, 4)):
            answers = [items[did].image for did in query.positives]
            assert {key_of(image) for image in answers} == {key_of(query.image)}
            assert vendor_of(query.image) not in {vendor_of(image) for image in answers}
            assert len(answers) == others


def test_no_family_has_more_queries_than_the_limit(built: Path, emojis: dict[str, Emoji]) -> None:
    tree = Tree(built)
    items = {item.id: item for item in tree}
    per_family: Counter[str] = Counter()
    for query in tree.queries("test", Task("emoji", 3)):
        per_family.update(families([query], items, emojis))
    assert max(per_family.values()) == 6  # of 36 images of a worker


def test_fluents_mislabelled_skin_tones_are_left_out(built: Path) -> None:
    fluent = [vendor_of(item.image) + key_of(item.image) for item in Tree(built).pool("fluent_task0")]
    assert any("1f3fb" in key for key in fluent)
    assert not any("1f3fc" in key or "1f3fd" in key for key in fluent)
