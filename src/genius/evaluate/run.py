"""An evaluation from a tree and a model: features, embeddings, systems, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from genius import __version__
from genius.corpus.coded import code_corpus
from genius.corpus.embedded import EmbeddedCorpus, embed_corpus
from genius.corpus.given import embed_given
from genius.corpus.items import CorpusItems, read_items
from genius.corpus.queries import TaskQueries, read_queries
from genius.corpus.source import open_source, training_view
from genius.data.mbeir import SPLITS, UNION, Split, Tree
from genius.data.tasks import Task
from genius.encode.features import Features
from genius.encode.inputs import EncoderInputs, InputRows
from genius.errors import InputError
from genius.evaluate import published
from genius.evaluate.protocol import DEPTH, Benchmark, Evaluation, PoolName, System, run_protocol
from genius.evaluate.systems import DenseSearch, coded_systems, dense_systems, own_items, paper_systems
from genius.model import Model
from genius.search.beam import BEAMS
from genius.search.engine import Mode

ProtocolName = Literal["mbeir", "genius"]
"""Every task of a tree by every system of ours; or the paper's tasks by the systems of its tables."""


@dataclass(frozen=True)
class Result:
    """Figures, and what they were made from, so that they can be made again."""

    evaluation: Evaluation
    settings: dict[str, Any]
    made_from: dict[str, str]
    stages: tuple[str, ...] = ()
    """Of the model."""
    left_out: tuple[str, ...] = ()
    """Tasks of the split that the protocol does not have."""


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
    want: bool | None = None,
    protocol: ProtocolName = "mbeir",
    beams: int = BEAMS,
    sample: int = 0,
    vectors: Path | None = None,
    device: str | None = None,
) -> Result:
    """Evaluate a model on a split of a tree, or of a view of one, by M-BEIR's protocol.

    Raises InputError for a task that the split does not have, a system that the model does not have, a
    union pool that the tree does not have, or a positive that no pool holds.

    `modes` adds rows of the engine in these modes; `auto` is the row `default`. With `want`, searches by code
    know the wanted modality: by default so, but not in the protocol `genius`, which is that of the paper's
    tables: its tasks alone, by the systems of `paper_systems`. Searches have so many `beams`; with `sample`
    at most so many queries of each task are searched. `vectors` is a folder of embeddings that are taken
    instead of encoding (`genius.encode.feature_pools`). On a `device` such as "cuda" run a CLIP and the
    learned decoder.
    """
    tree, model = tree if isinstance(tree, Tree) else Tree(tree), Model.open(model_path, device=device)
    _check_request(model, tree, split, pools, protocol)
    published_only = protocol == "genius"
    unpublished = _unpublished_tasks(tree, split, tasks) if published_only else ()
    want = not published_only if want is None else want
    tree.check(split)
    source = _source(model, tree, cache, (split,) if published_only else SPLITS, vectors)
    pool = read_items(tree, source, split)
    every_task = read_queries(tree, source, pool, split, apart=model.instruction_apart)
    names = sorted(str(task.task) for task in every_task if str(task.task) not in unpublished)
    _check_names(tasks or (), names, f"task in {split}")
    queries = [task for task in every_task if str(task.task) in (tasks or names)]
    queries = [task.sampled(sample, seed=0) for task in queries] if sample else queries
    embedded = _embedded(model, source, pool, queries, vectors)
    excluding = own_items(source, pool, queries) if exclude else None
    existing = _systems(model, embedded, source, modes, want, excluding, protocol, beams)
    _check_names(systems or (), list(existing), "system in this model")
    chosen = {name: system for name, system in existing.items() if not systems or name in systems}
    ids = {task.task: task.ids for task in queries}
    seen = seen_answers(model, tree, pool, queries)
    trained = training_answers(tree.only(), pool) if "unseen" in pools else None
    benchmark = Benchmark(tree, split, pool.numbers, ids, seen, trained)
    settings = _described(model, tree, systems, vectors, beams, sample) | {
        "protocol": protocol,
        "split": split,
        "pools": list(pools),
        "tasks": list(tasks or names),
        "modes": list(modes),
        "exclude_query_item": exclude,
        "wanted_modality": "known" if want else "inferred",
    }
    evaluation = run_protocol(benchmark, chosen, pools, published.DEPTH if published_only else DEPTH)
    return Result(evaluation, settings, _made_from(model, source), tuple(model.stages), unpublished)


def _check_request(
    model: Model, tree: Tree, split: Split, pools: Sequence[PoolName], protocol: ProtocolName
) -> None:
    """Raise InputError for a pool that the tree does not have, or a protocol that the model is not for."""
    if UNION in pools and not tree.has_union(split):
        raise InputError(
            f"has no union pool for {split}: evaluate in its local pools alone (--pool local)", path=tree.path
        )
    if protocol == "genius" and not model.has_code_vectors:
        raise InputError(
            f"{model.path} has {model.identifier_name} identifiers, and the paper's tables compare codes of "
            "GENIUS: evaluate it without --protocol genius"
        )


def _source(
    model: Model, tree: Tree, cache: Path, splits: Sequence[Split], vectors: Path | None
) -> Features | InputRows:
    """What is embedded; nothing has to be encoded where vectors are given."""
    return open_source(model, tree, cache, splits) if vectors is None else InputRows(EncoderInputs())


def _embedded(
    model: Model,
    source: Features | InputRows,
    pool: CorpusItems,
    queries: Sequence[TaskQueries],
    vectors: Path | None,
) -> EmbeddedCorpus:
    if vectors is not None:
        return embed_given(model, vectors, pool, queries)
    return embed_corpus(model, source, pool, queries)


def _made_from(model: Model, source: Features | InputRows) -> dict[str, str]:
    features = {"features": source.fingerprint} if isinstance(source, Features) else {}
    return {"model": model.fingerprint} | features


def _described(
    model: Model, tree: Tree, systems: Sequence[str] | None, vectors: Path | None, beams: int, sample: int
) -> dict[str, Any]:
    """What is evaluated, on what and by which version."""
    described: dict[str, Any] = {"recipe": model.settings["recipe"], "genius": __version__}
    if tree.datasets:
        described["datasets"] = list(tree.datasets)
    if systems:
        described["systems"] = list(systems)
    if vectors is not None:
        described["vectors"] = vectors.name
    if beams != BEAMS:
        described["beams"] = beams
    if sample:
        described["sample"] = sample
    return described


def _unpublished_tasks(tree: Tree, split: Split, wanted: Sequence[str] | None) -> tuple[str, ...]:
    """The tasks of a split that the paper does not have.

    Raises InputError if it has none of them, or not the ones that are wanted.
    """
    in_paper = {str(task) for task in published.published_tasks()}
    known = [str(task) for task in tree.tasks(split)]
    if not in_paper & set(known):
        raise InputError(
            f"has none of the paper's tasks (such as mscoco_task0), but {', '.join(known) or 'none at all'}: "
            "evaluate it without --protocol genius",
            path=tree.path,
        )
    for name in wanted or ():
        if name in known and name not in in_paper:
            raise InputError(f"the paper has no figures for {name}: evaluate it without --protocol genius")
    return tuple(name for name in known if name not in in_paper)


def _systems(
    model: Model,
    embedded: EmbeddedCorpus,
    source: Features | InputRows,
    modes: Sequence[Mode],
    want: bool,
    excluding: Mapping[Task, list[np.ndarray]] | None,
    protocol: ProtocolName,
    beams: int,
) -> dict[str, System]:
    """The systems that a model can be evaluated by, as far as it is trained."""
    has_codes = "quantizer" in model.stages or "identifiers" in model.stages
    coded = code_corpus(model, embedded, source) if has_codes else None
    if protocol == "genius":
        return paper_systems(model, embedded, coded, want=want)
    if coded is None:
        return dense_systems(embedded, excluding=excluding)
    by_vectors = model.dense_baseline == "vectors"
    baseline = DenseSearch(coded.vectors, coded.queries) if by_vectors else None
    return dense_systems(embedded, baseline=baseline, excluding=excluding) | coded_systems(
        model, coded, beams=beams, modes=modes, want=want, excluding=excluding
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
        seen = training_answers(training_view(tree, model.settings["recipe"]), pool)
    except InputError:  # another tree, without the data sets of the model's training
        return None
    if seen is None:
        return None
    return {
        task.task: [bool(seen[task.positives(row)].any()) for row in range(len(task))] for task in queries
    }


def training_answers(tree: Tree, pool: CorpusItems) -> np.ndarray | None:
    """Of each item, whether it answers a training query of the tree, bool [items]; None if none does."""
    trained = np.zeros(len(pool.ids), bool)
    for query in tree.queries("train"):
        trained[[pool.numbers[item] for item in query.positives if item in pool.numbers]] = True
    return trained if trained.any() else None
