"""Prefix ranking distillation against its formula: values, gradients, several processes, bad input."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from genius.errors import InputError
from genius.quantize.codebooks import CodebookSettings
from genius.train.distillation import DistillationSettings, PrefixDistillation, prefix_ranking_loss
from genius.train.loop import train
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from genius.train.recipe import description, read_recipe
from tests.oracles import losses as oracle
from tests.train import small_quantizer
from tests.train.gradients import assert_same
from tests.train.ranks import sum_over_ranks

pytestmark = pytest.mark.usefixtures("one_thread")

DISTILLATION = DistillationSettings(weight=40.0, temperature=0.1, top=9, warm_up=0.0)


def stage_with(modality_code: Any = "given", gain: float = 3.0, **changes: Any) -> QuantizerStage:
    """A stage whose loss is the distillation alone, with codebooks, and a fusion beyond its start."""
    settings = dataclasses.replace(
        small_quantizer.SETTINGS,
        contrast=0.0,
        beta=0.0,
        gamma=0.0,
        batch=24,
        others=7,
        codebooks=CodebookSettings(levels=3, size=6, iterations=4, gain=gain, modality_code=modality_code),
        distillation=dataclasses.replace(DISTILLATION, **changes),
    )
    stage = small_quantizer.stage(settings, positives=3)
    stage.loss(0, 0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in stage.network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return stage


def unit(rows: torch.Tensor) -> torch.Tensor:
    unit_rows: torch.Tensor = rows / rows.norm(dim=1, keepdim=True)
    return unit_rows


def expected_loss(stage: QuantizerStage, turn: int) -> torch.Tensor:
    """The formula for the batch of a turn, from the vectors of the fusion, without the loss's weight."""
    settings = stage.settings.distillation
    batch = stage._draw(np.random.default_rng([stage.seed, turn]))
    queries = stage._vectors(stage.queries.inputs, batch.rows)
    items = stage._vectors(stage.items, batch.candidates)
    modality = torch.from_numpy(
        np.concatenate([stage.queries.want[batch.rows], stage.modality[batch.candidates]])
    )
    codes = stage.codebooks.quantize(torch.cat([queries, items]), modality).codes[len(queries) :].tolist()
    queries, items = queries.double(), items.double()
    books = [book.double() for book in stage.codebooks.vectors_by_level()]
    levels = range(len(books) - stage.settings.codebooks.levels, len(books))
    gain = stage.settings.codebooks.gain
    prefixes = [
        oracle.straight_through(items, [code[: level + 1] for code in codes], books[: level + 1], gain)
        for level in levels
    ]
    embeddings = [
        torch.from_numpy(rows).double()
        for rows in (stage.queries.inputs.embeddings[batch.rows], stage.items.embeddings[batch.candidates])
    ]
    teacher = unit(embeddings[0]) @ unit(embeddings[1]).T
    if settings.teacher == "vector":
        teacher = unit(queries.detach()) @ unit(items.detach()).T
    if settings.teacher == "reranked":
        code_scores = queries @ prefixes[-1].T - prefixes[-1].square().sum(1) / 2
        weight = settings.embedding_weight
        teacher = (weight * teacher + (1 - weight) * code_scores).detach()
    return oracle.prefix_ranking_distillation(
        teacher, queries, prefixes, temperature=settings.temperature, top=settings.top
    )


@pytest.mark.parametrize("modality_code", ["given", "learned", "none"])
@pytest.mark.parametrize("teacher", ["embedding", "vector", "reranked"])
def test_the_loss_of_a_stage_is_the_formula(teacher: str, modality_code: str) -> None:
    stage = stage_with(modality_code, teacher=teacher, embedding_weight=0.3)
    expected = 40.0 * expected_loss(stage, turn=2)
    assert_same(stage.loss(2, 0), expected, list(stage.network.parameters()))


def test_a_top_beyond_the_batch_is_all_of_it() -> None:
    stage = stage_with(top=1000)
    expected = 40.0 * expected_loss(stage, turn=2)
    assert_same(stage.loss(2, 0), expected, list(stage.network.parameters()))


def test_the_shares_of_two_processes_add_up() -> None:
    alone, stages = stage_with(teacher="reranked"), [stage_with(teacher="reranked") for _ in range(2)]
    expected = 40.0 * expected_loss(alone, turn=2)
    total = sum_over_ranks(lambda rank: stages[rank].loss(2, 0), 2)
    assert float(total.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)


def test_the_weight_rises_over_the_first_steps() -> None:
    settings = dataclasses.replace(DISTILLATION, warm_up=0.5)  # of 20 steps
    assert [settings.weight_at(step / 20) for step in (1, 5, 10, 20)] == [4.0, 20.0, 40.0, 40.0]
    stage = stage_with(warm_up=0.5)
    expected = 12.0 * expected_loss(stage, turn=2)  # the third step of twenty
    assert_same(stage.loss(2, 0), expected, list(stage.network.parameters()))


def test_a_student_that_ranks_as_its_teacher_loses_nothing() -> None:
    rows = torch.randn(5, 6, generator=torch.Generator().manual_seed(0))
    items = torch.randn(12, 6, generator=torch.Generator().manual_seed(1))
    teacher = unit(rows) @ unit(items).T
    assert float(prefix_ranking_loss(teacher, 3 * rows, [2 * items] * 2, DISTILLATION)) < 1e-6
    assert float(prefix_ranking_loss(teacher, rows, [items, items.flip(0)], DISTILLATION)) > 1e-3


def test_prefixes_rank_more_like_their_teacher_after_training(tmp_path: Path) -> None:
    """Validation aside: the loss itself falls on batches that are drawn anew."""
    loop = dataclasses.replace(small_quantizer.SETTINGS.loop, steps=40, validate_every=40, save_every=40)

    def loss_after(weight: float) -> float:
        distillation = dataclasses.replace(DISTILLATION, weight=weight)
        settings = dataclasses.replace(small_quantizer.SETTINGS, loop=loop, distillation=distillation)
        stage = small_quantizer.stage(settings)
        train(stage, loop, tmp_path / str(weight), seed=5)
        return float(expected_loss(stage, turn=99).detach())

    assert loss_after(400.0) < 0.9 * loss_after(1e-9)


def test_a_recipe_without_it_is_described_as_before_there_was_any(tmp_path: Path) -> None:
    """So models that were trained before are not trained again."""
    path = tmp_path / "recipe.toml"
    path.write_text('name = "x"\n[quantizer]\n[decoder]\n')
    described = description(read_recipe(path))
    assert "distillation" not in described["quantizer"]
    assert "geometric_fusion" not in described["decoder"]
    path.write_text(
        'name = "x"\n[quantizer.distillation]\nweight = 2\n[decoder.geometric_fusion]\nweight = 3'
    )
    described = description(read_recipe(path))
    assert described["quantizer"]["distillation"]["weight"] == 2
    assert described["decoder"]["geometric_fusion"] == {"weight": 3}


def test_bad_input() -> None:
    for changes, message in (
        ({"weight": -1.0}, "weight should be at least 0"),
        ({"temperature": 0.0}, "temperature above 0"),
        ({"top": 1}, "top should be at least 2"),
        ({"warm_up": 2.0}, "shares from 0 to 1"),
    ):
        with pytest.raises(InputError, match=message):
            DistillationSettings(**changes)
    ones, nothing = np.ones((3, 4), np.float32), np.zeros((3, 0), np.float32)
    with pytest.raises(InputError, match='this model has none: say teacher = "vector"'):
        PrefixDistillation(DISTILLATION, ones, nothing)
    PrefixDistillation(dataclasses.replace(DISTILLATION, teacher="vector"), nothing, nothing)


def test_settings_of_a_stage_have_it_off() -> None:
    assert small_quantizer.stage().distillation is None and QuantizerSettings().distillation.weight == 0
