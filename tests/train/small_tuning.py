"""Fine-tuning of a tiny CLIP on the miniature tree, in a program of its own so that it can be killed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import torch

from genius.data.mbeir import Tree
from genius.train.loop import train
from genius.train.towers import TowerLoopSettings, TowerSettings, TowerStage

SMALL_FUSION: dict[str, Any] = {"layers": 1, "heads": 2, "head_width": 8, "inner_width": 16}


def loop(steps: int = 12, **more: Any) -> TowerLoopSettings:
    settings = {"learning_rate": 1e-3, "warm_up": 0, "validate_every": 6, "save_every": 4, **more}
    return TowerLoopSettings(steps=steps, **settings)


def settings(source: Path, **more: Any) -> TowerSettings:
    return TowerSettings(**{"source": str(source), "batch": 8, "temperature": 0.1, "loop": loop(), **more})


def run(clip: Path, tree: Path, folder: Path) -> TowerStage:
    torch.set_num_threads(1)
    chosen = settings(clip)
    stage = TowerStage(chosen, Tree(tree), seed=3)
    train(stage, chosen.loop, folder, seed=3, rates=chosen.rates)
    return stage


if __name__ == "__main__":
    run(*map(Path, sys.argv[1:4]))
