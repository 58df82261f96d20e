"""The tasks of the demo corpus: pools and queries of all eight, from emoji and the vendors' images of them.

Two data sets: `emoji` (Noto's and Twemoji's images; train, val and test) and `fluent` (Fluent's images of the
test families: test queries only, to measure a model on a style that it never saw).
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
from genius.demo.emoji import Change, Emoji, changes, split_of, stable_number
from genius.demo.tags import tag_texts
from genius.demo.wording import VENDORS, prompts, request

DATASETS = {"emoji": 20, "fluent": 21}
"""The numbers of the data sets; M-BEIR itself uses 0 to 10."""
TRAINED_VENDORS = ("noto", "twemoji")
TRANSFER_VENDOR = "fluent"
TASKS = (0, 1, 2, 3, 4, 6, 7, 8)
TRANSFER_TASKS = (0, 2, 3, 4, 6, 7, 8)  # text → text has no images, so there is no style to transfer to

# Maximum number of queries per kind, family and task, so that large families (runners, flags) don't dominate.
_LIMITS: dict[Split, dict[str, int]] = {
    "train": {"tags": 12, "images": 24, "changes": 48, "styles": 4},
    "val": {"tags": 4, "images": 6, "changes": 12, "styles": 1},
    "test": {"tags": 4, "images": 6, "changes": 12, "styles": 1},
}

ImagePaths = Mapping[str, Mapping[str, str]]
"""Paths below the tree, by vendor and by the emoji's key."""


@dataclass
class DemoCorpus:
    """The arguments of `write_tree`."""

    pools: dict[str, list[Item]] = field(default_factory=dict)
    queries: dict[tuple[Split, Task], list[Query]] = field(default_factory=dict)
    instructions: dict[tuple[str, int, Modality, Modality], tuple[str, ...]] = field(default_factory=dict)


def make_corpus(emojis: Sequence[Emoji], image_paths: ImagePaths, root: str) -> DemoCorpus:
    """The corpus over emoji that all trained vendors draw; image paths are relative to `root`."""
    items = _EmojiItems(emojis, image_paths, root)
    material = _Material(emojis, tag_texts(emojis), changes(emojis))
    corpus = DemoCorpus()
    drafts: dict[tuple[Split, Task], list[_Draft]] = defaultdict(list)
    for dataset, number in DATASETS.items():
        trained = dataset == "emoji"
        vendors = TRAINED_VENDORS if trained else (TRANSFER_VENDOR,)
        for task in (Task(dataset, task) for task in (TASKS if trained else TRANSFER_TASKS)):
            pool_vendors = TRAINED_VENDORS if task.number == 4 else vendors
            corpus.pools[str(task)] = items.pool(task.number, pool_vendors)
            corpus.instructions[dataset, number, task.query, task.target] = prompts(dataset, task.number)
            for draft in _drafts(task.number, material, items, vendors):
                split = split_of(draft.family)
                if trained or split == "test":
                    drafts[split, task].append(draft)
    _add_queries(corpus, drafts)
    return corpus


class _EmojiItems:
    """The items of the corpus, by emoji and vendor."""

    def __init__(self, emojis: Sequence[Emoji], image_paths: ImagePaths, root: str) -> None:
        self.image_paths, self.root = image_paths, root
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

        for emoji in emojis:
            self.names[emoji.key] = add("emoji", emoji.name, None, {"emoji": emoji.character})
        for vendor in (*TRAINED_VENDORS, TRANSFER_VENDOR):
            dataset = "fluent" if vendor == TRANSFER_VENDOR else "emoji"
            for emoji in emojis:
                image = self.image(emoji, vendor)
                if image is not None:
                    source = {"emoji": emoji.character, "vendor": VENDORS[vendor]}
                    self.images[emoji.key, vendor] = add(dataset, None, image, source)
                    self.pairs[emoji.key, vendor] = add(dataset, emoji.name, image, source)

    def image(self, emoji: Emoji, vendor: str) -> ImageFile | None:
        """A vendor's image of an emoji, if there is one."""
        path = self.image_paths[vendor].get(emoji.key)
        return ImageFile(self.root, path) if path else None

    def targets(self, task: int, emoji: Emoji, vendors: Iterable[str]) -> list[str]:
        """The ids of the items of a task's target modality that show or name an emoji."""
        if TASK_MODALITIES[task][1] is Modality.TEXT:
            return [self.names[emoji.key].id]
        drawn = self._drawn(task)
        return [drawn[emoji.key, vendor].id for vendor in vendors if (emoji.key, vendor) in drawn]

    def pool(self, task: int, vendors: Iterable[str]) -> list[Item]:
        """All items that a task may return."""
        if TASK_MODALITIES[task][1] is Modality.TEXT:
            return list(self.names.values())
        drawn = self._drawn(task)
        return [item for vendor in vendors for (_, drawn_by), item in drawn.items() if drawn_by == vendor]

    def _drawn(self, task: int) -> dict[tuple[str, str], Item]:
        return self.images if TASK_MODALITIES[task][1] is Modality.IMAGE else self.pairs


@dataclass(frozen=True, slots=True)
class _Material:
    """The material of queries: emoji, texts of tags with what fits them, and changes."""

    emojis: Sequence[Emoji]
    by_tags: Sequence[tuple[str, list[Emoji]]]
    changes: Sequence[tuple[Emoji, Emoji, Change]]


@dataclass(frozen=True, slots=True)
class _Draft:
    """A query before it is chosen and gets an id; only then is its `change` put into words."""

    kind: str
    family: str
    salt: str
    positives: tuple[str, ...]
    text: str | None = None
    image: ImageFile | None = None
    change: Mapping[str, str] = field(default_factory=dict)
    negatives: tuple[str, ...] = ()


def _drafts(task: int, material: _Material, items: _EmojiItems, vendors: Sequence[str]) -> Iterable[_Draft]:
    """All queries that a task could have."""
    query, target = TASK_MODALITIES[task]
    if query is Modality.TEXT:
        yield from _by_tags(task, material, items, vendors)
    elif query is Modality.IMAGE:
        yield from _by_image(task, material, items, vendors)
    else:
        yield from _by_change(task, material, items, vendors)
        if target is not Modality.TEXT:
            yield from _by_style(task, material, items, vendors)


def _by_tags(task: int, material: _Material, items: _EmojiItems, vendors: Sequence[str]) -> Iterable[_Draft]:
    """Tags → everything that fits them all."""
    for text, fitting in material.by_tags:
        positives = [did for emoji in fitting for did in items.targets(task, emoji, vendors)]
        if positives:
            yield _Draft("tags", fitting[0].family, text, tuple(positives), text)


def _by_image(task: int, material: _Material, items: _EmojiItems, vendors: Sequence[str]) -> Iterable[_Draft]:
    """An image → its name, or the same emoji drawn by other vendors."""
    for vendor, emoji in itertools.product(vendors, material.emojis):
        image = items.image(emoji, vendor)
        others = [other for other in TRAINED_VENDORS if other != vendor]
        positives = items.targets(task, emoji, others)
        if image and positives:
            yield _Draft("images", emoji.family, f"{vendor} {emoji.key}", tuple(positives), image=image)


def _by_change(
    task: int, material: _Material, items: _EmojiItems, vendors: Sequence[str]
) -> Iterable[_Draft]:
    """An image and a change → the changed emoji by the same vendor."""
    for vendor, (source, target, change) in itertools.product(vendors, material.changes):
        image = items.image(source, vendor)
        if image and items.image(target, vendor):
            salt = f"{vendor} {source.key} {target.key}"
            positives = tuple(items.targets(task, target, [vendor]))
            unchanged = tuple(items.targets(task, source, [vendor]))
            yield _Draft("changes", source.family, salt, positives, None, image, change, unchanged)


def _by_style(task: int, material: _Material, items: _EmojiItems, vendors: Sequence[str]) -> Iterable[_Draft]:
    """An image and another vendor's name → the same emoji in that style."""
    for vendor, other in itertools.permutations(vendors, 2):
        for emoji in material.emojis:
            image = items.image(emoji, vendor)
            positives = tuple(items.targets(task, emoji, [other]))
            if image and positives:
                salt = f"{vendor} {emoji.key} {other}"
                unchanged = tuple(items.targets(task, emoji, [vendor]))
                change = {"style": VENDORS[other]}
                yield _Draft("styles", emoji.family, salt, positives, None, image, change, unchanged)


def _add_queries(corpus: DemoCorpus, drafts: Mapping[tuple[Split, Task], list[_Draft]]) -> None:
    """Add the chosen drafts to the corpus as queries, with ids counted from 1 in each data set."""
    count: Counter[str] = Counter()
    for split, task in sorted(drafts, key=lambda key: (key[1].dataset, SPLITS.index(key[0]), key[1].number)):
        queries = corpus.queries.setdefault((split, task), [])
        for draft in _limited(drafts[split, task], _LIMITS[split], str(task.number)):
            count[task.dataset] += 1
            queries.append(
                Query(
                    id=f"{DATASETS[task.dataset]}:{count[task.dataset]}",
                    text=request(draft.change, f"{task} {draft.salt}") if draft.change else draft.text,
                    image=draft.image,
                    want=task.target,
                    positives=draft.positives,
                    negatives=draft.negatives,
                    task=task.number,
                    dataset=task.dataset,
                )
            )


def _limited(drafts: Sequence[_Draft], limits: Mapping[str, int], salt: str) -> list[_Draft]:
    """The drafts, in order, without those beyond the limit of their kind and family; a hash chooses."""
    taken: Counter[tuple[str, str]] = Counter()
    chosen = set()
    for place in sorted(range(len(drafts)), key=lambda place: stable_number(salt, drafts[place].salt)):
        kind, family = drafts[place].kind, drafts[place].family
        taken[kind, family] += 1
        if taken[kind, family] <= limits[kind]:
            chosen.add(place)
    return [draft for place, draft in enumerate(drafts) if place in chosen]
