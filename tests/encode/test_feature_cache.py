from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.encode.feature_cache import FeatureCache, content_key

WIDTH = 5


def keys_of(*names: str) -> list[bytes]:
    return [content_key(name.encode()) for name in names]


def rows_of(*values: float) -> np.ndarray:
    return np.array([[value] * WIDTH for value in values], np.float32)


def test_what_was_added_is_there_and_in_the_next_run(tmp_path: Path) -> None:
    path = tmp_path / "x/images.cache"
    with FeatureCache(path, WIDTH) as cache:
        assert cache.missing(keys_of("a", "b", "a")) == [0, 1]
        cache.add(keys_of("a", "b"), rows_of(1, 2))
        assert cache.missing(keys_of("a", "b", "c")) == [2]
        cache.add(keys_of("c"), rows_of(3))
        np.testing.assert_array_equal(cache.rows(keys_of("c", "a", "a")), rows_of(3, 1, 1))
    with FeatureCache(path, WIDTH) as cache:
        assert len(cache) == 3
        np.testing.assert_array_equal(cache.rows(keys_of("b", "c")), rows_of(2, 3))


@given(st.integers(min_value=0))
def test_a_write_cut_off_anywhere_costs_no_record_before_it(
    tmp_path_factory: pytest.TempPathFactory, cut: int
) -> None:
    path = tmp_path_factory.mktemp("cache") / "images.cache"
    with FeatureCache(path, WIDTH) as cache:
        cache.add(keys_of("a", "b", "c"), rows_of(1, 2, 3))
    size = path.stat().st_size
    kept = cut % (size + 1)
    path.write_bytes(path.read_bytes()[:kept])
    with FeatureCache(path, WIDTH) as cache:
        whole = kept // (size // 3)
        assert cache.missing(keys_of("a", "b", "c")) == list(range(whole, 3))
        cache.add(keys_of("a", "b", "c")[whole:], rows_of(1, 2, 3)[whole:])
        np.testing.assert_array_equal(cache.rows(keys_of("a", "b", "c")), rows_of(1, 2, 3))


@given(st.integers(0, 3 * (16 + 4 + 2 * WIDTH) - 1), st.integers(1, 255))
def test_a_flipped_byte_makes_its_record_absent_and_no_other(
    tmp_path_factory: pytest.TempPathFactory, place: int, mask: int
) -> None:
    path = tmp_path_factory.mktemp("cache") / "images.cache"
    with FeatureCache(path, WIDTH) as cache:
        cache.add(keys_of("a", "b", "c"), rows_of(1, 2, 3))
    content = bytearray(path.read_bytes())
    content[place] ^= mask
    path.write_bytes(content)
    damaged = place // (16 + 4 + 2 * WIDTH)
    with FeatureCache(path, WIDTH) as cache:
        assert cache.missing(keys_of("a", "b", "c")) == [damaged]
        cache.add([keys_of("a", "b", "c")[damaged]], rows_of(9))
        assert cache.missing(keys_of("a", "b", "c")) == []
        assert cache.rows([keys_of("a", "b", "c")[damaged]])[0, 0] == 9


def test_an_empty_cache(tmp_path: Path) -> None:
    with FeatureCache(tmp_path / "a.cache", WIDTH) as cache:
        assert len(cache) == 0
        assert cache.rows([]).shape == (0, WIDTH)
