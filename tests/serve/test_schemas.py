"""The schemas of requests."""

from __future__ import annotations

from typing import Any

from genius.serve.schemas import _depth


def test_the_depth_of_a_filter_is_found_without_recursion() -> None:
    deep: Any = {}
    for _ in range(100_000):
        deep = {"a": [deep]}
    assert _depth(deep) == 200_001
    while deep:  # taken apart, as freeing it would recurse, too
        deep = deep.pop("a").pop()
