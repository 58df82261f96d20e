"""Compiled loops where nothing can be kept: they work, and it is said once."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core import caching

from genius import jit as compiling
from genius.jit import compiled, compiled_loosely


def test_without_a_place_to_keep_them_loops_are_compiled_anew(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    compiling._warn.cache_clear()

    def total(values: np.ndarray) -> float:
        found = 0.0
        for value in values:
            found += value
        return found

    for make in (compiled, compiled_loosely):
        assert make(total)(np.arange(5.0)) == 10
    assert [record.getMessage() for record in caplog.records if "NUMBA_CACHE_DIR" in record.getMessage()] == [
        "compiled loops can be kept nowhere, so every start takes longer: let NUMBA_CACHE_DIR name a folder "
        "that can be written to"
    ]
    compiling._warn.cache_clear()
