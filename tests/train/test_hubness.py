"""Fitting the bank of queries, and choosing how strongly it counts."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from genius.corpus.queries import TaskQueries, kind_of_query
from genius.encode.heads import HeadSettings
from genius.encode.hubness import Hubness
from genius.train.heads import RAW_AMOUNTS, EncoderStage
from genius.train.hubness import STRENGTHS, choose_strengths, fit_bank
from tests.train.small_heads import SETTINGS, stage

WIDTH = 6


def numbered(task: TaskQueries, rows: np.ndarray) -> torch.Tensor:
    """Blocks that say which task and which row they are."""
    return torch.stack([torch.tensor([task.want, row, 0, 0, 0, 1.0]) for row in rows.tolist()]).reshape(
        -1, WIDTH
    )


@pytest.mark.parametrize("size", [10, 70])
def test_the_bank_has_queries_that_want_the_modality(size: int) -> None:
    texts, pairs = stage().train_tasks  # text -> text and text -> pair, 30 queries each
    hubness = Hubness(WIDTH, size)
    untouched = hubness.bank[:size].clone()
    items = torch.randn(9, WIDTH, generator=torch.Generator().manual_seed(0))
    modality = np.arange(9) % 3
    fit_bank(hubness, [texts, pairs, texts], numbered, items, modality, seed=0)
    banks = hubness.bank.reshape(3, size, WIDTH)
    assert torch.equal(banks[0], untouched)  # no query wants images
    for want, queries in ((1, 60), (2, 30)):
        assert (banks[want][:, 0] == want).all()
        distinct = banks[want][:, 1].unique()
        assert set(distinct.tolist()) <= set(range(30))
        assert len(distinct) >= min(size, 30) / 2
        if size <= queries / 2:  # drawn without replacement, here from two copies of the same queries
            assert banks[want][:, 1].unique(return_counts=True)[1].max() <= queries / 30
        measured = hubness.measure(items[modality == want])[:, want]
        assert hubness.centre[want] == pytest.approx(float(measured.mean()), rel=1e-4, abs=1e-5)


def test_the_strength_of_most_hits_is_chosen_for_each_kind_of_query() -> None:
    texts, pairs = stage().train_tasks
    image, text = texts.contents.image, texts.contents.text  # all absent, all present
    images = dataclasses.replace(texts, contents=dataclasses.replace(texts.contents, image=text, text=image))
    both = dataclasses.replace(texts, contents=dataclasses.replace(texts.contents, image=text))
    assert [kind_of_query(task) for task in (images, texts, pairs, both)] == [0, 1, 1, 2]
    hubness = Hubness(WIDTH, 3)
    best = {1: 0.2, 2: 0.6}

    def hits(task: TaskQueries) -> float:
        kind = kind_of_query(task)
        return -abs(float(hubness.strengths[kind]) - best[kind])

    choose_strengths(hubness, [images, texts, pairs, both], hits)
    assert hubness.strengths.tolist() == pytest.approx([0.0, 0.2, 0.6])


def test_a_hub_is_set_back_by_heads_that_are_fitted() -> None:
    heads = dataclasses.replace(SETTINGS.heads, width=28, hubness=12)
    assert isinstance(heads, HeadSettings)
    fitted = stage(heads=heads)
    scores = fitted.calibrate()
    hubness = fitted.heads.hubness
    assert scores.keys() == {"score", "union", "modality"}
    assert hubness.bank.any(dim=1).reshape(3, -1).all(dim=1).tolist() == [False, True, True]
    assert float(hubness.strengths[1]) in [pytest.approx(strength) for strength in STRENGTHS]
    chosen, rates = float(hubness.strengths[1]), []
    with torch.no_grad():
        for strength in (*STRENGTHS, chosen):
            hubness.strengths[1] = strength
            rates.append(fitted.validate()["modality"])
    assert rates[-1] == max(rates)  # no strength that was tried finds more


def test_raw_blocks_of_texts_are_as_strong_as_the_tolerance_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    rates = dict(zip(RAW_AMOUNTS, (0.60, 0.61, 0.607, 0.58), strict=True))
    for tolerance, expected in ((0.0, 0.0), (0.1, 0.25), (0.5, 0.5), (5.0, 0.75)):
        fitted = stage(raw_tolerance=tolerance)
        before = fitted.heads.raw_weights.bias[1].item()

        def raised(fitted: EncoderStage = fitted, before: float = before) -> float:
            return round(fitted.heads.raw_weights.bias[1].item() - before, 4)

        monkeypatch.setattr(fitted, "_modality_hit_rate", lambda *_, raised=raised: rates[raised()])
        monkeypatch.setattr(fitted, "validate", dict)
        fitted.calibrate()
        assert raised() == pytest.approx(expected)


def test_only_queries_of_a_text_alone_are_strengthened() -> None:
    heads = stage().heads
    width, present = heads.text_width, torch.tensor([[1.0, 0, 0], [0, 1, 0], [1, 1, 1], [0, 1, 1]])
    inputs = torch.cat([torch.randn(4, width, generator=torch.Generator().manual_seed(0)), present], dim=1)
    before = heads.raw_weights(inputs).detach().clone()
    heads.strengthen_texts(0.5)
    change = (heads.raw_weights(inputs) - before).detach()
    assert torch.allclose(change, torch.tensor([[0, 0], [0, 0.5], [0, 0], [0, 0.5]]), atol=1e-6)
