"""Random vectors and modalities to quantize."""

from __future__ import annotations

from typing import get_args

import torch

from genius.quantize.codebooks import MODALITIES
from genius.quantize.quantizer import ModalityCode

MODALITY_CODES: tuple[ModalityCode, ...] = get_args(ModalityCode)


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def unit_vectors(count: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(count, width, generator=generator(seed)), dim=1)


def modalities(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(MODALITIES, (count,), generator=generator(seed))
