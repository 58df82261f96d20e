"""The examination of a model on a tree: its codes of items and queries, their figures and the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius.corpus.embedded import EmbeddedCorpus, embed_corpus
from genius.corpus.items import read_items
from genius.corpus.queries import TaskQueries, read_queries
from genius.corpus.source import open_source
from genius.data.mbeir import Split, Tree
from genius.doctor.health import CodedItems, CodedQueries, CodeSpec, Health, measure
from genius.doctor.verdict import Verdict, judge
from genius.errors import InputError
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs

QUERIES = 500
"""Queries of each task, at most."""


@dataclass(frozen=True, eq=False)
class Examination:
    """What was examined, the figures, and the verdict."""

    tree: Tree
    split: Split
    item_ids: list[str]
    """The ids of the items, in the order of `items`."""
    items: CodedItems
    tasks: tuple[CodedQueries, ...]
    health: Health
    verdict: Verdict


def examine(
    tree: Tree, model: Model, *, cache: Path, split: Split = "val", queries: int = QUERIES, seed: int = 0
) -> Examination:
    """Examine a model on a split of a tree: all items of its union pool, and a sample of each task's queries.

    Raises MissingError if the model has no quantizer yet, and InputError for a split without queries.
    """
    if queries < 1:
        raise InputError(f"at least one query of each task is needed, not {queries}")
    code_spec = CodeSpec.of(model)
    tree.check(split)
    source = open_source(model, tree, cache)
    pool = read_items(tree, source, split)
    samples = [
        task.sampled(queries, seed)
        for task in read_queries(tree, source, pool, split, apart=model.instruction_apart)
    ]
    embedded = embed_corpus(model, source, pool, samples)
    item_ids = [item.id for item in tree.items(split)]
    members = np.array([pool.numbers[id] for id in item_ids], np.int64)
    items = _code_items(model, embedded, members)
    tasks = tuple(_code_queries(model, embedded, task, members) for task in samples)
    health = measure(items, tasks, model.geometry_for(items.embeddings, items.codes), code_spec, seed=seed)
    return Examination(tree, split, item_ids, items, tasks, health, judge(health))


def _code_items(model: Model, embedded: EmbeddedCorpus, members: np.ndarray) -> CodedItems:
    embeddings, vectors, not_finite = _finite_rows(model, embedded.items)
    vectors = vectors[members]
    modality = embedded.pool.modality[members].astype(np.int64)
    codes = model.quantizer.codes(vectors, modality)
    return CodedItems(
        modality=modality,
        embeddings=embeddings[members],
        vectors=vectors,
        codes=codes,
        quantized=model.quantizer.reconstruct(codes),
        not_finite=int(not_finite[members].sum()),
    )


def _code_queries(
    model: Model, embedded: EmbeddedCorpus, task: TaskQueries, members: np.ndarray
) -> CodedQueries:
    inputs = embedded.queries[task.task]
    embeddings, as_items, not_finite = _finite_rows(model, inputs)
    codes = model.quantizer.codes(as_items, np.full(len(as_items), task.want))
    vectors = np.where(not_finite[:, None], 0, model.query_vectors(inputs))
    place_of = np.full(len(embedded.pool.ids), -1)
    place_of[members] = np.arange(len(members))
    positives = [place_of[task.positives(row)] for row in range(len(task))]
    return CodedQueries(
        task=str(task.task),
        want=task.want,
        embeddings=embeddings,
        vectors=vectors,
        codes=codes,
        quantized=model.quantizer.reconstruct(codes),
        positives=[places[places >= 0] for places in positives],
        not_finite=int(not_finite.sum()),
    )


def _finite_rows(model: Model, inputs: FusionInputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Embeddings and vectors [n, width], and which rows were NaN or infinite [n]: those are zeros."""
    embeddings, vectors = inputs.embeddings.astype(np.float32), model.vectors(inputs)
    not_finite = ~(np.isfinite(embeddings).all(axis=1) & np.isfinite(vectors).all(axis=1))
    embeddings[not_finite] = vectors[not_finite] = 0
    return embeddings, vectors, not_finite
