from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.data.content_key import content_key
from genius.encode import feature_cache
from genius.encode.feature_cache import FeatureCache

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
        assert cache.missing(keys_of("a", "b", "c", "d")) == [3]
        np.testing.assert_array_equal(cache.rows(keys_of("b", "c")), rows_of(2, 3))


@settings(max_examples=40)
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


@settings(max_examples=40)
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
        assert cache.missing([]) == []
        with pytest.raises(KeyError, match="lacks the features of 1"):
            cache.rows(keys_of("a"))
        assert cache.rows([]).shape == (0, WIDTH)


def test_processes_that_have_it_open_see_what_the_others_add(tmp_path: Path) -> None:
    path = tmp_path / "images.cache"
    with FeatureCache(path, WIDTH) as first, FeatureCache(path, WIDTH) as other:
        first.add(keys_of("a"), rows_of(1))
        assert other.missing(keys_of("a", "b")) == [1]
        other.add(keys_of("b", "a"), rows_of(2, 1))  # both may have encoded the same
        assert first.missing(keys_of("a", "b")) == []
        np.testing.assert_array_equal(first.rows(keys_of("b", "a")), rows_of(2, 1))


ALTERED = {
    "no number": "UPDATE state SET indexed = 'many'",
    "no row": "DELETE FROM state",
    "no text": "UPDATE state SET indexed = CAST(x'41ff' AS TEXT)",
    "no place": "UPDATE places SET place = 'here'",
}


@pytest.mark.parametrize("damage", ["removed", "garbage", "alien", "cut", "emptied", *ALTERED])
def test_an_index_that_is_gone_or_damaged_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setattr(feature_cache, "RECENT", 1)
    path, index = tmp_path / "images.cache", tmp_path / "images.keys"
    names = [str(number) for number in range(1000)]
    with FeatureCache(path, WIDTH) as cache:
        cache.add(keys_of(*names), rows_of(*range(1000)))
        assert cache.missing(keys_of("new")) == [0]
    content = index.read_bytes()
    assert len(content) > 16_000  # so the keys are in it
    with FeatureCache(path, WIDTH) as cache:
        if damage == "removed":
            index.unlink()
        elif damage == "alien":
            index.unlink()
            with sqlite3.connect(index) as connection:
                connection.execute("CREATE TABLE places (x, y)")
        elif damage in ALTERED:
            with sqlite3.connect(index) as connection:
                connection.execute(ALTERED[damage])
        else:
            broken = {
                "garbage": content[:100] + bytes(len(content) - 100),
                "cut": content[:9000],
                "emptied": b"",
            }
            index.write_bytes(broken[damage])
    with FeatureCache(path, WIDTH) as cache:
        assert cache.missing(keys_of(*names, "new")) == [1000]
        np.testing.assert_array_equal(cache.rows(keys_of(*names)), rows_of(*range(1000)))


def test_records_that_the_index_has_and_the_file_lacks_count_as_absent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feature_cache, "RECENT", 1)
    path = tmp_path / "images.cache"
    with FeatureCache(path, WIDTH) as cache:
        cache.add(keys_of("a", "b", "c"), rows_of(1, 2, 3))
        cache.missing(keys_of("x"))
    os.truncate(path, path.stat().st_size * 2 // 3)
    with FeatureCache(path, WIDTH) as cache:
        assert cache.missing(keys_of("a", "b", "c")) == [2]
        cache.add(keys_of("d"), rows_of(4))
        np.testing.assert_array_equal(cache.rows(keys_of("a", "d", "b")), rows_of(1, 4, 2))


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(0, 2), st.lists(st.integers(0, 30), max_size=6)), max_size=20))
def test_any_order_of_adding_by_several_processes_equals_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, batches: list[tuple[int, list[int]]]
) -> None:
    path, expected = tmp_path_factory.mktemp("cache") / "images.cache", dict[int, float]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_cache, "RECENT", 4)
        patch.setattr(feature_cache, "BLOCK", 5)
        patch.setattr(feature_cache, "MOST_CHECKED", 3)
        caches = [FeatureCache(path, WIDTH) for _ in range(3)]
        for process, numbers in batches:
            caches[process].add(keys_of(*map(str, numbers)), rows_of(*numbers).reshape(-1, WIDTH))
            expected.update((number, float(number)) for number in numbers)
        for cache in caches:
            absent = cache.missing(keys_of(*map(str, range(31))))
            assert absent == [number for number in range(31) if number not in expected]
            chosen = list(expected) * 2
            np.testing.assert_array_equal(
                cache.rows(keys_of(*map(str, chosen))), rows_of(*chosen).reshape(-1, WIDTH)
            )
            cache.close()


WRITER = """
import os, sys
from pathlib import Path
import numpy as np
from genius.encode import feature_cache
from genius.data.content_key import content_key
from genius.encode.feature_cache import FeatureCache
feature_cache.RECENT = 64
start, rng = int(sys.argv[2]), np.random.default_rng(int(sys.argv[2]))
with FeatureCache(Path(sys.argv[1]), 5) as cache:
    while True:
        numbers = rng.integers(0, 3000, 32)
        cache.missing([content_key(str(number).encode()) for number in numbers])
        cache.add([content_key(str(n).encode()) for n in numbers], np.repeat(numbers[:, None], 5, 1) % 1000)
        print(*numbers, flush=True)
"""


def test_writers_killed_at_any_moment_lose_nothing_that_was_added(tmp_path: Path) -> None:
    path = tmp_path / "images.cache"
    said: set[int] = set()
    for turn in range(3):
        command = [sys.executable, "-c", WRITER, str(path)]
        writers = [
            subprocess.Popen([*command, str(2 * turn + number)], stdout=subprocess.PIPE, text=True)
            for number in range(2)
        ]
        for number, writer in enumerate(writers):
            assert writer.stdout is not None
            for _ in range(10 + 7 * turn + 3 * number):
                said.update(map(int, writer.stdout.readline().split()))
        for writer in writers:
            writer.send_signal(signal.SIGKILL)
            writer.communicate()
    with FeatureCache(path, WIDTH) as cache:
        keys = keys_of(*map(str, sorted(said)))
        assert cache.missing(keys) == []
        np.testing.assert_array_equal(cache.rows(keys)[:, 0], np.array(sorted(said)) % 1000)
