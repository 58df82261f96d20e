"""The metric of queries: products stay, and errors of codes count less."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genius.decode.query_metric import QueryMetric
from genius.fit.codebooks import fit_quantizer

WIDTH = 12


def world(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Items that differ in all directions, and queries that differ in few of them."""
    random = np.random.default_rng(seed)
    rotation = np.linalg.qr(random.normal(size=(WIDTH, WIDTH)))[0]
    strengths = np.where(np.arange(WIDTH) < 3, 1.0, 0.1)
    items = random.normal(size=(600, WIDTH))
    queries = random.normal(size=(500, WIDTH)) * strengths @ rotation
    return items.astype(np.float32), queries.astype(np.float32)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0])
def test_products_and_mean_lengths_stay(power: float) -> None:
    items, queries = world()
    metric = QueryMetric.fit(queries, items, power)
    mapped = metric.items(items)
    np.testing.assert_allclose(metric.queries(queries) @ mapped.T, queries @ items.T, atol=1e-4)
    assert np.square(mapped).sum(1).mean() == pytest.approx(np.square(items).sum(1).mean(), rel=1e-4)
    # an item that asks for what is like it asks as a query with its vector would
    np.testing.assert_allclose(metric.items_as_queries(mapped), metric.queries(items), atol=1e-3)


def test_of_power_0_only_directions_change() -> None:
    items, queries = world()
    mapped = QueryMetric.fit(queries, items, 0.0).items(items)
    np.testing.assert_allclose(mapped @ mapped.T, items @ items.T, atol=1e-4)


def test_of_power_1_queries_differ_as_much_in_all_directions() -> None:
    items, queries = world()
    covariance = np.cov(QueryMetric.fit(queries, items, 1.0).queries(queries), rowvar=False)
    np.testing.assert_allclose(covariance / covariance[0, 0], np.eye(WIDTH), atol=1e-3)


def test_codes_err_less_in_products_with_queries() -> None:
    items, queries = world()
    errors = []
    for power in (0.0, 0.5):
        metric = QueryMetric.fit(queries, items, power)
        mapped, modality = metric.items(items), np.zeros(len(items), np.int64)
        quantizer = fit_quantizer(mapped, modality, random=np.random.default_rng(0), sizes=[16, 16])
        quantized = quantizer.reconstruct(quantizer.codes(mapped, modality))
        errors.append(np.square(metric.queries(queries) @ (quantized - mapped).T).mean())
    assert errors[1] < 0.6 * errors[0]


def test_a_file_keeps_it(tmp_path: Path) -> None:
    items, queries = world()
    metric = QueryMetric.fit(queries, items, 0.5)
    metric.write(tmp_path / "metric")
    opened = QueryMetric.open(tmp_path / "metric")
    assert np.array_equal(opened.items(items), metric.items(items))
    assert np.array_equal(opened.queries(queries), metric.queries(queries))


def test_maps_are_batch_invariant() -> None:
    items, queries = world()
    metric = QueryMetric.fit(queries, items, 0.5)
    mapped = metric.items(items)
    assert all(np.array_equal(metric.items(items[row : row + 1])[0], mapped[row]) for row in range(50))
