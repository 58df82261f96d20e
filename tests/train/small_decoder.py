"""The small world with codes, for the decoder's stage; run as a program it can be killed, or be several."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import torch

from genius.corpus.coded import CodedCorpus
from genius.decode.t5 import DecoderSettings
from genius.quantize.quantizer import Quantizer
from genius.train.decoder import DecoderLoopSettings, DecoderStage, DecoderTraining
from tests.train import small_quantizer
from tests.train.processes import run_as_program, train_small

SETTINGS = DecoderTraining(
    batch=48,
    validated=30,
    beams=10,
    network=DecoderSettings(
        layers=1, width=32, heads=2, head_width=16, feed_forward=64, prefix=4, dropout=0.0
    ),
    loop=DecoderLoopSettings(steps=20, learning_rate=3e-3, warm_up=2, validate_every=10, save_every=4),
)


def coded() -> tuple[Quantizer, CodedCorpus, CodedCorpus]:
    """Codebooks by k-means, and items and queries coded by them: for training, and for validation."""
    trained = small_quantizer.stage()
    trained.loss(0, 0)  # initialises the codebooks
    quantizer = trained.quantizer()
    splits = []
    for embedded in (small_quantizer.world(1), small_quantizer.world(2)):
        vectors = trained.all_vectors(embedded.items)
        queries = {task: trained.all_vectors(inputs) for task, inputs in embedded.queries.items()}
        splits.append(
            CodedCorpus(embedded, vectors, quantizer.codes(vectors, embedded.pool.modality), queries)
        )
    return quantizer, splits[0], splits[1]


def stage(**changes: Any) -> DecoderStage:
    settings = dataclasses.replace(SETTINGS, **changes)
    quantizer, training, validation = coded()
    return DecoderStage(settings, quantizer, [0, 1, 2], training, validation, seed=5)


def run(folder: Path) -> dict[str, torch.Tensor]:
    return train_small(stage(), SETTINGS.loop, folder)


if __name__ == "__main__":
    run_as_program(run)
