"""Filters on metadata: `{"brand": "acme", "price": {"$lt": 50}}`, as a condition in SQL.

A filter is a mapping; all of its entries must hold. A key with a value asks for that value; a key with a
mapping asks for each of its operators:

    $eq $ne $in $nin           equal to a value, or to one of a list; or not
    $lt $lte $gt $gte          numbers among numbers, texts among texts by their characters
    $exists                    true: the key is there, be it null; false: it is not
    $not                       not what a mapping of operators says

`$and` and `$or` take lists of filters, `$not` a filter. Numbers are equal by value (1 and 1.0), true is no
number, and None is what is null or absent; so `$ne` and `$not` also hold for items that lack the key. A dot
leads into what a table's reader kept as JSON text: `size.width`, unless that is itself a key.

Nothing of a filter is ever pasted into SQL: keys and values are bound parameters.

`ordering` does the same for the keys that items are sorted by.
"""

from __future__ import annotations

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import orjson

from genius.data.records import Scalar, check_scalar
from genius.errors import InputError

MAX_DEPTH = 16
"""How deep filters may be nested."""
MAX_CONDITIONS = 256
"""How many conditions a filter may have."""
MAX_LISTED = 10_000
"""How many values a list may have."""
MAX_KEY_LENGTH = 1_000
"""How long a key may be."""
MAX_SORT_KEYS = 8
"""How many keys items may be sorted by."""

_ORDER = {"$lt": "<", "$lte": "<=", "$gt": ">", "$gte": ">="}
_OPERATORS = ("$eq", "$ne", "$in", "$nin", *_ORDER, "$exists", "$not")
_COMBINERS = ("$and", "$or", "$not")
_NUMBER = "('integer', 'real')"


@dataclass(frozen=True)
class Condition:
    """A condition on `metadata` in SQL that is 0 or 1, never NULL, and what is bound to its marks."""

    sql: str
    values: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Ordering:
    """What follows ORDER BY in SQL, and what is bound to its marks."""

    sql: str
    values: tuple[Any, ...]


def ordering(keys: Sequence[str]) -> Ordering:
    """The order by metadata keys, the first one first; `-price` is the largest first.

    Numbers (true is 1) come before texts, among which A and a are equal; items without the key come last,
    whichever way. Raises InputError for what is no key, and for too many.
    """
    if len(keys) > MAX_SORT_KEYS:
        raise InputError(f"items are sorted by up to {MAX_SORT_KEYS} keys, not by {len(keys)}")
    terms, values = [], []
    for key in keys:
        if not isinstance(key, str):
            raise InputError(f"items are sorted by the name of a metadata key, not by {_short(key)}")
        field = _Field(_checked_key(key.removeprefix("-")))
        direction = "DESC" if key.startswith("-") else "ASC"
        terms.append(f"{field.value} IS NULL, {field.value} COLLATE NOCASE {direction}")
        values += [*field.keys, *field.keys]
    return Ordering(", ".join(terms), tuple(values))


def condition(filter: Mapping[str, Any]) -> Condition:
    """What a filter asks for. Raises InputError for what is no filter, or too much of one."""
    return _Reader().all_of(filter, 1)


class _Reader:
    """Reads one filter, and counts."""

    def __init__(self) -> None:
        self._conditions = 0

    def all_of(self, filter: object, depth: int) -> Condition:
        self._check_depth(depth)
        if not isinstance(filter, Mapping):
            raise InputError(
                f"a filter is a mapping like {{'brand': 'acme'}}, and this is a {type(filter).__name__}"
            )
        if not filter:
            self._count()  # it asks for nothing, but a list may hold many of them
        conditions = []
        for key, wanted in filter.items():
            if not isinstance(key, str):
                raise InputError(f"a filter's keys are texts, and {key!r} is a {type(key).__name__}")
            read = self._combined if key.startswith("$") else self._field
            conditions.append(read(key, wanted, depth))
        return _join(conditions, "AND")

    def _combined(self, name: str, wanted: object, depth: int) -> Condition:
        if name not in _COMBINERS:
            raise _unknown(name, _COMBINERS, "between filters")
        if name == "$not":
            return _negated(self.all_of(wanted, depth + 1))
        if isinstance(wanted, str | bytes) or not isinstance(wanted, Sequence) or not wanted:
            raise InputError(f"{name} takes a list of at least one filter, not {_short(wanted)}")
        return _join([self.all_of(one, depth + 1) for one in wanted], name[1:].upper())

    def _field(self, key: str, wanted: object, depth: int) -> Condition:
        self._check_depth(depth)
        field = _Field(_checked_key(key))
        if not isinstance(wanted, Mapping):
            wanted = {"$eq": wanted}
        if not wanted:
            raise InputError(f"the filter says nothing of {key!r}: give a value, or an operator like $lt")
        conditions = []
        for name, value in wanted.items():
            self._count()
            if name not in _OPERATORS:
                raise _unknown(name, _OPERATORS, f"for {key!r}")
            if name == "$not":
                if not isinstance(value, Mapping):
                    raise InputError(f"$not takes operators like {{'$lt': 50}}, not {_short(value)}")
                conditions.append(_negated(self._field(key, value, depth + 1)))
            else:
                conditions.append(_compared(field, name, value))
        return _join(conditions, "AND")

    def _check_depth(self, depth: int) -> None:
        if depth > MAX_DEPTH:
            raise InputError(f"the filter is nested more than {MAX_DEPTH} deep: say it in fewer levels")

    def _count(self) -> None:
        self._conditions += 1
        if self._conditions > MAX_CONDITIONS:
            raise InputError(f"the filter has more than {MAX_CONDITIONS} conditions: use $in for many values")


class _Field:
    """What SQLite finds under a key of `metadata`: its type, its value and its JSON, each NULL if absent."""

    def __init__(self, key: str) -> None:
        outer, dot, inner = key.partition(".")
        paths = [_path(part) for part in (key, outer, *inner.split("."))]
        if paths[0] is None:
            # SQLite's paths have no way to write such a key that all of its versions read alike.
            lookup = "(SELECT {} FROM json_each(metadata) WHERE key = ?)"
            text = "iif(type IN ('true', 'false'), type, json_quote(atom))"
            self.type, self.value, self.json = (lookup.format(what) for what in ("type", "atom", text))
            self.keys: tuple[Any, ...] = (key,)
        elif not dot or None in paths:
            self.type, self.value, self.json = (_KIND.format("metadata"), _VALUE, _JSON)
            self.keys = (paths[0],)
        else:
            self.type, self.value, self.json = _NESTED
            inside = "$" + "".join(str(path)[1:] for path in paths[2:])
            self.keys = (paths[0], paths[1], paths[1], inside)

    def is_number(self, then: str, *values: Any) -> Condition:
        """A number of which `then` holds."""
        sql = f"(coalesce({self.type}, '') IN {_NUMBER} AND {self.value} {then})"
        return Condition(sql, (*self.keys, *self.keys, *values))


_KIND = "json_type({}, ?)"
_VALUE = "json_extract(metadata, ?)"
_JSON = "(metadata -> ?)"


def _nested(flat: str, inside: str) -> str:
    """What is under a whole key, or else inside of the JSON text that its first part holds."""
    return f"coalesce({flat}, CASE WHEN json_valid(metadata ->> ?) THEN {inside} END)"


_NESTED = (
    _nested(_KIND.format("metadata"), _KIND.format("metadata ->> ?")),
    _nested(_VALUE, "json_extract(metadata ->> ?, ?)"),
    _nested(_JSON, "((metadata ->> ?) -> ?)"),
)


def _compared(field: _Field, name: str, value: Any) -> Condition:
    if name in ("$ne", "$nin"):
        return _negated(_compared(field, "$eq" if name == "$ne" else "$in", value))
    if name == "$exists":
        if not isinstance(value, bool):
            raise InputError(f"$exists is true or false, not {_short(value)}")
        return Condition(f"({field.type} IS {'NOT ' if value else ''}NULL)", field.keys)
    if name == "$in":
        return _one_of(field, value)
    if name in _ORDER:
        return _ordered(field, name, value)
    return _equal(field, _checked(name, value))


def _equal(field: _Field, value: Any) -> Condition:
    if value is None:
        return Condition(f"(coalesce({field.type}, 'null') IS 'null')", field.keys)
    if _is_number(value):
        return field.is_number("= json_extract(?, '$')", _json(value))
    # As JSON, texts can't be taken for numbers, and a zero byte does not end them.
    return Condition(f"({field.json} IS ?)", (*field.keys, _json(value)))


def _one_of(field: _Field, values: Any) -> Condition:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Sequence | set | frozenset):
        raise InputError(f"$in and $nin take a list of values, not {_short(values)}")
    if len(values) > MAX_LISTED:
        raise InputError(f"a list of {len(values):,} values is too long: up to {MAX_LISTED:,} are looked for")
    checked = [_checked("$in", value) for value in values]
    numbers = [value for value in checked if _is_number(value)]
    others = [_json(value) for value in checked if value is not None and not _is_number(value)]
    conditions = []
    if numbers:
        conditions.append(field.is_number("IN (SELECT value FROM json_each(?))", _json(numbers)))
    if others:
        sql = f"(coalesce({field.json}, '') IN (SELECT value FROM json_each(?)))"
        conditions.append(Condition(sql, (*field.keys, _json(others))))
    if None in checked:
        conditions.append(_equal(field, None))
    return _join(conditions, "OR") if conditions else Condition("0")


def _ordered(field: _Field, name: str, value: Any) -> Condition:
    value = _checked(name, value)
    if _is_number(value):
        return field.is_number(f"{_ORDER[name]} json_extract(?, '$')", _json(value))
    if not isinstance(value, str):
        raise InputError(f"{name} takes a number or a text, not {_short(value)}")
    sql = f"({field.type} IS 'text' AND {field.value} {_ORDER[name]} ?)"
    return Condition(sql, (*field.keys, *field.keys, value))


# --- small things


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _checked(name: str, value: Any) -> Any:
    """A value that metadata may hold."""
    if not isinstance(value, str | int | float | bool | None):
        raise InputError(f"{name} compares with text, numbers, true, false or null, not {_short(value)}")
    check_scalar(name, value)
    _json(value)
    return value


def is_key(key: str) -> bool:
    """Whether a filter can name this key of metadata."""
    return 0 < len(key) <= MAX_KEY_LENGTH and "\0" not in key and not key.startswith("$")


@lru_cache(1024)
def nested_key(outer: str, inner: str) -> str | None:
    """By which key a filter looks into the JSON text under `outer`; None if it can't."""
    reachable = all(_path(part) is not None and "." not in part for part in (outer, inner))
    return f"{outer}.{inner}" if reachable else None


def _checked_key(key: str) -> str:
    if not is_key(key):
        raise InputError(f"a metadata key has up to {MAX_KEY_LENGTH:,} characters, none of them a zero byte")
    _json(key)
    return key


def _json(value: Any) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError as error:
        raise InputError(f"a filter can't hold {_short(value)}: {error}") from None


def _path(part: str) -> str | None:
    """Where SQLite finds a key of an object; None for a key that JSON would write with escapes."""
    plain = part and not any(letter in '"\\' or letter < " " for letter in part)
    return f'$."{part}"' if plain else None


def _join(conditions: Sequence[Condition], word: str) -> Condition:
    if not conditions:
        return Condition("1")
    sql = f" {word} ".join(one.sql for one in conditions)
    return Condition(f"({sql})", tuple(value for one in conditions for value in one.values))


def _negated(condition: Condition) -> Condition:
    return Condition(f"(NOT {condition.sql})", condition.values)


def _unknown(name: object, known: Sequence[str], where: str) -> InputError:
    return InputError(f"unknown operator {_short(name)} {where}: expected one of {', '.join(known)}")


def _short(value: object) -> str:
    return reprlib.repr(value)  # which is never long or deep


_FORM = re.compile(
    r"\s*(?P<key>.+?)(?:\s*(?P<sign>!=|<=|>=|==|=|<|>)\s*|\s+(?P<word>in)\s+)(?P<value>.*?)\s*", re.DOTALL
)
_SIGNS = {"<": "$lt", "<=": "$lte", ">": "$gt", ">=": "$gte"}
_DATE = re.compile(r"\d{4}(-[01]\d(-[0-3]\d)?)?")
_LAST = "~"
"""Comes after whatever may follow in a date of ISO 8601."""


def filter_of(conditions: Sequence[str]) -> dict[str, Any] | None:
    """The filter that holds if all conditions do; None if there are none. Raises InputError.

    A value that looks like a number may also be a text of that look: `code=42` finds both; in double quotes
    it is a text only. `true`, `false` and `null` are what JSON means by them. A year, a month or a day stands
    for all of it: `taken=2024-05` finds 2024-05-31T10:30:00, and `taken<=2024-05` does, too.
    """
    if not conditions:
        return None
    parsed = [_condition(text) for text in conditions]
    return parsed[0] if len(parsed) == 1 else {"$and": parsed}


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
    if sign in _SIGNS:
        if not value:
            raise InputError(f"{text!r} is no condition: a number or a text is missing behind {sign}")
        first, *_ = _values(value)
        if not _DATE.fullmatch(value):
            return {key: {_SIGNS[sign]: first}}
        dates = {key: _compared_dates(sign, value)}
        return dates if isinstance(first, str) else {"$or": [{key: {_SIGNS[sign]: first}}, dates]}
    if sign == "in":
        return {key: {"$in": [one for part in _list(value) for one in _values(part)]}}
    if not _DATE.fullmatch(value):
        return {key: {"$nin" if sign == "!=" else "$in": _values(value)}}
    equal = {"$or": [{key: {"$in": _values(value)}}, {key: _within_date(value)}]}
    return {"$not": equal} if sign == "!=" else equal


def _compared_dates(sign: str, date: str) -> dict[str, str]:
    """Operators for dates before, in or after a year, a month or a day; texts that begin with no digit are
    none."""
    bound = date if sign in ("<", ">=") else date + _LAST
    return {"$gte": "0", "$lt": bound} if "<" in sign else {"$gte": bound, "$lt": ":"}


def _within_date(date: str) -> dict[str, str]:
    """Operators for longer dates and times within a year, a month or a day."""
    separator = "T" if len(date) == len("2024-05-31") else "-"
    return {"$gte": date + separator, "$lt": date + separator + _LAST}


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
