"""What filters on metadata mean, in plain Python."""

from __future__ import annotations

import operator
from typing import Any

import orjson

ABSENT = object()
ORDER = {"$lt": operator.lt, "$lte": operator.le, "$gt": operator.gt, "$gte": operator.ge}


def fulfils(metadata: dict[str, Any], filter: dict[str, Any]) -> bool:
    """Whether an item with these metadata fulfils a filter."""
    for key, condition in filter.items():
        if key == "$and":
            holds = all(fulfils(metadata, inner) for inner in condition)
        elif key == "$or":
            holds = any(fulfils(metadata, inner) for inner in condition)
        elif key == "$not":
            holds = not fulfils(metadata, condition)
        else:
            operators = condition if isinstance(condition, dict) else {"$eq": condition}
            holds = _all_hold(value_of(metadata, key), operators)
        if not holds:
            return False
    return True


def value_of(metadata: dict[str, Any], key: str) -> Any:
    """The value under a key, which may lead into JSON text by dots; ABSENT if there is none."""
    if key in metadata:
        return metadata[key]
    outer, dot, inner = key.partition(".")
    value = metadata.get(outer, ABSENT)
    if not dot or not isinstance(value, str):
        return ABSENT
    try:
        value = orjson.loads(value)
    except orjson.JSONDecodeError:
        return ABSENT
    for part in inner.split("."):
        value = value.get(part, ABSENT) if isinstance(value, dict) else ABSENT
    return value


def _all_hold(value: Any, operators: dict[str, Any]) -> bool:
    return all(_holds(value, name, operand) for name, operand in operators.items())


def _holds(value: Any, name: str, operand: Any) -> bool:
    if name == "$not":
        return not _all_hold(value, operand)
    if name == "$exists":
        return (value is not ABSENT) is operand
    if name in ("$eq", "$ne"):
        return _equal(value, operand) is (name == "$eq")
    if name in ("$in", "$nin"):
        return any(_equal(value, listed) for listed in operand) is (name == "$in")
    numbers = _is_number(value) and _is_number(operand)
    texts = isinstance(value, str) and isinstance(operand, str)
    return (numbers or texts) and bool(ORDER[name](value, operand))


def _equal(value: Any, operand: Any) -> bool:
    if operand is None:
        return value is ABSENT or value is None
    if _is_number(value) and _is_number(operand):
        return bool(value == operand)
    return type(value) is type(operand) and bool(value == operand)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
