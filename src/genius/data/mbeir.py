"""M-BEIR trees: the candidates, queries, judgements and instructions of a benchmark in M-BEIR's layout.

TREE/cand_pool/local/mbeir_DATASET_taskN_cand_pool.jsonl     the candidates (items) of a task
TREE/cand_pool/global/mbeir_union_SPLIT_cand_pool.jsonl      those of all tasks together
TREE/query/SPLIT/mbeir_DATASET_taskN_SPLIT.jsonl             queries with their positives
TREE/qrels/SPLIT/mbeir_DATASET_taskN_SPLIT_qrels.txt         judgements
TREE/instructions/query_instructions.tsv                     prompts
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from genius.data.collection import Collection, Located, Report, unique_items
from genius.data.instructions import Instructions
from genius.data.records import ImageFile, Item, Modality, Query
from genius.data.rows import Row
from genius.data.tables import json_lines
from genius.data.tasks import TASK_MODALITIES, Task, result_order
from genius.errors import InputError
from genius.paths import safe_path

Split = Literal["train", "val", "test"]
SPLITS: tuple[Split, ...] = ("train", "val", "test")
UNION = "union"
"""The name of the pool that holds the candidates of all tasks."""

_QUERY_FILE = re.compile(r"mbeir_(?P<dataset>.+?)(_task(?P<task>\d+))?_(train|val|test)\.jsonl")


class _QueryFile(NamedTuple):
    """A file of queries; without a task number it holds all tasks of its data set."""

    path: Path
    dataset: str
    number: int | None


class Tree(Collection):
    """An M-BEIR tree. Iterating over it gives every candidate once: its test union pool, or all local pools.

    A query's instruction is chosen among the prompts of its data set by a hash of its id and `seed`, so it is
    the same in every run and on every machine; with `instructed=False` queries have none.

    With `datasets`, a tree is a view of these data sets: their queries, their pools, and those items of the
    union that are in these pools. Its instructions are those of the whole tree.
    """

    kind = "M-BEIR tree"

    def __init__(
        self, path: Path | str, *, seed: int = 0, instructed: bool = True, datasets: Sequence[str] = ()
    ) -> None:
        super().__init__(Path(path), strict=True)
        if not is_tree(self.path):
            raise InputError("is no M-BEIR tree: it has no folder query/ beside cand_pool/", path=path)
        self.seed = seed
        self.instructed = instructed
        self.datasets: tuple[str, ...] = ()
        if unknown := sorted(set(datasets) - set(self._known_datasets() if datasets else ())):
            known = ", ".join(self._known_datasets())
            raise InputError(f"has no data set {unknown[0]!r}; there are: {known}", path=path)
        self.datasets = tuple(sorted(set(datasets)))

    def only(self, *datasets: str) -> Tree:
        """A view of these data sets; without a name, the whole tree. Raises InputError for unknown names."""
        return Tree(self.path, seed=self.seed, instructed=self.instructed, datasets=datasets)

    def without(self, *datasets: str) -> Tree:
        """A view of all other data sets. Raises InputError if none is left, and for unknown names."""
        excluded = self.only(*datasets).datasets
        rest = [name for name in self.only()._known_datasets() if name not in excluded]
        if not rest:
            raise InputError(f"has no data set besides {', '.join(datasets)}", path=self.path)
        return self.only(*rest)

    def tasks(self, split: Split) -> list[Task]:
        """The tasks that have queries in a split, in the order of M-BEIR's result tables."""
        tasks = set()
        for path, dataset, number in self._query_files(split):
            if number is not None:
                tasks.add(Task(dataset, number))
            else:  # all tasks of a data set in one file, as M-BEIR ships its training queries
                tasks.update(Task(dataset, task) for task in _task_numbers(path))
        return sorted(tasks, key=result_order)

    @property
    def pools(self) -> list[str]:
        """The names of the local pools, and `union` if the tree has one."""
        local = [_pool_name(p) for p in sorted(self.path.glob("cand_pool/local/mbeir_*_cand_pool.jsonl"))]
        local = [name for name in local if self._has(_dataset(name))]
        return [*local, *([UNION] if self._union_file("test") else [])]

    def pool(self, pool: Task | str, split: Split = "test") -> TreePool:
        """A task's local pool, the pool of that name, or the `union` of a split.

        A task whose pools differ by split (as COCO's) gets the split's own. Raises InputError without one.
        """
        path = self._union_file(split) if pool == UNION else self._local_file(str(pool), split)
        if path is None:
            known = ", ".join(self.pools) or "none"
            raise InputError(f"has no pool {str(pool)!r} for {split}; there are: {known}", path=self.path)
        return TreePool(path, root=self.path, only=self._ids if pool == UNION and self.datasets else None)

    def has_union(self, split: Split) -> bool:
        """Whether the tree has a union pool for the queries of a split."""
        return self._union_file(split) is not None

    def items(self, split: Split) -> Iterator[Item]:
        """The candidates for a split's queries, each once: its union pool, or all local pools."""
        if self._union_file(split):
            yield from self.pool(UNION, split)
            return
        seen: set[str] = set()
        for item in (item for name in self.pools if name != UNION for item in self.pool(name, split)):
            if item.id not in seen:
                seen.add(item.id)
                yield item

    def queries(self, split: Split, task: Task | None = None, *, upsampled: bool = False) -> Iterator[Query]:
        """The queries of a split, of one task or of all; `upsampled` reads M-BEIR's own training mix."""
        if upsampled:
            yield from self._upsampled_queries(split)
            return
        files = self._query_files(split)
        if task is not None:
            files = [f for f in files if f.dataset == task.dataset and f.number in (None, task.number)]
            if not files:
                known = ", ".join(map(str, self.tasks(split))) or "none"
                raise InputError(f"has no {split} queries for {task}; there are: {known}", path=self.path)
        for path, dataset, number in files:
            for query in self._read_queries(path, dataset, number):
                if task is None or query.task == task.number:
                    yield query

    def repetitions(self, split: Split = "train") -> Counter[str]:
        """How often each query is in M-BEIR's own mix, which repeats those of small data sets, by id."""
        return Counter(query.id for query in self.queries(split, upsampled=True))

    def judgements(self, split: Split, task: Task) -> dict[str, list[str]]:
        """The relevant items of each query (M-BEIR's qrels)."""
        path = self._single(f"qrels/{split}/mbeir_{task}_{split}_qrels.txt")
        relevant: dict[str, list[str]] = {}
        with path.open(encoding="utf-8") as file:
            for line, content in enumerate(file, start=1):
                columns = content.split()
                if len(columns) != 5 or not columns[3].lstrip("-").isdigit():
                    raise InputError(
                        f"expected five columns (qid 0 did relevance task_id), found {len(columns)}",
                        path=path,
                        line=line,
                    )
                if int(columns[3]) > 0:
                    relevant.setdefault(columns[0], []).append(columns[2])
        return relevant

    @cached_property
    def instructions(self) -> Instructions:
        """The table of prompts; an empty one if the tree has none."""
        return Instructions.read(self.path / "instructions" / "query_instructions.tsv")

    def check(self, split: Split) -> None:
        """Raise InputError if a query of the split has a positive that is in no pool of the whole tree."""
        union, whole = self._union_file(split), self.only()
        pools = [whole.pool(UNION, split)] if union else [whole.pool(name, split) for name in whole.pools]
        known = np.unique(np.fromiter((hash(item.id) for pool in pools for item in pool), np.int64))
        for query in self.queries(split):
            for positive in query.positives:
                place = np.searchsorted(known, hash(positive))
                if place == len(known) or known[place] != hash(positive):
                    where = "the union pool" if union else "any local pool"
                    raise InputError(
                        f"positive {positive!r} of {split} query {query.id!r} is not in {where}",
                        path=self.path,
                    )

    def _located_items(self, report: Report) -> Iterator[Located]:
        if self._union_file("test"):
            yield from self.pool(UNION)._located_items(report)
            return
        located = (entry for name in self.pools for entry in self.pool(name)._located_items(report))
        # An item may be in several local pools, as the tasks of a data set share items: it is given once.
        for item in unique_items(located, lambda _: None, lambda: None):
            yield self.path, None, item

    # --- files

    def _query_files(self, split: Split) -> list[_QueryFile]:
        files = []
        for path in sorted(self.path.glob(f"query/{split}/mbeir_*_{split}.jsonl")):
            match = _QUERY_FILE.fullmatch(path.name)
            if match and match["dataset"] != UNION and self._has(match["dataset"]):
                number = int(match["task"]) if match["task"] else None
                if number is not None and number not in TASK_MODALITIES:
                    raise InputError(f"unknown task {number}: M-BEIR's are 0 to 8", path=path)
                files.append(_QueryFile(path, match["dataset"], number))
        return files

    def _union_file(self, split: Split) -> Path | None:
        path = self.path / "cand_pool" / "global" / f"mbeir_{UNION}_{split}_cand_pool.jsonl"
        return path if path.is_file() else None

    def _local_file(self, name: str, split: Split) -> Path | None:
        if not self._has(_dataset(name)):
            return None
        folder = self.path / "cand_pool" / "local"
        candidates = (
            folder / f"mbeir_{name}_cand_pool.jsonl",
            folder / f"mbeir_{name}_{split}_cand_pool.jsonl",
        )
        return next((path for path in candidates if path.is_file()), None)

    def _single(self, name: str) -> Path:
        path = self.path / name
        if not path.is_file():
            raise InputError("is missing from the tree", path=path)
        return path

    # --- views

    def _has(self, dataset: str) -> bool:
        return not self.datasets or dataset in self.datasets

    def _known_datasets(self) -> list[str]:
        with_queries = {file.dataset for split in SPLITS for file in self._query_files(split)}
        return sorted(with_queries | {_dataset(name) for name in self.pools if name != UNION})

    @cached_property
    def _ids(self) -> frozenset[str]:
        """The ids of a view's items: those of its local pools, and answers with their data sets' numbers."""
        ids = {item.id for name in self.pools if name != UNION for item in self.pool(name)}
        for query in self.queries("train"):  # the answers to COCO's are in no local pool
            number = query.id.partition(":")[0]
            ids.update(id for id in query.positives if id.partition(":")[0] == number)
        return frozenset(ids)

    # --- queries

    def _upsampled_queries(self, split: Split) -> Iterator[Query]:
        path = self._single(f"query/union_{split}/mbeir_union_up_{split}.jsonl")
        ids_of_view = {query.id for query in self.queries(split)} if self.datasets else None
        for query in self._read_queries(path, UNION, None):
            if ids_of_view is None or query.id in ids_of_view:
                yield query

    def _read_queries(self, path: Path, dataset: str, number: int | None) -> Iterator[Query]:
        for line, row in json_lines(path, _raise):
            try:
                yield self._query(row, dataset, number)
            except InputError as error:
                raise error.at(path, line) from None

    def _query(self, row: Row, dataset: str, number: int | None) -> Query:
        qid = _identifier(row, "qid")
        task = row.get("task_id")
        task = number if task is None else task
        if task not in TASK_MODALITIES:
            raise InputError(f"query {qid!r} has the unknown task {task!r}: M-BEIR's are 0 to 8")
        text, image = _content(row, "query_txt", "query_img_path", "query_modality", str(self.path))
        want = TASK_MODALITIES[task][1]
        query = Query(
            id=qid,
            text=text,
            image=image,
            want=want,
            positives=_candidate_ids(row, "pos_cand_list"),
            negatives=_candidate_ids(row, "neg_cand_list"),
            task=task,
            dataset=dataset,
        )
        if not self.instructed:
            return query
        # Prompts are chosen by the task's modalities, which need not be those of the row.
        prompts = self.instructions.prompts(qid, dataset, TASK_MODALITIES[task][0], want)
        digest = hashlib.blake2b(f"{self.seed}:{qid}".encode(), digest_size=8).digest()
        object.__setattr__(query, "instruction", prompts[int.from_bytes(digest, "big") % len(prompts)])
        return query


class TreePool(Collection):
    """The candidates of one pool file, or those of them whose ids are in `only`.

    A benchmark is read strictly: skipping a line would change it.
    """

    kind = "M-BEIR pool"

    def __init__(self, path: Path, *, root: Path, only: frozenset[str] | None = None) -> None:
        super().__init__(path, root=root, strict=True)
        self._only = only

    def _located_items(self, report: Report) -> Iterator[Located]:
        root, path = str(self.root), self.path
        for line, row in json_lines(path, report):
            try:
                item = _candidate(row, root)
                if self._only is None or item.id in self._only:
                    yield path, line, item
            except InputError as error:
                report(error.at(path, line))


def is_tree(path: Path) -> bool:
    """Whether a folder has the layout of an M-BEIR tree."""
    return (path / "query").is_dir() and (path / "cand_pool").is_dir()


# --- names and rows of files


def _pool_name(path: Path) -> str:
    return path.name.removeprefix("mbeir_").removesuffix("_cand_pool.jsonl")


def _dataset(pool: str) -> str:
    return re.sub(r"(_task\d+)?(_train|_val|_test)?$", "", pool)


def _task_numbers(path: Path) -> set[int]:
    return {row["task_id"] for _, row in json_lines(path, _raise) if row.get("task_id") in TASK_MODALITIES}


def _raise(error: InputError) -> None:
    raise error


def _candidate(row: Row, root: str) -> Item:
    did = _identifier(row, "did")
    text, image = _content(row, "txt", "img_path", "modality", root)
    source = row.get("src_content")
    return Item(did, text, image, {"src_content": source} if source else {})


def _identifier(row: Row, field: str) -> str:
    value = row.get(field)
    if not isinstance(value, str) or not value:
        raise InputError(f"field {field!r} should be an id, but is {value!r}")
    return value


def _content(
    row: Row, text: str, image: str, modality: str, root: str
) -> tuple[str | None, ImageFile | None]:
    """Text and image of a row, by the names of its fields.

    The row's content decides its modality; the declared one only has to be valid.
    """
    if modality in row:
        Modality.parse(row[modality])
    for field in (text, image):
        if not isinstance(row.get(field), str | None):
            raise InputError(f"field {field!r} should be text or null, but is {row[field]!r}")
    path = row.get(image)
    return row.get(text) or None, ImageFile(root, safe_path(path)) if path else None


def _candidate_ids(row: Row, field: str) -> tuple[str, ...]:
    """A list of ids, written plainly (as the files do) or as objects with a `did` (as the data card says)."""
    value: Any = row.get(field) or []
    ids = []
    for entry in value if isinstance(value, list) else [value]:
        did = entry.get("did") if isinstance(entry, dict) else entry
        if not isinstance(did, str) or not did or not isinstance(value, list):
            raise InputError(f"field {field!r} should be a list of ids, but is {value!r}")
        ids.append(did)
    return tuple(ids)
