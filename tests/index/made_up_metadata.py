"""Metadata of all sorts, to be made up by hypothesis."""

from __future__ import annotations

import orjson
from hypothesis import strategies as st

KEYS = [
    "a",
    "b",
    "a.b",
    "a.b.c",
    "c d",
    'quo"te',
    "back\\slash",
    "ünï",
    "'; DROP TABLE items; --",
    "new\nline",
]
TEXTS = st.one_of(
    st.sampled_from(["", "a", "b", "1", "true", "null", 'a"b', "a\\", "é", "🙂", "'; --", "{", "[1]"]),
    st.text(st.characters(min_codepoint=1, exclude_categories=["Cs"]), max_size=3),
)
NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.sampled_from(
        [0.5, 1.0, -0.0, 1e300, 5e-324, 0.1, 0.30000000000000004, 2**53 + 1, 2**63 - 1, -(2**63)]
    ),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-(2**63), 2**63 - 1),
)
SCALARS = st.one_of(TEXTS, NUMBERS, st.booleans(), st.none())
NESTED = st.dictionaries(
    st.sampled_from(["b", "c", "b.c", "d"]),
    st.one_of(SCALARS, st.dictionaries(st.sampled_from(["c", "d"]), SCALARS, max_size=2)),
    max_size=3,
).map(lambda value: orjson.dumps(value).decode())
METADATA = st.dictionaries(st.sampled_from(KEYS), st.one_of(SCALARS, NESTED), max_size=5)
