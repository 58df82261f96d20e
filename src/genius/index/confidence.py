"""How sure a search must be of its hits: a number from 0 to 1, or a word for one."""

from __future__ import annotations

import contextlib

from genius.errors import InputError

LEVELS = {"likely": 0.8, "sure": 0.95}
"""Words for a confidence."""


def parse_confidence(given: object) -> float:
    """The confidence that a word or a number stands for. Raises InputError for others."""
    if isinstance(given, str):
        if given.strip().lower() in LEVELS:
            return LEVELS[given.strip().lower()]
        with contextlib.suppress(ValueError):
            given = float(given)
    if isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given <= 1:
        return float(given)
    words = ", ".join(f"{word} ({value})" for word, value in LEVELS.items())
    raise InputError(f"at_least must be {words} or a number from 0 to 1, not {given!r}")


def nothing_matches(name: str, confidence: float, at_least: float) -> str:
    """The sentence for a search whose nearest hit is not near enough."""
    return (
        f"nothing matches: the nearest is {name!r}, with a confidence of {confidence:.2f} "
        f"where {at_least:.2f} is asked for"
    )
