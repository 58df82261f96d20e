"""Whether codes are worth a decoder: the doctor's verdict, on what training has at hand."""

from __future__ import annotations

import numpy as np

from genius.corpus.coded import CodedCorpus
from genius.doctor.health import CodedItems, CodedQueries, Coding, measure
from genius.doctor.verdict import Verdict, judge
from genius.errors import InputError
from genius.model import Model
from genius.train.batches import permuted

QUERIES = 100
"""Of each task, at most."""


def refuse_broken(model: Model, coded: CodedCorpus) -> None:
    """Raise InputError if the doctor calls the model broken.

    A decoder can't mend codes that lost what they stand for, and it takes long to train: so look first.
    """
    verdict = verdict_on(model, coded)
    if verdict.state == "broken":
        reasons = " ".join(reason.finding for reason in verdict.reasons)
        raise InputError(
            f"the quantizer is broken, so no decoder is trained on it: {reasons} `genius doctor {model.path} "
            "--tree TREE` says what to change; to train all the same, say --force"
        )


def verdict_on(model: Model, coded: CodedCorpus, *, queries: int = QUERIES) -> Verdict:
    """The doctor's verdict by all items and some queries of each task, without embedding them anew."""
    quantizer, described = model.quantizer, model.settings["quantizer"]
    coding = Coding(
        quantizer.sizes, quantizer.modality_code, tuple(described["modality_of"]), model.dense_baseline
    )
    items = CodedItems(
        modality=coded.embedded.pool.modality.astype(np.int64),
        embeddings=coded.embedded.items.embeddings.astype(np.float32),
        vectors=coded.vectors,
        codes=coded.codes,
        quantized=quantizer.reconstruct(coded.codes),
    )
    tasks = []
    for task in coded.embedded.tasks.values():
        rows = permuted(len(task), 0, min(len(task), queries), seed=(0,))
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
    return judge(measure(items, tuple(tasks), model.geometry, coding))
