"""The items of a benchmark as codes, and its queries as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from genius.corpus.embedded import EmbeddedCorpus
from genius.data.tasks import Task
from genius.model import Model


@dataclass(frozen=True)
class CodedCorpus:
    """Items and queries of a benchmark by their vectors, and the items by their codes."""

    embedded: EmbeddedCorpus
    vectors: np.ndarray
    codes: np.ndarray
    queries: Mapping[Task, np.ndarray]


def code_corpus(model: Model, embedded: EmbeddedCorpus) -> CodedCorpus:
    """Fuse what is embedded, and code the items."""
    vectors = model.vectors(embedded.items)
    codes = model.quantizer.codes(vectors, embedded.pool.modality)
    queries = {task: model.query_vectors(inputs) for task, inputs in embedded.queries.items()}
    return CodedCorpus(embedded, vectors, codes, queries)
