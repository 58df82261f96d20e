"""A stage that is small enough to be trained in a moment; run as a program it can be killed."""

from __future__ import annotations

from pathlib import Path

import torch

from genius.train import distributed
from genius.train.loop import LoopSettings, train
from tests.train.processes import run_as_program

SETTINGS = LoopSettings(steps=40, learning_rate=0.05, warm_up=5, validate_every=8, save_every=3, accumulate=2)
SEED = 3


class Quadratic:
    """Fits a linear map, with dropout, to batches that are drawn by the step's number."""

    name = "quadratic"

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.network: torch.nn.Module = torch.nn.Sequential(
            torch.nn.Linear(6, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 3)
        )
        self.truth = torch.randn(6, 3)

    def batch(self, step: int, part: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = torch.randn(32, 6, generator=torch.Generator().manual_seed(step * 2 + part))
        return rows, rows @ self.truth

    def loss(self, step: int, part: int) -> torch.Tensor:
        rows, wanted = self.batch(step, part)
        local = distributed.local_slice(len(rows))
        errors: torch.Tensor = self.network(rows[local]) - wanted[local]
        return errors.square().sum() / wanted.numel()

    def validate(self) -> dict[str, float]:
        rows, wanted = self.batch(10_000, 0)
        return {"score": -float((self.network(rows) - wanted).square().mean())}


def run(folder: Path) -> tuple[dict[str, float], dict[str, torch.Tensor]]:
    stage = Quadratic()
    scores = train(stage, SETTINGS, folder, seed=SEED)
    return scores, stage.network.state_dict()


if __name__ == "__main__":
    run_as_program(run)
