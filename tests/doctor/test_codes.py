from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.doctor.codes import agreement, confusion, distinct_contents, level_use, measure_buckets, purity
from genius.errors import InputError


def test_even_use_has_the_perplexity_of_the_number_of_codes() -> None:
    codes = np.array([[0, 5], [1, 5], [2, 5], [3, 5]], np.uint16)
    even, single = level_use(codes, [4, 8])
    assert (even.used, even.perplexity, even.bits) == pytest.approx((1, 4, 2))
    assert (single.used, single.perplexity, single.bits) == pytest.approx((1 / 8, 1, 0))


def test_uneven_use_by_hand() -> None:
    (level,) = level_use(np.array([[0], [0], [1], [2]]), [4])
    assert level.used == 0.75
    assert level.bits == pytest.approx(0.5 * 1 + 2 * 0.25 * 2)  # a half, a quarter, a quarter
    assert level.perplexity == pytest.approx(2**1.5)


def test_codes_of_another_shape_are_refused() -> None:
    with pytest.raises(InputError, match="codes of 2 levels are needed"):
        level_use(np.zeros((3, 1), np.uint16), [4, 4])


def test_the_same_content_may_share_a_code_and_other_content_should_not() -> None:
    """Six items: two of the same content, two of different content under one code, two on their own."""
    vectors = np.eye(6, 8, dtype=np.float32)
    vectors[1] = vectors[0] + 1e-7  # the same, but for rounding
    codes = np.array([[0, 1], [0, 1], [1, 7], [1, 7], [1, 8], [2, 0]], np.uint16)
    buckets = measure_buckets(codes, vectors, modality=np.array([0, 0, 1, 1, 1, 2]))
    assert (buckets.items, buckets.distinct_codes, buckets.distinct_contents, buckets.largest) == (6, 4, 5, 2)
    assert buckets.own_code == pytest.approx(3 / 5)
    assert [(group.modality, group.items, group.colliding) for group in buckets.by_modality] == [
        ("image", 2, 0),
        ("text", 3, 2),
        ("pair", 1, 0),
    ]
    assert distinct_contents(codes, vectors).tolist() in ([0, 2, 3, 4, 5], [1, 2, 3, 4, 5])


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=40))
def test_own_codes_by_brute_force(pairs: list[tuple[int, int]]) -> None:
    """Items of content (a, b) with the code a."""
    contents = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float32)
    vectors = np.stack([contents[pair] for pair in pairs])
    codes = np.array([[code] for code, _ in pairs], np.uint16)
    buckets = measure_buckets(codes, vectors, np.zeros(len(pairs), np.int64))
    contents_of = {code: {pair for pair in pairs if pair[0] == code} for code, _ in pairs}
    assert buckets.distinct_contents == len(set(pairs))
    assert buckets.own_code == pytest.approx(
        sum(len(own) == 1 for own in contents_of.values()) / len(set(pairs))
    )
    assert buckets.by_modality[0].colliding == sum(len(contents_of[code]) > 1 for code, _ in pairs)


def test_purity_by_hand() -> None:
    modality_codes = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2, 2])
    modality = np.array([0, 0, 1, 1, 1, 2, 2, 2, 2, 0])
    table = confusion(modality_codes, modality, 3)
    assert table.tolist() == [[2, 1, 0], [0, 2, 0], [1, 0, 4]]
    assert purity(table) == pytest.approx((2 + 2 + 4) / 10)


def test_agreement_is_of_leading_codes() -> None:
    codes = np.array([[1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4]])
    others = np.array([[1, 2, 3, 9], [1, 2, 9, 4], [1, 9, 3, 4], [9, 2, 3, 4]])
    assert agreement(codes, others) == (0.75, 0.5, 0.25)
    with pytest.raises(InputError, match="pairs of codes"):
        agreement(codes, others[:2])
