"""The items and queries of a benchmark, embedded by vectors that are given instead of encoding them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from genius.corpus.embedded import BLOCK, EmbeddedCorpus
from genius.corpus.items import CorpusItems
from genius.corpus.queries import TaskQueries
from genius.data.records import MODALITIES, Vectors
from genius.data.vectors import VectorTable, VectorTables
from genius.encode.direct import MaskedFeatures
from genius.encode.feature_pools import open_vectors
from genius.errors import InputError
from genius.model import Model
from genius.progress import bar
from genius.quantize.fusion_inputs import FusionInputs, concatenate
from genius.quantize.joint_space import JointSpace, check_width


def embed_given(
    model: Model, vectors: Path, pool: CorpusItems, tasks: Sequence[TaskQueries]
) -> EmbeddedCorpus:
    """All items and queries by the vectors in a folder, which the model must be able to take.

    Raises InputError for a model that can't, for items or queries without a vector, and for vectors of
    another width.
    """
    if not (model.takes_vectors or model.fusion_kind == "score"):
        raise InputError(
            f"{model.path} makes embeddings by heads or tokens of its own, which others can't replace: "
            "leave out --vectors"
        )
    if not vectors.is_dir():
        raise InputError("should be a folder with vectors of items and of queries", path=vectors)
    items, queries = open_vectors(vectors, "items"), open_vectors(vectors, "queries")
    _check_ids(items, pool.ids, "item")
    for task in tasks:
        _check_ids(queries, task.ids, f"query of {task.task}")
    total = len(pool.ids) + sum(map(len, tasks))
    with bar("reading vectors", total=total, unit="vectors") as shown:

        def inputs(
            table: VectorTable | VectorTables, ids: Sequence[str], modality: np.ndarray
        ) -> FusionInputs:
            blocks = []
            for start in range(0, len(ids), BLOCK):
                block = slice(start, start + BLOCK)
                blocks.append(_fusion_inputs(model, [table[id] for id in ids[block]], modality[block]))
                shown.advance(len(blocks[-1]))
            return concatenate(blocks)

        embedded = inputs(items, pool.ids, pool.modality.astype(np.int64))
        by_task = {
            task.task: inputs(
                queries, task.ids, np.full(len(task), MODALITIES.index(task.task.query), np.int64)
            )
            for task in tasks
        }
    return EmbeddedCorpus(pool, embedded, {task.task: task for task in tasks}, by_task)


def _fusion_inputs(model: Model, given: Sequence[Vectors], modality: np.ndarray) -> FusionInputs:
    """Records from vectors that were extracted; a CLIP's features are summed up as they are."""
    for vectors in given:
        check_width(vectors, model.width)
    whole = any(vectors.whole is not None for vectors in given)
    if model.fusion_kind != "score" or (whole and "quantizer" in model.stages):
        return model.vector_inputs(given, modality)
    if whole:  # without a quantizer, nothing takes images and texts apart
        return JointSpace.uncentred(model.width).from_vectors(given, modality)
    image = _masked([vectors.image for vectors in given], model.width)
    text = _masked([vectors.text for vectors in given], model.width)
    return model.item_fusion_inputs(image, text, modality)


def _masked(vectors: Sequence[np.ndarray | None], width: int) -> MaskedFeatures:
    """Rows [n, width], and which of them are present [n]."""
    present = np.array([vector is not None for vector in vectors], bool)
    nothing = np.zeros(width, np.float32)
    return np.stack([nothing if vector is None else vector for vector in vectors]), present


def _check_ids(table: VectorTable | VectorTables, ids: Sequence[str], what: str) -> None:
    missing = [id for id in ids if id not in table]
    if missing:
        few = f"; its ids are like {table.ids[0]!r}" if len(missing) == len(ids) else ""
        raise InputError(
            f"{len(missing):,} of {len(ids):,} have no vector here, such as {what} {missing[0]!r}{few}",
            path=table.path,
        )
