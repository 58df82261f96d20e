"""Stage 0: what its batches are made of, and which modality an instruction asks for."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from genius.corpus.records import Records
from genius.encode.features import ABSENT
from genius.encode.projection import Projection
from genius.train.loop import train
from tests.train import small_heads

pytestmark = pytest.mark.usefixtures("one_thread")


def test_the_heads_know_which_modality_a_known_prompt_asks_for() -> None:
    stage = small_heads.stage()
    prompts = torch.arange(small_heads.ITEMS, small_heads.ITEMS + small_heads.PROMPTS)
    queries = torch.zeros(len(prompts), dtype=torch.long)
    absent = stage.images[queries], torch.zeros(len(prompts), dtype=torch.bool)
    known = torch.ones(len(prompts), dtype=torch.bool)
    with torch.no_grad():
        wants = stage.heads.query_blocks(
            absent, (stage.texts[queries], known), (stage.texts[prompts], known)
        )[1]
    assert wants.argmax(1).tolist() == [0, 1, 2, 0, 1, 2]
    assert not any(parameter.requires_grad for parameter in stage.heads.wants.parameters())


def test_negatives_are_training_targets_of_the_wanted_modality_and_given_hard_ones() -> None:
    stage = small_heads.stage()
    for number, task in enumerate(stage.train_tasks):
        rows = np.arange(12)
        drawn = stage._draw_negatives(number, rows, np.random.default_rng(0))
        easy, hard = drawn[:8], drawn[8:].reshape(-1, small_heads.SETTINGS.hard_negatives)
        assert len(set(easy)) == 8  # all that there are: fewer than the settings ask for
        assert set(easy) == set(task.items.tolist())
        given = [task.negatives[row] for row in rows if len(task.negatives[row])]
        assert len(hard) == len(given) == 6
        assert all(set(chosen) <= set(known) for chosen, known in zip(hard, given, strict=True))


@pytest.mark.parametrize("dropout", [0.0, 0.3, 1.0])
def test_a_share_of_queries_has_no_instruction(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = small_heads.stage(instruction_dropout=dropout)
    task = stage.train_tasks[0]
    drawn: list[np.ndarray] = []

    def noted(contents: Records) -> tuple[None, None]:
        drawn.append(contents.instruction)
        return None, None

    monkeypatch.setattr(stage, "_queries", noted)
    for seed in range(40):
        stage._instructed_queries(task, np.arange(30), np.random.default_rng(seed))
    prompts = np.concatenate(drawn)
    assert (prompts == ABSENT).mean() == pytest.approx(dropout, abs=0.05)
    with_prompt = prompts[prompts != ABSENT]
    if dropout < 1:
        assert np.unique(with_prompt).tolist() == task.prompts.tolist()
        assert (with_prompt == task.prompts[0]).mean() == pytest.approx(0.5, abs=0.1)


def test_a_resumed_run_keeps_the_projections_of_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With another number of threads, main directions may be fitted with another sign."""
    settings = dataclasses.replace(small_heads.SETTINGS.loop, save_every=8)
    whole = small_heads.stage()
    train(whole, settings, tmp_path / "whole", seed=0)
    begun = small_heads.stage()
    taken: list[int] = []
    loss = begun.loss

    def stopped_later(step: int, part: int) -> torch.Tensor:
        taken.append(step)
        if step > settings.save_every:
            raise KeyboardInterrupt
        return loss(step, part)

    monkeypatch.setattr(begun, "loss", stopped_later)
    with pytest.raises(KeyboardInterrupt):
        train(begun, settings, tmp_path / "stopped", seed=0)
    fit = Projection._fit

    def mirrored(self: Projection, centre: str, directions: str, *rest: Any) -> None:
        fit(self, centre, directions, *rest)
        self.get_buffer(directions).neg_()

    monkeypatch.setattr(Projection, "_fit", mirrored)
    resumed = small_heads.stage()
    train(resumed, settings, tmp_path / "stopped", seed=0)
    assert max(taken) == settings.save_every + 1
    for name, value in whole.network.state_dict().items():
        assert torch.allclose(resumed.network.state_dict()[name], value, atol=1e-5), name
