"""The demo corpus: pools and queries for all eight tasks, from emoji and the vendors' pictures of them.

Two data sets: `emoji` (Noto's and Twemoji's pictures; train, val and test) and `fluent` (Fluent's pictures of
the test families: test queries only, to see how a model does on a style that it never saw).
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import orjson

from genius.data.mbeir import SPLITS, Split
from genius.data.records import ImageFile, Item, Modality, Query
from genius.data.tasks import TASK_MODALITIES, Task
from genius.demo.emoji import Emoji, changes, split_of, stable_number
from genius.demo.tags import tag_texts
from genius.demo.wording import VENDORS, prompts, request

DATASETS = {"emoji": 20, "fluent": 21}
"""The data sets' numbers; M-BEIR itself uses 0 to 10."""
TRAINED_VENDORS = ("noto", "twemoji")
TRANSFER_VENDOR = "fluent"
TASKS = (0, 1, 2, 3, 4, 6, 7, 8)
TRANSFER_TASKS = (0, 2, 3, 4, 6, 7, 8)  # text to text shows no picture, so there is nothing to transfer

# Queries of one kind from one family in each task, so that families of many (runners, flags) don't dominate.
_LIMITS: dict[Split, dict[str, int]] = {
    "train": {"tags": 12, "pictures": 24, "changes": 48, "styles": 4},
    "val": {"tags": 4, "pictures": 6, "changes": 12, "styles": 1},
    "test": {"tags": 4, "pictures": 6, "changes": 12, "styles": 1},
}

Pictures = Mapping[str, Mapping[str, str]]
"""Paths below the tree, by vendor and by an emoji's key."""


@dataclass
class Corpus:
    """What `write_tree` takes."""

    pools: dict[str, list[Item]] = field(default_factory=dict)
    queries: dict[tuple[Split, Task], list[Query]] = field(default_factory=dict)
    instructions: dict[tuple[str, int, Modality, Modality], tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Draft:
    """A query before it is chosen and has an id; `asked` is put in words only then."""

    kind: str
    family: str
    salt: str
    positives: tuple[str, ...]
    text: str | None = None
    image: ImageFile | None = None
    asked: Mapping[str, str] = field(default_factory=dict)
    negatives: tuple[str, ...] = ()


class _Shelf:
    """The items, found by emoji and vendor."""

    def __init__(self, emoji: Sequence[Emoji], pictures: Pictures, root: str) -> None:
        self.pictures, self.root = pictures, root
        self.names: dict[str, Item] = {}
        self.images: dict[tuple[str, str], Item] = {}
        self.pairs: dict[tuple[str, str], Item] = {}
        count: Counter[int] = Counter()

        def add(dataset: str, text: str | None, image: ImageFile | None, source: dict[str, str]) -> Item:
            number = DATASETS[dataset]
            count[number] += 1
            return Item(
                f"{number}:{count[number]}", text, image, {"src_content": orjson.dumps(source).decode()}
            )

        for one in emoji:
            self.names[one.key] = add("emoji", one.name, None, {"emoji": one.character})
        for vendor in (*TRAINED_VENDORS, TRANSFER_VENDOR):
            dataset = "fluent" if vendor == TRANSFER_VENDOR else "emoji"
            for one in emoji:
                image = self.image(one, vendor)
                if image is not None:
                    source = {"emoji": one.character, "vendor": VENDORS[vendor]}
                    self.images[one.key, vendor] = add(dataset, None, image, source)
                    self.pairs[one.key, vendor] = add(dataset, one.name, image, source)

    def image(self, one: Emoji, vendor: str) -> ImageFile | None:
        """A vendor's picture of an emoji, if there is one."""
        path = self.pictures[vendor].get(one.key)
        return ImageFile(self.root, path) if path else None

    def targets(self, task: int, one: Emoji, vendors: Iterable[str]) -> list[str]:
        """The items of a task's target modality that show or name an emoji."""
        if TASK_MODALITIES[task][1] is Modality.TEXT:
            return [self.names[one.key].id]
        shelf = self.images if TASK_MODALITIES[task][1] is Modality.IMAGE else self.pairs
        return [shelf[one.key, vendor].id for vendor in vendors if (one.key, vendor) in shelf]

    def pool(self, task: int, vendors: Iterable[str]) -> list[Item]:
        """All items that a task may return."""
        if TASK_MODALITIES[task][1] is Modality.TEXT:
            return list(self.names.values())
        shelf = self.images if TASK_MODALITIES[task][1] is Modality.IMAGE else self.pairs
        return [item for vendor in vendors for (_, owner), item in shelf.items() if owner == vendor]


def design(emoji: Sequence[Emoji], pictures: Pictures, root: str) -> Corpus:
    """The corpus over emoji that all trained vendors draw, with the pictures' files below `root`."""
    shelf = _Shelf(emoji, pictures, root)
    material = _Material(emoji, tag_texts(emoji), changes(emoji))
    corpus = Corpus()
    drafts: dict[tuple[Split, Task], list[_Draft]] = defaultdict(list)
    for dataset, number in DATASETS.items():
        trained = dataset == "emoji"
        vendors = TRAINED_VENDORS if trained else (TRANSFER_VENDOR,)
        for task in (Task(dataset, task) for task in (TASKS if trained else TRANSFER_TASKS)):
            pool_vendors = TRAINED_VENDORS if task.number == 4 else vendors
            corpus.pools[str(task)] = shelf.pool(task.number, pool_vendors)
            corpus.instructions[dataset, number, task.query, task.target] = prompts(dataset, task.number)
            for draft in _drafts(task.number, material, shelf, vendors):
                split = split_of(draft.family)
                if trained or split == "test":
                    drafts[split, task].append(draft)
    _number(drafts, corpus)
    return corpus


@dataclass(frozen=True, slots=True)
class _Material:
    """What queries are made of."""

    emoji: Sequence[Emoji]
    by_tags: Sequence[tuple[str, list[Emoji]]]
    changes: Sequence[tuple[Emoji, Emoji, dict[str, str]]]


def _drafts(task: int, material: _Material, shelf: _Shelf, vendors: Sequence[str]) -> Iterable[_Draft]:
    """All queries that a task could have."""
    asked_with = TASK_MODALITIES[task][0]
    if asked_with is Modality.TEXT:
        yield from _by_tags(task, material, shelf, vendors)
    elif asked_with is Modality.IMAGE:
        yield from _by_picture(task, material, shelf, vendors)
    else:
        yield from _by_change(task, material, shelf, vendors)
        if TASK_MODALITIES[task][1] is not Modality.TEXT:
            yield from _by_style(task, material, shelf, vendors)


def _by_tags(task: int, material: _Material, shelf: _Shelf, vendors: Sequence[str]) -> Iterable[_Draft]:
    """Tags → everything that fits them all."""
    for text, fitting in material.by_tags:
        positives = [did for one in fitting for did in shelf.targets(task, one, vendors)]
        if positives:
            yield _Draft("tags", fitting[0].family, text, tuple(positives), text)


def _by_picture(task: int, material: _Material, shelf: _Shelf, vendors: Sequence[str]) -> Iterable[_Draft]:
    """A picture → its name, or the same emoji as other vendors draw it."""
    for vendor, one in itertools.product(vendors, material.emoji):
        image = shelf.image(one, vendor)
        others = [other for other in TRAINED_VENDORS if other != vendor]
        positives = shelf.targets(task, one, others)
        if image and positives:
            yield _Draft("pictures", one.family, f"{vendor} {one.key}", tuple(positives), image=image)


def _by_change(task: int, material: _Material, shelf: _Shelf, vendors: Sequence[str]) -> Iterable[_Draft]:
    """A picture and a wish → the emoji so changed, by the same vendor."""
    for vendor, (source, target, asked) in itertools.product(vendors, material.changes):
        image = shelf.image(source, vendor)
        if image and shelf.image(target, vendor):
            salt = f"{vendor} {source.key} {target.key}"
            positives = tuple(shelf.targets(task, target, [vendor]))
            unchanged = tuple(shelf.targets(task, source, [vendor]))
            yield _Draft("changes", source.family, salt, positives, None, image, asked, unchanged)


def _by_style(task: int, material: _Material, shelf: _Shelf, vendors: Sequence[str]) -> Iterable[_Draft]:
    """A picture and another vendor's name → the same emoji in that style."""
    for vendor, other in itertools.permutations(vendors, 2):
        for one in material.emoji:
            image = shelf.image(one, vendor)
            positives = tuple(shelf.targets(task, one, [other]))
            if image and positives:
                salt = f"{vendor} {one.key} {other}"
                unchanged = tuple(shelf.targets(task, one, [vendor]))
                asked = {"style": VENDORS[other]}
                yield _Draft("styles", one.family, salt, positives, None, image, asked, unchanged)


def _number(drafts: Mapping[tuple[Split, Task], list[_Draft]], corpus: Corpus) -> None:
    """Give the chosen drafts their ids, counted from 1 in each data set."""
    count: Counter[str] = Counter()
    for split, task in sorted(drafts, key=lambda key: (key[1].dataset, SPLITS.index(key[0]), key[1].number)):
        queries = corpus.queries.setdefault((split, task), [])
        for draft in _limited(drafts[split, task], _LIMITS[split], str(task.number)):
            count[task.dataset] += 1
            queries.append(
                Query(
                    id=f"{DATASETS[task.dataset]}:{count[task.dataset]}",
                    text=request(draft.asked, f"{task} {draft.salt}") if draft.asked else draft.text,
                    image=draft.image,
                    want=task.target,
                    positives=draft.positives,
                    negatives=draft.negatives,
                    task=task.number,
                    dataset=task.dataset,
                )
            )


def _limited(drafts: Sequence[_Draft], limits: Mapping[str, int], salt: str) -> list[_Draft]:
    """At most so many drafts of each kind from a family, chosen by hash, in their order."""
    taken: Counter[tuple[str, str]] = Counter()
    chosen = set()
    for place in sorted(range(len(drafts)), key=lambda place: stable_number(salt, drafts[place].salt)):
        kind, family = drafts[place].kind, drafts[place].family
        taken[kind, family] += 1
        if taken[kind, family] <= limits[kind]:
            chosen.add(place)
    return [draft for place, draft in enumerate(drafts) if place in chosen]
