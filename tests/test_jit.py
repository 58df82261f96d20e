"""Compiled loops where nothing can be cached: they work, and the user is told once."""

from __future__ import annotations

import numpy as np
import pytest
from numba.core import caching

from genius import jit


def test_loops_are_compiled_anew_where_they_cannot_be_cached(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])
    jit._warn_not_cached.cache_clear()

    def total(values: np.ndarray) -> float:
        result = 0.0
        for value in values:
            result += value
        return result

    for make in (jit.compiled, jit.compiled_fastmath):
        assert make(total)(np.arange(5.0)) == 10
    assert [record.getMessage() for record in caplog.records if "NUMBA_CACHE_DIR" in record.getMessage()] == [
        "compiled loops can't be cached, so every start takes longer: let NUMBA_CACHE_DIR name a folder "
        "that can be written to"
    ]
    jit._warn_not_cached.cache_clear()
