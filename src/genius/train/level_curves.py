"""How sure a decoder in training is of true codes, level by level: what it memorises, what it generalises.

A learned decoder can become a language model of the codes that training asks for: it goes on learning them,
and grows less sure of the deep codes of new items than a uniform guess would be. These numbers show it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from genius.decode.t5 import T5Decoder

KINDS = ("training", "seen", "unseen")
"""Training queries; validation queries with an answer that is one in training; and those with a new one."""
UNIFORM = "uniform"
PREFIX = "log_prob"
BLOCK = 512
"""Rows that are scored at a time."""


def curve_name(kind: str, level: int) -> str:
    """The name under which a level's number (from 1) is logged."""
    return f"{PREFIX}_{kind}_{level}"


def curve_values(
    decoder: T5Decoder, rows: Mapping[str, tuple[np.ndarray, np.ndarray]], device: str
) -> dict[str, float]:
    """By name, the mean log-probability of the true code at each level, and that of a uniform guess.

    `rows` has by kind the vectors [n, width] of queries and the codes [n, levels] of their answers.
    """
    values = {
        curve_name(UNIFORM, level): -float(np.log(size)) for level, size in enumerate(decoder.sizes, start=1)
    }
    for kind, (vectors, codes) in rows.items():
        if len(vectors):
            means = level_log_probs(decoder, vectors, codes, device).mean(0)
            values |= {curve_name(kind, level): float(mean) for level, mean in enumerate(means, start=1)}
    return values


@torch.no_grad()
def level_log_probs(decoder: T5Decoder, vectors: np.ndarray, codes: np.ndarray, device: str) -> np.ndarray:
    """log p(t_k | query, t_<k) of each row's own code at each level [n, levels], as a search scores it."""
    blocks: list[np.ndarray] = []
    for start in range(0, len(vectors), BLOCK):
        block = slice(start, start + BLOCK)
        known = torch.from_numpy(np.asarray(codes[block], np.int64)).to(device)
        logits = decoder(torch.from_numpy(np.asarray(vectors[block], np.float32)).to(device), known)
        blocks.append(_chosen(logits, decoder.targets(known)))
    return np.concatenate(blocks)


def _chosen(logits: Sequence[torch.Tensor], targets: torch.Tensor) -> np.ndarray:
    levels = [
        level.float().log_softmax(1).gather(1, targets[:, number : number + 1])
        for number, level in enumerate(logits)
    ]
    return torch.cat(levels, dim=1).cpu().numpy()
