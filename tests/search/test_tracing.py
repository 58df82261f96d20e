from __future__ import annotations

import numpy as np
from hypothesis import given, settings

from genius.search.explain import below
from tests.search.pools import Pool, pools


@settings(deadline=None)
@given(pools())
def test_how_many_share_the_beginning_of_a_code_equals_brute_force(pool: Pool) -> None:
    parts, _ = pool.parts()
    shown = pool.codes[pool.shown]
    asked = np.concatenate([pool.codes, (pool.codes + 1) % pool.table.sizes])  # some that nobody has, too
    found = below(parts, asked)
    for row, counts in zip(asked, found, strict=True):
        expected = [(shown[:, :depth] == row[:depth]).all(axis=1).sum() for depth in range(1, len(row) + 1)]
        assert counts.tolist() == expected
