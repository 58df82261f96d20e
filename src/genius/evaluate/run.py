"""An evaluation from a tree and a model: features, embeddings, systems, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius import __version__
from genius.corpus.coded import code_corpus
from genius.corpus.embedded import EmbeddedCorpus, embed_corpus
from genius.corpus.items import CorpusItems, read_items
from genius.corpus.queries import TaskQueries, read_queries
from genius.corpus.source import open_source, training_view
from genius.data.mbeir import UNION, Split, Tree
from genius.data.tasks import Task
from genius.encode.features import Features
from genius.errors import InputError
from genius.evaluate.protocol import Benchmark, Evaluation, PoolName, System, run_protocol
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

    Raises InputError for a task that the split does not have, a system that the model does not have, a
    union pool that the tree does not have, or a positive that no pool holds.

    `modes` adds rows of the engine in these modes; `auto` is the row `default`.
    """
    tree, model = tree if isinstance(tree, Tree) else Tree(tree), Model.open(model_path)
    if UNION in pools and not tree.has_union(split):
        raise InputError(
            f"has no union pool for {split}: evaluate in its local pools alone (--pool local)", path=tree.path
        )
    tree.check(split)
    source = open_source(model, tree, cache)
    pool = read_items(tree, source, split)
    every_task = read_queries(tree, source, pool, split, apart=model.instruction_apart)
    names = sorted(str(task.task) for task in every_task)
    _check_names(tasks or (), names, f"task in {split}")
    queries = [task for task in every_task if not tasks or str(task.task) in tasks]
    excluding = own_items(source, pool, queries) if exclude else None
    existing = _systems(model, embed_corpus(model, source, pool, queries), modes, want, excluding)
    _check_names(systems or (), list(existing), "system in this model")
    chosen = {name: system for name, system in existing.items() if not systems or name in systems}
    ids = {task.task: task.ids for task in queries}
    benchmark = Benchmark(tree, split, pool.numbers, ids, seen_answers(model, tree, pool, queries))
    settings = {
        "split": split,
        "pools": list(pools),
        "tasks": list(tasks or names),
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
    return Result(run_protocol(benchmark, chosen, pools), settings, made_from)


def _systems(
    model: Model,
    embedded: EmbeddedCorpus,
    modes: Sequence[Mode],
    want: bool,
    excluding: Mapping[Task, list[np.ndarray]] | None,
) -> dict[str, System]:
    """The systems that a model can be evaluated by, as far as it is trained."""
    if "quantizer" not in model.stages:
        return dense_systems(embedded, excluding=excluding)
    coded = code_corpus(model, embedded)
    by_vectors = model.dense_baseline == "vectors"
    baseline = DenseSearch(coded.vectors, coded.queries) if by_vectors else None
    return dense_systems(embedded, baseline=baseline, excluding=excluding) | coded_systems(
        model, coded, modes=modes, want=want, excluding=excluding
    )


def _check_names(wanted: Sequence[str], existing: Sequence[str], kind: str) -> None:
    for name in wanted:
        if name not in existing:
            what, _, where = kind.partition(" ")
            raise InputError(f"there is no {what} {name!r} {where}; there are: {', '.join(existing)}")


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
