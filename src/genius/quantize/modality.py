"""What first codes stand for: a learned one means what most of its items are."""

from __future__ import annotations

import numpy as np

from genius.data.records import MODALITIES
from genius.quantize.quantizer import Quantizer


def majority(codes: np.ndarray, modality: np.ndarray, quantizer: Quantizer) -> list[int]:
    """Which modality most items with each first code have; of a code that none has, its own number."""
    if quantizer.first == "none":
        return []
    table = np.zeros((quantizer.sizes[0], len(MODALITIES)), np.int64)
    np.add.at(table, (codes[:, 0], modality), 1)
    return [int(row.argmax()) if row.any() else number for number, row in enumerate(table)]


def wanted_codes(modality_of: list[int], want: int, count: int) -> np.ndarray | None:
    """The first code of queries that want a modality; any where no code stands for it alone."""
    if not modality_of:
        return None
    fitting = [code for code, modality in enumerate(modality_of) if modality == want]
    return np.full(count, fitting[0] if len(fitting) == 1 else -1)
