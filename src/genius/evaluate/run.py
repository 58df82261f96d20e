"""An evaluation from a tree and a model: features, embeddings, systems, figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius import __version__
from genius.corpus.coded import code_corpus
from genius.corpus.embedded import embed_corpus
from genius.corpus.items import CorpusItems, read_items
from genius.corpus.queries import TaskQueries, read_queries
from genius.corpus.source import open_source, training_view
from genius.data.mbeir import Split, Tree
from genius.data.tasks import Task
from genius.encode.features import Features
from genius.errors import InputError
from genius.evaluate.protocol import Benchmark, Evaluation, PoolName, run_protocol
from genius.evaluate.systems import DenseSearch, coded_systems, dense_systems, own_items
from genius.model import Model
from genius.search.engine import Mode


@dataclass(frozen=True)
class Result:
    """Figures, and what they were made from, so that they can be made again."""

    evaluation: Evaluation
    settings: dict[str, Any]
    made_from: dict[str, str]


def evaluate_model(
    tree: Tree | Path | str,
    model_path: Path | str,
    *,
    split: Split,
    cache: Path,
    pools: Sequence[PoolName] = ("local", "union"),
    tasks: Sequence[str] | None = None,
    systems: Sequence[str] | None = None,
    modes: Sequence[Mode] = ("auto",),
    exclude: bool = False,
    want: bool = True,
) -> Result:
    """Evaluate a model on a split of a tree, or of a view of one, by M-BEIR's protocol.

    Raises InputError for a task that the split does not have, a system that the model does not have, or a
    positive that no pool holds.

    `modes` adds rows of the engine in these modes; `auto` is the row `default`.
    """
    tree, model = tree if isinstance(tree, Tree) else Tree(tree), Model.open(model_path)
    tree.check(split)
    source = open_source(model, tree, cache)
    pool = read_items(tree, source, split)
    queries = read_queries(tree, source, pool, split, apart=model.instruction_apart)
    existing = {str(task.task) for task in queries}
    for name in tasks or ():
        if name not in existing:
            raise InputError(
                f"there is no task {name!r} in {split}; there are: {', '.join(sorted(existing))}"
            )
    queries = [task for task in queries if not tasks or str(task.task) in tasks]
    excluding = own_items(source, pool, queries) if exclude else None
    embedded = embed_corpus(model, source, pool, queries)
    if "quantizer" in model.stages:
        coded = code_corpus(model, embedded)
        by_vectors = model.dense_baseline == "vectors"
        baseline = DenseSearch(coded.vectors, coded.queries) if by_vectors else None
        searches = dense_systems(embedded, baseline=baseline, excluding=excluding)
        searches |= coded_systems(model, coded, modes=modes, want=want, excluding=excluding)
    else:
        searches = dense_systems(embedded, excluding=excluding)
    for name in systems or ():
        if name not in searches:
            raise InputError(f"there is no system {name!r} in this model; there are: {', '.join(searches)}")
    searches = {name: search for name, search in searches.items() if not systems or name in systems}
    ids = {task.task: task.ids for task in queries}
    benchmark = Benchmark(tree, split, pool.numbers, ids, seen_answers(model, tree, pool, queries))
    settings = {
        "split": split,
        "pools": list(pools),
        "tasks": sorted(existing) if not tasks else list(tasks),
        **({"systems": list(systems)} if systems else {}),
        "modes": list(modes),
        "exclude_query_item": exclude,
        "wanted_modality": "known" if want else "inferred",
        **({"datasets": list(tree.datasets)} if tree.datasets else {}),
        "recipe": model.settings["recipe"],
        "genius": __version__,
    }
    made_from = {"model": model.fingerprint}
    if isinstance(source, Features):
        made_from["features"] = source.fingerprint
    return Result(run_protocol(benchmark, searches, pools), settings, made_from)


def seen_answers(
    model: Model, tree: Tree, pool: CorpusItems, queries: Sequence[TaskQueries]
) -> dict[Task, list[bool]] | None:
    """Of each query, whether one of its answers is an answer in the training split that the model learned
    from, if the tree has it."""
    try:
        tree = training_view(tree, model.settings["recipe"])
    except InputError:  # another tree, without the data sets of the model's training
        return None
    seen = np.zeros(len(pool.ids), bool)
    for task in tree.tasks("train"):
        answers = {item for query in tree.queries("train", task) for item in query.positives}
        seen[[pool.numbers[item] for item in answers if item in pool.numbers]] = True
    if not seen.any():
        return None
    return {
        task.task: [bool(seen[task.positives(row)].any()) for row in range(len(task))] for task in queries
    }
