"""The examination of a model without queries and labels: how much of exact search its codes keep.

Items are queries for their neighbours: those that exact search by embeddings finds are compared with those
that an index finds, by codes alone and re-ranked, in each modality. It says nothing about whether the encoder
itself is any good: what exact search does not find, nobody finds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.data.records import Item
from genius.display import Table
from genius.doctor.verdict import Reason, State, Verdict
from genius.fit.overlap import TOP, Search, exact_neighbours, mean_overlap, overlaps
from genius.fit.sample import draw, embed_sample
from genius.index.query_batch import QueryBatch
from genius.index.searcher import RankedItems, Searcher
from genius.index.segments import Block, Segment, SegmentFormat
from genius.model import Model
from genius.search.beam import BEAMS
from genius.search.engine import Mode

ITEMS = 20_000
"""Items that are searched, at most."""
RERANKED_WEAK, RERANKED_BROKEN = 0.95, 0.6
"""Re-ranked, codes only have to bring the neighbours among the candidates: good ones lose hardly any."""
CODES_WEAK, CODES_BROKEN = 0.5, 0.2
"""Codes of ten bytes keep 0.6 to 0.8 of the ten nearest; k-means of one level keeps about 0.1."""


@dataclass(frozen=True)
class Overlap:
    """The mean share of exact search's ten nearest that each search keeps, by modality.

    Attributes:
        items: how many items were searched.
        total: how many the collection has.
        queries: how many of them were queries.
        codes: by codes alone, over all items.
        beams: by beam search, re-ranked by embeddings alone (mode `fast`).
        reranked: as `Index.search` searches without further options, re-ranked by embeddings alone. A model
            may weigh codes in, which finds more of what queries ask for, and other neighbours.
    """

    items: int
    total: int
    queries: int
    codes: dict[str, float]
    beams: dict[str, float]
    reranked: dict[str, float]


def examine_unlabelled(
    items: Iterable[Item], model: Model, *, cache: Path, workers: int = 1, queries: int = 500, seed: int = 0
) -> Overlap:
    """The overlap of a model's search with exact search, by the items of a collection."""
    random = np.random.default_rng(seed)
    sample, total = draw(items, random, ITEMS)
    embedded = embed_sample(model, sample, total, cache=cache, workers=workers, strict=False)
    inputs, modality = embedded.inputs, embedded.modality
    embeddings = inputs.embeddings.astype(np.float16).astype(np.float32)
    chosen = np.sort(random.choice(len(modality), min(queries, len(modality)), replace=False))
    neighbours = exact_neighbours(embeddings, modality, chosen)
    searcher = _searcher(model, model.vectors(inputs), embeddings, modality)
    vectors, weights = model.query_vectors(inputs), np.ones(len(inputs), np.float32)

    def search(mode: Mode, *, reranked: bool) -> Search:
        def run(rows: np.ndarray, kind: int) -> np.ndarray:
            want = np.full(len(rows), kind)
            codes = model.modality_codes_for(kind, len(rows))
            modality_code = np.full(len(rows), -1) if codes is None else codes
            batch = QueryBatch(
                vectors[rows], embeddings[rows], want, modality_code, weights[rows], inputs.kinds[rows]
            )
            ranked = searcher.search(batch, TOP + 1, BEAMS, mode, by_codes=True)
            return np.stack([_best(result, reranked) for result in ranked])

        return run

    return Overlap(
        items=len(modality),
        total=total,
        queries=len(chosen),
        codes=overlaps(neighbours, search("scan", reranked=False)),
        beams=overlaps(neighbours, search("fast", reranked=True)),
        reranked=overlaps(neighbours, search("auto", reranked=True)),
    )


def _searcher(model: Model, vectors: np.ndarray, embeddings: np.ndarray, modality: np.ndarray) -> Searcher:
    """The items as an index keeps them, in memory; their numbers are the item keys."""
    quantizer = model.quantizer
    codes = quantizer.codes(vectors, modality)
    quantized = quantizer.reconstruct(codes)
    format = SegmentFormat(quantizer.sizes, quantizer.semantic, quantizer.modality_code == "given", "int8")
    block = Block(
        codes=codes,
        modality=modality,
        embeddings=embeddings.astype(np.float16),
        item_keys=np.arange(len(codes)),
        half_sq_norms=(0.5 * np.einsum("ij,ij->i", quantized, quantized)).astype(np.float32),
    )
    no_tombstones = np.zeros(0, np.int64)
    segment = Segment.in_memory(block, format)
    geometry = model.geometry_for(embeddings, codes)
    return Searcher(geometry, quantizer, [segment], no_tombstones, settings=model.search_settings)


def _best(result: RankedItems, reranked: bool) -> np.ndarray:
    """The numbers of the best items, padded by -1."""
    places = result.reranked if reranked else result.plain
    best = np.full(TOP + 1, -1)
    keys = result.item_keys[places[: TOP + 1]]
    best[: len(keys)] = keys
    return best


def judge_overlap(overlap: Overlap) -> Verdict:
    """Healthy, weak or broken by what codes keep of exact search."""
    reranked, codes = mean_overlap(overlap.reranked), mean_overlap(overlap.codes)
    broken: list[Reason] = []
    weak: list[Reason] = []
    for share, what, low, lowest in (
        (reranked, "A search, re-ranked,", RERANKED_WEAK, RERANKED_BROKEN),
        (codes, "Codes alone", CODES_WEAK, CODES_BROKEN),
    ):
        if share < low:
            finding = f"{what} keeps {share:.0%} of the ten nearest by exact search, below {low:.0%}."
            change = "Fit the model to these items: genius fit SOURCE --encoder MODEL -o NEW."
            (broken if share < lowest else weak).append(Reason(finding, change))
    state: State = "broken" if broken else "weak" if weak else "healthy"
    return Verdict(state, tuple(broken or weak), ())


def overlap_table(overlap: Overlap) -> Table:
    """The figures in percent, by modality."""
    table = Table(
        ("items", "codes alone", f"beam of {BEAMS}, re-ranked", "as an index searches"),
        title=f"kept of the ten nearest by exact search, % ({overlap.queries:,} of {overlap.items:,} items "
        "as queries)",
    )
    for name in overlap.codes:
        shares = (overlap.codes[name], overlap.beams[name], overlap.reranked[name])
        table.add(name, *(100 * share for share in shares))
    return table


def overlap_json(overlap: Overlap, verdict: Verdict) -> dict[str, Any]:
    """All figures as shares between 0 and 1, and the verdict."""
    return {"verdict": {"summary": verdict.summary, **asdict(verdict)}, **asdict(overlap)}
