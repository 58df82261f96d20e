"""The gate before decoder training: the doctor's verdict on the quantizer."""

from __future__ import annotations

import numpy as np

from genius.corpus.coded import CodedCorpus
from genius.doctor.health import CodedItems, CodedQueries, CodeSpec, measure
from genius.doctor.verdict import Verdict, judge
from genius.errors import InputError
from genius.model import Model
from genius.train.batches import validation_rows

QUERIES = 100
"""Queries of each task that the verdict uses, at most."""


def refuse_broken(model: Model, coded: CodedCorpus) -> None:
    """Raise InputError if the doctor calls the model's quantizer broken.

    A decoder takes long to train and can't repair codes that lost what they stand for.
    """
    verdict = verdict_on(model, coded)
    if verdict.state == "broken":
        reasons = " ".join(reason.finding for reason in verdict.reasons)
        raise InputError(
            f"the quantizer is broken, so no decoder is trained on it: {reasons} `genius doctor {model.path} "
            "--tree TREE` says what to change; to train all the same, say --force"
        )


def verdict_on(model: Model, coded: CodedCorpus, *, queries: int = QUERIES) -> Verdict:
    """The doctor's verdict by all items and up to `queries` queries of each task, embedded before."""
    quantizer = model.quantizer
    items = CodedItems(
        modality=coded.embedded.pool.modality.astype(np.int64),
        embeddings=coded.embedded.items.embeddings.astype(np.float32),
        vectors=coded.vectors,
        codes=coded.codes,
        quantized=quantizer.reconstruct(coded.codes),
    )
    tasks = []
    for task in coded.embedded.tasks.values():
        rows = validation_rows(len(task), queries)
        vectors = coded.queries[task.task][rows]
        codes = quantizer.codes(vectors, np.full(len(rows), task.want))
        tasks.append(
            CodedQueries(
                task=str(task.task),
                want=task.want,
                embeddings=coded.embedded.queries[task.task].embeddings[rows].astype(np.float32),
                vectors=vectors,
                codes=codes,
                quantized=quantizer.reconstruct(codes),
                positives=[task.positives(row) for row in rows],
            )
        )
    return judge(
        measure(items, tuple(tasks), model.geometry_for(items.embeddings, items.codes), CodeSpec.of(model))
    )
