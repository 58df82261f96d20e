"""A pool of codes in memory, searched by the engine through all levels: for validation and the doctor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.decode.decoder import Decoder
from genius.search.beam import BEAMS, History, prefix_survival
from genius.search.codes import PackedCodes
from genius.search.engine import Engine
from genius.search.segment_view import SegmentView


class CodePool:
    """Items by number, known by their codes alone.

    Args:
        codes: [items, levels].
        codebooks: the vectors of each level, [codes, width]; None if codes have none.
        semantic: the first semantic level.
        sizes: codes by level; by default as many as there are vectors.
    """

    def __init__(
        self,
        codes: np.ndarray,
        codebooks: Sequence[np.ndarray] | None,
        semantic: int,
        sizes: Sequence[int] | None = None,
    ) -> None:
        sizes = [len(codebook) for codebook in codebooks or ()] if sizes is None else sizes
        packed, order = PackedCodes.build(codes, sizes, semantic)
        self._segment, self._codebooks = SegmentView(packed, item_keys=order), codebooks
        self._row_of_item = np.argsort(order)

    def search(
        self,
        decoder: Decoder,
        vectors: np.ndarray,
        positives: Sequence[np.ndarray],
        *,
        k: int = 5,
        beams: int = BEAMS,
        modality_code: np.ndarray | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Search in the mode `paper`.

        Args:
            decoder: scores codes.
            vectors: of queries, [queries, width].
            positives: the numbers of the items that answer each query.
            k: how many items.
            beams: how many prefixes are kept after each level.
            modality_code: the first code that each query wants [queries], -1 for any.

        Returns the numbers of the best items by log-probability, int64 [queries, k], and the share of queries
        that have a positive in the beams after each level, float64 [levels].
        """
        engine, history = Engine([self._segment], decoder, self._codebooks), History()
        candidates = engine.find(
            vectors, modality_code=modality_code, k=k, beams=beams, mode="paper", history=history
        )
        ranked = engine.rank(candidates, engine.scorer(candidates, None), k, plain=True)
        return ranked.item_keys, prefix_survival(history, [self._row_of_item[items] for items in positives])
