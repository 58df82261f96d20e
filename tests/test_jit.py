"""Compiled loops: they work where nothing can be cached, and the user is told what takes so long."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from numba.core import caching

from genius import jit, progress


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


def test_compiling_is_announced_once_and_only_where_it_happens(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(jit._announcement, "announced", False)
    monkeypatch.setattr(progress, "_silenced", False)

    def double(value: float) -> float:
        return 2 * value

    loop: Any = numba.njit(double)
    assert capsys.readouterr().err == ""
    assert (loop(1), loop(1.5), loop(2)) == (2, 3.0, 4)  # compiled twice, for whole numbers and others
    (line,) = capsys.readouterr().err.splitlines()
    assert line == "Compiling loops for this machine, which are kept for the next time: about 10 seconds"
