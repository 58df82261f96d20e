"""Conditions as one writes them on a command line: `brand=acme`, `price<50`, `colour in red,blue`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import orjson

from genius.data.records import Scalar
from genius.errors import InputError

_FORM = re.compile(
    r"\s*(?P<key>.+?)(?:\s*(?P<sign>!=|<=|>=|==|=|<|>)\s*|\s+(?P<word>in)\s+)(?P<value>.*?)\s*", re.DOTALL
)
_ORDER = {"<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}


def filter_of(conditions: Sequence[str]) -> dict[str, Any] | None:
    """The filter that holds if all conditions do; None if there are none. Raises InputError.

    A value that looks like a number may also be a text of that look: `code=42` finds both; in double quotes
    it is a text only. `true`, `false` and `null` are what JSON means by them.
    """
    if not conditions:
        return None
    found = [_condition(text) for text in conditions]
    return found[0] if len(found) == 1 else {"$and": found}


def _condition(text: str) -> dict[str, Any]:
    form = _FORM.fullmatch(text)
    if form is None:
        raise InputError(
            f"{text!r} is no condition: write one like brand=acme, price<50 or 'colour in red,blue'"
        )
    key, sign, value = form["key"], form["sign"] or form["word"], form["value"]
    if sign == "<" and value.startswith(">"):
        raise InputError(f"{text!r} is no condition: not equal is written !=")
    if sign == "in" and not value:
        raise InputError(f"{text!r} is no condition: values are missing behind in")
    if sign in _ORDER:
        if not value:
            raise InputError(f"{text!r} is no condition: a number or a text is missing behind {sign}")
        first, *_ = _values(value)
        return {key: {_ORDER[sign]: first}}
    if sign == "in":
        return {key: {"$in": [one for part in _list(value) for one in _values(part)]}}
    return {key: {"$nin" if sign == "!=" else "$in": _values(value)}}


def _list(value: str) -> list[str]:
    """What stands between commas; a comma inside double quotes is none."""
    return [part.strip() for part in re.findall(r'(?:"(?:\\.|[^"\\])*"|[^,])+', value)]


def _values(text: str) -> list[Scalar]:
    """What a text may stand for, the likeliest first."""
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return [text]
    if isinstance(value, str):
        return [value]
    return [value, text] if isinstance(value, int | float | bool | None) else [text]
