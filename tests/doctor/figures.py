"""Items, queries and health for the tests of the doctor."""

from __future__ import annotations

import numpy as np

from genius.decode.geometry import Geometry
from genius.doctor.codes import Buckets, LevelUse, ModalityCollisions
from genius.doctor.health import CodedItems, CodedQueries, CodeSpec, Health, TaskHealth
from genius.quantize.quantizer import Quantizer, unit_length

WIDTH = 12


def coded_tasks(
    noise: float = 0.05, modality_code: str = "given"
) -> tuple[CodedItems, list[CodedQueries], Geometry, CodeSpec]:
    """Queries near their answers, and codebooks that tell items apart: the arguments of `measure`."""
    random = np.random.default_rng(0)
    books = [random.normal(size=(size, WIDTH)).astype(np.float32) for size in (3, 16, 16)]
    books = [book * scale for book, scale in zip(books, (1.0, 0.6, 0.2), strict=True)]
    quantizer = Quantizer(books if modality_code != "none" else books[1:], modality_code=modality_code)
    modality = np.arange(120) % 3
    vectors = unit_length(books[0][modality] + 0.6 * random.normal(size=(120, WIDTH)))
    codes = quantizer.codes(vectors, modality)
    items = CodedItems(modality, vectors, vectors, codes, quantizer.reconstruct(codes))
    tasks = []
    for want in range(2):
        answers = np.flatnonzero(modality == want)[:20]
        queries = unit_length(vectors[answers] + noise * random.normal(size=(20, WIDTH)))
        query_codes = quantizer.codes(queries, np.full(20, want))
        quantized = quantizer.reconstruct(query_codes)
        positives = [np.array([answer]) for answer in answers]
        tasks.append(
            CodedQueries(f"made_task{want}", want, queries, queries, query_codes, quantized, positives)
        )
    modality_of = (0, 1, 2) if modality_code != "none" else ()
    spec = CodeSpec(quantizer.sizes, modality_code, modality_of)
    return items, tasks, Geometry(quantizer.codebooks, 0.1), spec


GOOD = Health(
    code_spec=CodeSpec((3, 256, 256), "learned", (0, 1, 2)),
    queries=500,
    not_finite=0,
    levels=(LevelUse(3, 1.0, 2.9, 1.5), LevelUse(256, 0.99, 220.0, 7.8), LevelUse(256, 0.99, 220.0, 7.8)),
    buckets=Buckets(
        1000,
        995,
        1000,
        0.995,
        3,
        (ModalityCollisions("image", 500, 5), ModalityCollisions("text", 500, 0)),
    ),
    confusion=((500, 0, 0), (0, 500, 0), (0, 0, 0)),
    purity=1.0,
    cosine=0.9,
    tasks=(
        TaskHealth(
            task="made_task0",
            queries=500,
            embeddings=0.5,
            vectors=0.5,
            codes=0.49,
            ceiling=0.8,
            survival_given=(1.0, 0.98, 0.7),
            survival_inferred=(1.0, 0.97, 0.69),
            agreement_matched=(0.5, 0.2),
            agreement_random=(0.01, 0.0),
        ),
    ),
)
"""The figures of a healthy model."""
