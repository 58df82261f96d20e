"""The items of a benchmark as codes, and its queries as vectors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from genius.corpus.embedded import EmbeddedCorpus
from genius.corpus.records import RecordSource, record_texts
from genius.data.tasks import Task
from genius.identifiers.scheme import ItemContents
from genius.model import Model


@dataclass(frozen=True)
class CodedCorpus:
    """Items and queries of a benchmark by their vectors, and the items by their codes."""

    embedded: EmbeddedCorpus
    vectors: np.ndarray
    codes: np.ndarray
    queries: Mapping[Task, np.ndarray]


def code_corpus(model: Model, embedded: EmbeddedCorpus, source: RecordSource | None = None) -> CodedCorpus:
    """Fuse what is embedded, and code the items.

    `source` has the items' texts, which some identifiers are made of.
    """
    vectors = model.vectors(embedded.items)
    if model.has_code_vectors:
        codes = model.quantizer.codes(vectors, embedded.pool.modality)
    else:
        codes = model.identifiers.codes(item_contents(embedded, source))
    queries = {task: model.query_vectors(inputs) for task, inputs in embedded.queries.items()}
    return CodedCorpus(embedded, vectors, codes, queries)


def item_contents(embedded: EmbeddedCorpus, source: RecordSource | None) -> ItemContents:
    """The items of a benchmark, as identifiers are made from them."""
    pool = embedded.pool
    texts = [""] * len(pool.ids) if source is None else record_texts(pool.contents, source)
    return ItemContents(pool.ids, embedded.items, texts)
