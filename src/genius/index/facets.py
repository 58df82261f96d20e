"""Facets: which keys the metadata of an index have, and which values, so that filters can be offered.

All metadata are read once for each version of the index, and counted. A key whose values are all numbers, or
all dates in ISO 8601, has a range; any other key has its most frequent values. What a table's reader kept as
JSON text is looked into, as filters do: `size.width`.
"""

from __future__ import annotations

import re
import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import orjson

from genius.data.records import Scalar
from genius.index.filters import is_key, nested_key

MAX_ITEMS = 500_000
"""Of an index with more items, so many are read, evenly spread, and counts are estimates."""
MAX_FACETS = 100
"""How many keys are facets: the most frequent ones."""
MAX_VALUES = 50
"""How many values a facet lists: the most frequent ones."""
MAX_VALUE_LENGTH = 100
"""A longer text is prose, and not listed."""
MAX_COUNTED = 10_000
"""So many values, and so many keys, are counted exactly; beyond, rare ones are forgotten on the way."""

FacetKind = Literal["number", "date", "value"]
_DATE = re.compile(r"[0-9]{4}-[01][0-9]-[0-3][0-9](?:[T ].*)?")


@dataclass(frozen=True)
class Facet:
    """A key of metadata, and what values it has.

    Attributes:
        key: as filters name it.
        kind: `number` or `date` if all values are, else `value`.
        count: how many items have it, apart from null.
        minimum: the least number or the first date, else None.
        maximum: the largest number or the last date, else None.
        values: the most frequent values, each with the number of its items; numbers and dates list none.
    """

    key: str
    kind: FacetKind
    count: int
    minimum: float | str | None = None
    maximum: float | str | None = None
    values: tuple[tuple[Scalar, int], ...] = ()


class MetadataSource(Protocol):
    """What a catalogue offers to be counted."""

    def __len__(self) -> int:
        """How many items there are."""

    def metadata(self, step: int) -> Iterable[Sequence[str]]:
        """The metadata of every `step`-th item as JSON, in blocks."""


class FacetCache:
    """The facets of one version, read when they are first needed, by one thread for all."""

    def __init__(self) -> None:
        self._facets: tuple[Facet, ...] | None = None
        self._lock = threading.Lock()

    def get(self, source: MetadataSource) -> tuple[Facet, ...]:
        """The facets of what the source holds at the first call."""
        with self._lock:
            if self._facets is None:
                self._facets = read_facets(source)
            return self._facets


def read_facets(source: MetadataSource) -> tuple[Facet, ...]:
    """The facets of all metadata, those of most items first."""
    step = -(-len(source) // MAX_ITEMS) or 1
    columns: dict[str, _Column] = {}
    for block in source.metadata(step):
        for key, values in _values_by_key(block).items():
            columns.setdefault(key, _Column()).add(values)
        if len(columns) > MAX_COUNTED:
            columns = dict(sorted(columns.items(), key=lambda named: -named[1].count)[:MAX_FACETS])
    named = sorted(columns.items(), key=lambda named: (-named[1].count, named[0]))
    return tuple(column.facet(key, step) for key, column in named[:MAX_FACETS])


def _values_by_key(block: Sequence[str]) -> dict[str, list[Any]]:
    """The values of each key in some items; null is no value."""
    values: dict[str, list[Any]] = defaultdict(list)
    for text in block:
        metadata = orjson.loads(text)
        for key, value in metadata.items():
            inside = _parse_object(value)
            if inside is not None:
                for name, scalar in inside.items():
                    nested = nested_key(key, name)
                    if nested and nested not in metadata and not isinstance(scalar, dict | list | None):
                        values[nested].append(scalar)
            elif value is not None:
                values[key].append(value)
    return {key: listed for key, listed in values.items() if is_key(key)}


def _parse_object(value: Any) -> dict[str, Any] | None:
    """What is inside of a JSON text, if it is an object."""
    if value.__class__ is not str or value[:1] != "{":
        return None
    try:
        parsed: dict[str, Any] = orjson.loads(value)
    except orjson.JSONDecodeError:
        return None
    return parsed


class _Column:
    """The values of one key, counted block by block."""

    def __init__(self) -> None:
        self.count = 0
        self._kind: FacetKind | None = None
        self._minimum: Any = None
        self._maximum: Any = None
        self._counts: Counter[Any] = Counter()
        self._flags: Counter[bool] = Counter()  # apart, as True equals 1

    def add(self, values: Sequence[Any]) -> None:
        self.count += len(values)
        kind = _kind_of(values)
        if self._kind not in (None, kind):
            kind = "value"
        self._kind = kind
        if kind != "value":
            self._minimum = min(values) if self._minimum is None else min(self._minimum, *values)
            self._maximum = max(values) if self._maximum is None else max(self._maximum, *values)
        flags = [value for value in values if value.__class__ is bool]
        self._flags.update(flags)
        self._counts.update([value for value in values if value.__class__ is not bool] if flags else values)
        if len(self._counts) > MAX_COUNTED:
            self._counts = Counter(dict(self._counts.most_common(10 * MAX_VALUES)))

    def facet(self, key: str, step: int) -> Facet:
        """The facet, if every `step`-th item was counted."""
        assert self._kind is not None
        if self._kind != "value":
            return Facet(key, self._kind, self.count * step, self._minimum, self._maximum)
        listed: list[tuple[Scalar, int]] = [
            *self._flags.items(),
            *(pair for pair in self._counts.items() if len(str(pair[0])) <= MAX_VALUE_LENGTH),
        ]
        listed.sort(key=lambda pair: (-pair[1], str(pair[0])))
        return Facet(
            key,
            "value",
            self.count * step,
            values=tuple((value, count * step) for value, count in listed[:MAX_VALUES]),
        )


def _kind_of(values: Sequence[Any]) -> FacetKind:
    types = set(map(type, values))
    if types <= {int, float}:
        return "number"
    if types == {str} and all(map(_DATE.fullmatch, values)):
        return "date"
    return "value"
