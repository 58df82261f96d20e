"""The statistics of confidences, on made-up scores: what they promise holds whatever these look like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.index.background import GROWTH, RANKS, ScoreBackground, is_outdated, items_above

QUERIES, ITEMS = 400, 1000

Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]
SHAPES: dict[str, Draw] = {
    "normal": lambda random, shape: random.normal(size=shape),
    "heavy tails": lambda random, shape: random.standard_t(3, shape),
    "bounded": lambda random, shape: random.beta(2, 5, shape),
    "few values": lambda random, shape: random.integers(0, 40, shape) / 40,
}


def measured(scores: np.ndarray) -> ScoreBackground:
    """The background of queries whose scores with all items are given [queries, items]."""
    ordered = -np.sort(-scores, axis=1)
    tails = np.full((len(scores), len(RANKS)), -np.inf, np.float32)
    known = [place for place, rank in enumerate(RANKS) if rank <= scores.shape[1]]
    tails[:, known] = ordered[:, np.array(RANKS)[known] - 1]
    return ScoreBackground(tails, scores.shape[1])


def exceeding(confidences: np.ndarray, level: float) -> float:
    return float((confidences >= level).mean())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("level", [0.5, 0.8, 0.95])
def test_queries_like_the_background_are_rarely_confident(shape: str, level: float) -> None:
    random = np.random.default_rng(1)
    draw, number = SHAPES[shape], 60
    # over many backgrounds: the promise holds on average over these, not for each of them
    shares = []
    for _ in range(number):
        background = measured(draw(random, (99, 50)))
        best = draw(random, (50, 50)).max(axis=1).astype(np.float32)
        shares.append(exceeding(background.confidences(best), level))
    error = 3 * np.std(shares) / np.sqrt(number)
    assert np.mean(shares) <= 1 - level + error
    if shape in ("normal", "heavy tails", "bounded"):  # without ties it is not far below either
        assert np.mean(shares) >= 1 - level - 0.02 - error


@pytest.mark.parametrize("part", [1.0, 0.5, 0.1, 0.01])
def test_what_a_filter_leaves_is_judged_by_its_size(part: float) -> None:
    random = np.random.default_rng(2)
    background = measured(random.normal(size=(QUERIES, ITEMS)))
    best = random.normal(size=(3000, int(part * ITEMS))).max(axis=1)
    for level in (0.5, 0.8, 0.95):
        share = exceeding(background.confidences(best, part), level)
        assert share == pytest.approx(1 - level, abs=0.07)


def test_a_collection_that_has_grown_a_little_needs_no_new_background() -> None:
    random = np.random.default_rng(3)
    background = measured(random.normal(size=(QUERIES, ITEMS)))
    best = random.normal(size=(4000, int(GROWTH * ITEMS))).max(axis=1)
    for level in (0.5, 0.8, 0.95):
        assert exceeding(background.confidences(best, GROWTH), level) == pytest.approx(1 - level, abs=0.06)
    # without the exponent, more of them would be confident than is promised
    assert exceeding(background.confidences(best), 0.8) > exceeding(background.confidences(best, GROWTH), 0.8)


@given(st.lists(st.floats(-3, 6), min_size=2, max_size=30), st.sampled_from([0.01, 0.3, 1.0, 1.4]))
def test_a_higher_score_is_never_less_confident(scores: list[float], fraction: float) -> None:
    background = measured(np.random.default_rng(4).normal(size=(60, 90)))
    confidences = background.confidences(np.sort(scores), fraction)
    assert (np.diff(confidences) >= -1e-12).all()
    assert ((confidences >= 0) & (confidences < 1)).all()


@given(st.floats(0.1, 10), st.floats(-5, 5))
def test_units_do_not_matter(scale: float, shift: float) -> None:
    random = np.random.default_rng(5)
    scores, hits = random.normal(size=(50, 80)), random.normal(2, 1, 20)
    expected = measured(scores).confidences(hits)
    changed = measured(scores * scale + shift).confidences(hits * scale + shift)
    np.testing.assert_allclose(changed, expected, atol=1 / 51)  # one query may change sides by rounding


def test_the_order_of_queries_does_not_matter() -> None:
    scores = np.random.default_rng(6).normal(size=(50, 80))
    hits = np.linspace(0, 4, 9)
    np.testing.assert_allclose(
        measured(scores[::-1]).confidences(hits, 0.3), measured(scores).confidences(hits, 0.3)
    )


def test_by_hand() -> None:
    background = measured(np.array([[0.1, 0.5], [0.2, 0.3], [0.7, 0.6]]))
    # how many of the three bests, 0.5, 0.3 and 0.7, are at least so high, and the query itself
    expected = [1 - 4 / 4, 1 - 3 / 4, 1 - 2 / 4, 1 - 1 / 4]
    np.testing.assert_allclose(background.confidences(np.array([0.2, 0.4, 0.6, 0.9])), expected)
    assert background.score_of(0.5) == pytest.approx(0.6)
    assert background.score_of(0.9) == float("inf")  # three queries can't make so sure


def test_the_least_score_of_a_confidence_has_it() -> None:
    background = measured(np.random.default_rng(7).normal(size=(QUERIES, ITEMS)))
    for level in (0.2, 0.8, 0.95):
        least = background.score_of(level)
        assert background.confidences(np.array([least]))[0] >= level
        assert background.confidences(np.array([least - 0.05]))[0] < level


def test_how_many_items_score_so_high_is_known_at_the_ranks() -> None:
    ordered = -np.sort(-np.random.default_rng(8).normal(size=4096))
    tail = ordered[np.array(RANKS) - 1]
    np.testing.assert_allclose(items_above(tail, tail, 4096), RANKS)
    assert items_above(tail, np.array([ordered[0] + 0.1]), 4096)[0] == 0
    # beyond the last rank it is an estimate, and never more than there are
    assert items_above(tail, np.array([ordered[127]]), 4096)[0] == pytest.approx(128, rel=0.5)
    assert items_above(tail, np.array([-100.0]), 4096)[0] == 4096


def test_no_background_says_nothing() -> None:
    empty = ScoreBackground(np.zeros((0, len(RANKS)), np.float32), 0)
    assert np.isnan(empty.confidences(np.array([0.5]))).all()


def test_when_it_is_measured_again() -> None:
    assert not is_outdated(100, 149, 49)
    assert is_outdated(100, 151, 51)
    assert not is_outdated(100, 67, 0)
    assert is_outdated(100, 66, 0)
    assert is_outdated(100, 100, 51)  # half of it is new
    assert is_outdated(0, 1, 1)
