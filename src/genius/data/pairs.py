"""Pairs of a query and the item that answers it: what one needs to train, written as an M-BEIR tree.

Pairs come from a table, from captions beside photos, or from a collection itself (`genius.data.weak_labels`).
"""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from genius.data.collection import Report
from genius.data.instructions import generic
from genius.data.mbeir import Split, Tree
from genius.data.mbeir_writer import write_tree
from genius.data.records import ImageFile, ImageSource, Item, Modality, Query
from genius.data.tasks import TASK_MODALITIES, Task
from genius.errors import InputError

DATASET = "pairs"
MAX_INSTRUCTIONS = 100
"""Each instruction is a data set of its own in M-BEIR's layout."""
MAX_VALIDATION = 2000
"""Items that are held out for validation, at most."""

_TASK_OF = {modalities: number for number, modalities in TASK_MODALITIES.items()}


@dataclass(frozen=True)
class Pair:
    """A query and an item that answers it; the split is chosen by the item where it is None."""

    query: Query
    item: Item
    split: Split | None = None


def reversed_pair(pair: Pair) -> Pair | None:
    """The item asks for the query: an image for its caption. None for a query of image and text: the change
    that it describes does not lead back."""
    query, item = pair.query, pair.item
    if query.modality is Modality.PAIR or item.modality is Modality.PAIR:
        return None
    content = query.text or (query.image.name if query.image else "")
    answer = Item(f"query-{_digest(content)}", query.text, query.image)
    return Pair(Query(text=item.text, image=item.image), answer, pair.split)


def write_pairs_tree(
    folder: Path,
    pairs: Iterable[Pair],
    *,
    others: Iterable[Item] = (),
    both_ways: bool = True,
    validation: float = 0.1,
    seed: int = 0,
    report: Report | None = None,
) -> Tree:
    """Write pairs as an M-BEIR tree with training and validation queries, and open it.

    An item is held out for validation with all pairs that lead to it, so that validation asks for items that
    no training query had. `others` are items that no query asks for; they are candidates all the same. With
    `both_ways`, an image also asks for its text and a text for its image. Images are linked into the tree, or
    copied where that is impossible. An image that can't be read is raised, or goes to `report` and its pair
    is left out. Raises InputError if there are fewer than two items, so that nothing could be held out.
    """
    draft, report = _Draft(folder), report or _raise
    for pair in pairs:
        try:
            item = draft.add_item(pair.item)
            draft.add_query(pair.query, item, pair.split)
            turned = reversed_pair(pair) if both_ways else None
            if turned is not None:
                # the same key decides the split of both, so no content is on both sides of it
                draft.add_query(turned.query, draft.add_item(turned.item), pair.split, key=item)
        except InputError as error:
            report(error)
    for other in others:
        try:
            draft.add_item(other)
        except InputError as error:
            report(error)
    draft.write(validation, seed)
    return Tree(folder)


def _raise(error: InputError) -> None:
    raise error


@dataclass
class _Draft:
    """The items and queries of a tree, numbered as M-BEIR does; images are in its folder already."""

    folder: Path
    items: dict[str, Item] = field(default_factory=dict)
    queries: dict[tuple[str, ...], _DraftQuery] = field(default_factory=dict)
    _images: dict[str, str] = field(default_factory=dict)
    _instructions: dict[str | None, str] = field(default_factory=dict)

    def add_item(self, item: Item) -> str:
        """Add an item, unless it is there; returns its id."""
        if item.id not in self.items:
            # M-BEIR separates ids by spaces, so an item's own id can't be used
            self.items[item.id] = Item(f"1:{len(self.items) + 1}", item.text, self._stored(item.image))
        return item.id

    def add_query(self, query: Query, item: str, split: Split | None, key: str | None = None) -> None:
        """Add a query that an item answers; a query that is there gets one more answer."""
        dataset = self._dataset(query.instruction)
        number = _TASK_OF[query.modality, self.items[item].modality]
        image = self._stored(query.image)
        identity = (dataset, str(number), query.text or "", image.path if image else "")
        if identity not in self.queries:
            prefix = list(self._instructions.values()).index(dataset) + 1  # by which prompts are found
            qid = f"{prefix}:{len(self.queries) + 1}"
            stored = Query(query.text, image, id=qid, task=number, dataset=dataset)
            self.queries[identity] = _DraftQuery(stored, Task(dataset, number))
        self.queries[identity].answers.append((item, key or item, split))

    def write(self, validation: float, seed: int) -> None:
        """Write the tree."""
        held_out = self._held_out(validation, seed)
        queries: defaultdict[tuple[Split, Task], list[Query]] = defaultdict(list)
        for draft in self.queries.values():
            by_split: defaultdict[Split, list[str]] = defaultdict(list)
            for item, key, split in draft.answers:
                by_split[split or ("val" if key in held_out else "train")].append(self.items[item].id)
            for split, answers in by_split.items():
                query = replace(draft.query, positives=tuple(dict.fromkeys(answers)))
                queries[split, draft.task].append(query)
        _check(queries)
        tasks = sorted({task for _, task in queries}, key=str)
        write_tree(
            self.folder,
            pools={
                str(task): [item for item in self.items.values() if item.modality is task.target]
                for task in tasks
            },
            queries=queries,
            instructions=dict(map(self._prompt, tasks)),
        )

    def _held_out(self, validation: float, seed: int) -> set[str]:
        """The keys of items that are held out: the same ones whatever the order of pairs."""
        keys = {key for draft in self.queries.values() for _, key, split in draft.answers if split is None}
        count = min(max(1, round(validation * len(keys))), MAX_VALIDATION)
        return set(sorted(keys, key=lambda key: _digest(f"{seed}:{key}"))[:count])

    def _prompt(self, task: Task) -> tuple[tuple[str, int, Modality, Modality], Sequence[str]]:
        """The key of a task in M-BEIR's table of prompts, and its one prompt."""
        datasets = list(self._instructions.values())
        number = datasets.index(task.dataset) + 1
        prompt = list(self._instructions)[number - 1] or generic(task.query, task.target)
        return (task.dataset, number, task.query, task.target), [prompt]

    def _dataset(self, instruction: str | None) -> str:
        """The data set of an instruction, as M-BEIR's prompts belong to data sets."""
        known = instruction or None
        if known not in self._instructions:
            number = len(self._instructions) + 1
            if number > MAX_INSTRUCTIONS:
                raise InputError(
                    f"there are more than {MAX_INSTRUCTIONS} different instructions: an instruction says "
                    "what kind of answer is wanted, and belongs to many pairs"
                )
            self._instructions[known] = DATASET if number == 1 else f"{DATASET}{number}"
        return self._instructions[known]

    def _stored(self, image: ImageSource | None) -> ImageFile | None:
        """The image as a file of the tree."""
        if image is None:
            return None
        # images in memory may all have one name
        name = str(image.file) if isinstance(image, ImageFile) else _digest(image.read())
        if name not in self._images:
            ending = PurePosixPath(image.name).suffix.lower() or ".img"
            path = f"images/{len(self._images) + 1:06d}{ending}"
            _link_or_copy(image, self.folder / path)
            self._images[name] = path
        return ImageFile(str(self.folder), self._images[name])


@dataclass
class _DraftQuery:
    """A query, and for each item that answers it the item's id, the key of its split, and its given split."""

    query: Query
    task: Task
    answers: list[tuple[str, str, Split | None]] = field(default_factory=list)


def _check(queries: Mapping[tuple[Split, Task], Sequence[Query]]) -> None:
    for wanted in ("train", "val"):
        if not any(split == wanted for split, _ in queries):
            raise InputError(
                f"the pairs leave no {wanted} query: training needs pairs of at least two items, "
                "and of both splits where they name one"
            )


def _link_or_copy(image: ImageSource, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(image, ImageFile) and not image.file.is_symlink():
        try:
            os.link(image.file, target)
            return
        except OSError:  # another disk, or no such file, which reading names
            pass
    target.write_bytes(image.read())


def _digest(content: str | bytes) -> str:
    data = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
    return hashlib.blake2b(data, digest_size=8).hexdigest()
