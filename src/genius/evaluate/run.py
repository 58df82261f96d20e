"""An evaluation from a tree and a model: features, embeddings, systems, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius import __version__
from genius.corpus.embedded import embed
from genius.corpus.records import Pool, TaskQueries, read_pool, read_queries
from genius.data.mbeir import Split, Tree
from genius.data.tasks import Task
from genius.encode.features import Features
from genius.encode.inputs import EncoderInputs, InputRows
from genius.encode.pipeline import tree_features
from genius.errors import InputError
from genius.evaluate.coded import code, coded_systems
from genius.evaluate.dense import Compared, Indexes, dense_systems, own_items
from genius.evaluate.protocol import Benchmark, Evaluation, PoolName, run_protocol
from genius.model import Model


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
    exclude: bool = False,
    want: bool = True,
) -> Result:
    """Evaluate a model on a split of a tree, or of a view of one, by M-BEIR's protocol.

    Raises InputError for a task that the split does not have, a system that the model does not have, or a
    positive that no pool holds.
    """
    tree, model = tree if isinstance(tree, Tree) else Tree(tree), Model.open(model_path)
    tree.check(split)
    source = corpus_source(model, tree, cache)
    pool = read_pool(tree, source, split)
    queries = read_queries(tree, source, pool, split, apart=model.instruction_apart)
    known = {str(task.task) for task in queries}
    for name in tasks or ():
        if name not in known:
            raise InputError(f"there is no task {name!r} in {split}; there are: {', '.join(sorted(known))}")
    queries = [task for task in queries if not tasks or str(task.task) in tasks]
    excluding = own_items(source, pool, queries) if exclude else None
    embedded = embed(model, source, pool, queries)
    if "quantizer" in model.stages:
        coded = code(model, embedded)
        fair = Compared(Indexes(coded.vectors), coded.queries) if model.dense_baseline == "vectors" else None
        searches = dense_systems(embedded, fair=fair, excluding=excluding)
        searches |= coded_systems(model, coded, want=want, excluding=excluding)
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
        "tasks": sorted(known) if not tasks else list(tasks),
        **({"systems": list(systems)} if systems else {}),
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
    model: Model, tree: Tree, pool: Pool, queries: Sequence[TaskQueries]
) -> dict[Task, list[bool]] | None:
    """Of each query, whether one of its answers is an answer in the training split that the model learned
    from, if the tree has it."""
    try:
        tree = training_view(tree, model.settings["recipe"])
    except InputError:  # another tree, without the data sets of the model's training
        return None
    known = np.zeros(len(pool.ids), bool)
    for task in tree.tasks("train"):
        answers = {item for query in tree.queries("train", task) for item in query.positives}
        known[[pool.numbers[item] for item in answers if item in pool.numbers]] = True
    if not known.any():
        return None
    return {
        task.task: [bool(known[task.positives(row)].any()) for row in range(len(task))] for task in queries
    }


def training_view(tree: Tree, recipe: Mapping[str, Any]) -> Tree:
    """What of the whole tree a recipe trains on: some of its data sets, all but some, or all."""
    if recipe.get("datasets"):
        return tree.only(*recipe["datasets"])
    return tree.without(*recipe["without"]) if recipe.get("without") else tree.only()


def corpus_source(model: Model, tree: Tree, cache: Path) -> Features | InputRows:
    """What the model embeds the tree from: cached features, or the contents themselves."""
    if not model.uses_features:
        contents = EncoderInputs(model.instruction_apart)
        contents.add_tree(tree)
        return InputRows(contents)
    features, _ = tree_features(tree, model.encoder_loader, cache, apart=model.instruction_apart)
    features.check(model.encoder)
    return features
