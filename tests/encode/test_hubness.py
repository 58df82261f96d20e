"""Hubness against a direct computation."""

from __future__ import annotations

import math

import pytest

pytest.importorskip("torch")
import torch

from genius.encode.hubness import TEMPERATURE, Hubness


def filled(queries: int = 5, width: int = 4) -> Hubness:
    hubness = Hubness(width, queries)
    hubness.bank.copy_(torch.randn(hubness.bank.shape, generator=torch.Generator().manual_seed(0)) / 4)
    hubness.centre.copy_(torch.tensor([0.1, 0.2, 0.3]))
    hubness.strengths.copy_(torch.tensor([0.5, 0.25, 1.0]))
    return hubness


def test_items_are_measured_by_the_queries_that_want_their_modality() -> None:
    hubness = filled()
    blocks = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    modality = torch.tensor([0, 1, 2, 2, 1, 0])
    products = hubness.of_items(blocks, modality) * hubness.of_queries(
        torch.tensor(True)[None], torch.tensor(False)[None]
    )
    for row, kind in enumerate(modality.tolist()):
        bank = hubness.bank[5 * kind : 5 * (kind + 1)]
        mean = sum(math.exp(float(blocks[row] @ query) / TEMPERATURE) for query in bank) / 5
        expected = TEMPERATURE * math.log(mean) - float(hubness.centre[kind])
        assert float(products[row, 0]) == pytest.approx(-0.5 * expected, rel=1e-4, abs=1e-5)


def test_strengths_depend_on_what_a_query_has() -> None:
    hubness = filled()
    has_image = torch.tensor([True, False, True, False])
    has_text = torch.tensor([False, True, True, False])
    numbers = hubness.of_queries(has_image, has_text)[:, 0]
    assert (numbers / numbers[0]).tolist() == pytest.approx([1, 0.5, 2, 0])


def test_before_it_is_fitted_nothing_changes() -> None:
    hubness = Hubness(4, 5)
    assert not hubness.of_queries(torch.tensor([True]), torch.tensor([True])).any()
