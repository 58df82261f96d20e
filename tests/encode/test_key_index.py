"""The index over a feature cache's records, which several processes fill."""

from __future__ import annotations

import contextlib
from pathlib import Path

import numpy as np
import pytest

from genius.encode.key_index import KeyIndex


def keys(count: int) -> np.ndarray:
    """Keys of 32 bytes, all different."""
    numbers = np.random.default_rng(0).integers(0, 256, size=(count, 32), dtype=np.uint8)
    return numbers.view("V32").reshape(-1)


def test_what_another_process_has_taken_in_meanwhile_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.closing(KeyIndex(tmp_path / "keys")) as index:
        with contextlib.closing(KeyIndex(tmp_path / "keys")) as other:
            present, known = keys(10), [0]

            def meanwhile() -> int:
                """What is known when the others have taken in the rest right after it was read."""
                if known:
                    other.extend(present)
                    return known.pop()
                return KeyIndex.indexed(index)

            monkeypatch.setattr(index, "indexed", meanwhile)
            index.extend(present)
            assert not known
        assert KeyIndex.indexed(index) == 10
        wanted = [key.tobytes() for key in present]
        assert index.places(wanted) == {key: place for place, key in enumerate(wanted)}
