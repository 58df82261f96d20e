"""An examination of a model on a tree: what it makes of items and queries, and how healthy that is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius.corpus.embedded import EmbeddedCorpus, embed_corpus
from genius.corpus.items import read_items
from genius.corpus.queries import TaskQueries, read_queries
from genius.corpus.source import open_source
from genius.data.mbeir import Split, Tree
from genius.doctor.health import CodedItems, CodedQueries, Coding, Health, measure
from genius.doctor.verdict import Verdict, judge
from genius.errors import InputError
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs

QUERIES = 500


@dataclass(frozen=True, eq=False)
class Examination:
    """What was looked at, what was measured, and what that means."""

    tree: Tree
    split: Split
    ids: list[str]
    """Of the items, in the order of `items`."""
    items: CodedItems
    tasks: tuple[CodedQueries, ...]
    health: Health
    verdict: Verdict


def examine(
    tree: Tree, model: Model, *, cache: Path, split: Split = "val", queries: int = QUERIES, seed: int = 0
) -> Examination:
    """Examine a model on a split of a tree: all items of its union pool, and some queries of each task.

    Raises MissingError if the model has no quantizer yet, and InputError for a split without queries.
    """
    if queries < 1:
        raise InputError(f"at least one query of each task is needed, not {queries}")
    quantizer = model.quantizer
    modality_of = tuple(model.settings["quantizer"]["modality_of"])
    coding = Coding(quantizer.sizes, quantizer.modality_code, modality_of, model.dense_baseline)
    tree.check(split)
    source = open_source(model, tree, cache)
    pool = read_items(tree, source, split)
    asked = [
        task.sampled(queries, seed)
        for task in read_queries(tree, source, pool, split, apart=model.instruction_apart)
    ]
    embedded = embed_corpus(model, source, pool, asked)
    ids = [item.id for item in tree.items(split)]
    members = np.array([pool.numbers[id] for id in ids], np.int64)
    items = _items(model, embedded, members)
    tasks = tuple(_queries(model, embedded, task, members) for task in asked)
    health = measure(items, tasks, model.geometry, coding, seed=seed)
    return Examination(tree, split, ids, items, tasks, health, judge(health))


def _items(model: Model, embedded: EmbeddedCorpus, members: np.ndarray) -> CodedItems:
    embeddings, vectors, bad = _sound(model, embedded.items)
    vectors = vectors[members]
    modality = embedded.pool.modality[members].astype(np.int64)
    codes = model.quantizer.codes(vectors, modality)
    return CodedItems(
        modality=modality,
        embeddings=embeddings[members],
        vectors=vectors,
        codes=codes,
        quantized=model.quantizer.reconstruct(codes),
        not_finite=int(bad[members].sum()),
    )


def _queries(model: Model, embedded: EmbeddedCorpus, task: TaskQueries, members: np.ndarray) -> CodedQueries:
    embeddings, vectors, bad = _sound(model, embedded.queries[task.task])
    codes = model.quantizer.codes(vectors, np.full(len(vectors), task.want))
    places = np.full(len(embedded.pool.ids), -1)
    places[members] = np.arange(len(members))
    positives = [places[task.positives(row)] for row in range(len(task))]
    return CodedQueries(
        task=str(task.task),
        want=task.want,
        embeddings=embeddings,
        vectors=vectors,
        codes=codes,
        quantized=model.quantizer.reconstruct(codes),
        positives=[known[known >= 0] for known in positives],
        not_finite=int(bad.sum()),
    )


def _sound(model: Model, parts: FusionInputs) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Joined embeddings, vectors, and which of them are no numbers: these are zeros, and the others count."""
    embeddings, vectors = parts.embeddings.astype(np.float32), model.vectors(parts)
    bad = ~(np.isfinite(embeddings).all(axis=1) & np.isfinite(vectors).all(axis=1))
    embeddings[bad] = vectors[bad] = 0
    return embeddings, vectors, bad
