"""Filters in SQL against the same in plain Python, over all sorts of metadata."""

from __future__ import annotations

import operator as op
import sqlite3
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.errors import InputError
from genius.index.filters import MAX_CONDITIONS, MAX_DEPTH, MAX_LISTED, condition, filter_of
from tests.index.made_up_metadata import KEYS, METADATA, NUMBERS, SCALARS, TEXTS
from tests.oracles.filters import ORDER, fulfils


def operators(depth: int) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(SCALARS, max_size=4)
    known: dict[str, st.SearchStrategy[Any]] = {
        "$eq": SCALARS,
        "$ne": SCALARS,
        "$in": lists,
        "$nin": lists,
        "$exists": st.booleans(),
        **dict.fromkeys(ORDER, st.one_of(NUMBERS, TEXTS)),
    }
    if depth:
        known["$not"] = st.deferred(lambda: operators(depth - 1))
    single = st.sampled_from(sorted(known)).flatmap(lambda name: known[name].map(lambda value: {name: value}))
    return st.lists(single, min_size=1, max_size=2).map(
        lambda several: {name: value for each in several for name, value in each.items()}
    )


FIELDS = st.dictionaries(st.sampled_from(KEYS), st.one_of(SCALARS, operators(1)), max_size=2)
FILTERS = st.recursive(
    FIELDS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda inner_filters: {"$and": inner_filters}),
        st.lists(inner, min_size=1, max_size=3).map(lambda inner_filters: {"$or": inner_filters}),
        inner.map(lambda inner_filter: {"$not": inner_filter}),
    ),
    max_leaves=5,
)


def table(items: list[dict[str, Any]]) -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE items (item_key INTEGER PRIMARY KEY, metadata TEXT)")
    rows = [(orjson.dumps(item, option=orjson.OPT_SORT_KEYS).decode(),) for item in items]
    connection.executemany("INSERT INTO items (metadata) VALUES (?)", rows)
    return connection


def select(connection: sqlite3.Connection, filter: dict[str, Any]) -> list[int]:
    """The numbers, from 0 on, of the items that fulfil a filter."""
    made = condition(filter)
    query = f"SELECT item_key, {made.sql} FROM items WHERE {made.sql}"
    rows = connection.execute(query, made.values * 2).fetchall()
    assert all(value == 1 for _, value in rows)  # never NULL, or $not would fail
    return [key - 1 for key, _ in rows]


@settings(max_examples=400)
@given(st.lists(METADATA, min_size=1, max_size=12), FILTERS)
def test_sql_decides_as_python_does(items: list[dict[str, Any]], filter: dict[str, Any]) -> None:
    connection = table(items)
    try:
        assert select(connection, filter) == [n for n, item in enumerate(items) if fulfils(item, filter)]
    finally:
        connection.close()


def test_a_zero_byte_does_not_end_a_text() -> None:
    connection = table([{"a": "x"}, {"a": "x\0y"}, {"a": "x\0"}])
    assert select(connection, {"a": "x"}) == [0]
    assert select(connection, {"a": "x\0y"}) == [1]
    assert select(connection, {"a": {"$in": ["x", "x\0"]}}) == [0, 2]
    connection.close()


@pytest.mark.parametrize(
    ("filter", "message"),
    [
        ("brand", "a filter is a mapping"),
        ([], "a filter is a mapping"),
        ({1: 2}, "keys are texts"),
        ({"": 1}, "a metadata key has up to"),
        ({"a\0": 1}, "none of them a zero byte"),
        ({"\ud800": 1}, "a filter can't hold"),
        ({"a": "\ud800"}, "a filter can't hold"),
        ({"$nor": []}, r"unknown operator '\$nor' between filters: expected one of \$and, \$or, \$not"),
        ({"a": {"$near": 1}}, r"unknown operator '\$near' for 'a': expected one of \$eq"),
        ({"a": {"lt": 1}}, "unknown operator 'lt'"),
        ({"a": {}}, "says nothing of 'a'"),
        ({"$and": []}, r"\$and takes a list of at least one filter"),
        ({"$or": {"a": 1}}, r"\$or takes a list"),
        ({"$or": "a"}, r"\$or takes a list"),
        ({"$not": [{"a": 1}]}, "a filter is a mapping"),
        ({"a": {"$not": 5}}, r"\$not takes operators"),
        ({"a": [1, 2]}, r"\$eq compares with text, numbers"),
        ({"a": {"$in": "abc"}}, r"\$in and \$nin take a list"),
        ({"a": {"$in": [[1]]}}, r"\$in compares with"),
        ({"a": {"$lt": None}}, r"\$lt takes a number or a text"),
        ({"a": {"$gt": True}}, r"\$gt takes a number or a text"),
        ({"a": {"$gt": float("nan")}}, "is nan"),
        ({"a": 2**64}, "more than 64 bits"),
        ({"a": {"$exists": 1}}, r"\$exists is true or false"),
        ({"a": {"$in": list(range(MAX_LISTED + 1))}}, "too long"),
        ({"$or": [{"a": n} for n in range(MAX_CONDITIONS + 1)]}, "more than 256 conditions"),
        ({"$and": [{"$not": {}}] * (MAX_CONDITIONS + 1)}, "more than 256 conditions"),
    ],
)
def test_what_is_no_filter_is_refused(filter: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        condition(filter)


def test_filters_may_be_as_deep_and_as_large_as_the_limits() -> None:
    deep: dict[str, Any] = {"a": 1}
    for _ in range(MAX_DEPTH - 1):
        deep = {"$not": deep}
    connection = table([{"a": n} for n in range(MAX_CONDITIONS)])
    assert len(select(connection, deep)) == MAX_CONDITIONS - 1
    assert len(select(connection, {"$or": [{"a": n} for n in range(MAX_CONDITIONS)]})) == MAX_CONDITIONS
    assert len(select(connection, {"a": {"$in": list(range(1, MAX_LISTED + 1))}})) == MAX_CONDITIONS - 1
    connection.close()
    for _ in range(10_000):
        deep = {"$and": [deep]}
    with pytest.raises(InputError, match="nested more than 16 deep"):
        condition(deep)
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(InputError, match="compares with text"):
        condition({"a": endless})


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["brand=acme"], {"brand": {"$in": ["acme"]}}),
        ([" brand == acme inc. "], {"brand": {"$in": ["acme inc."]}}),
        (["price<50"], {"price": {"$lt": 50}}),
        (["price >= 1.5"], {"price": {"$gte": 1.5}}),
        (["code=42"], {"code": {"$in": [42, "42"]}}),
        (['code="42"'], {"code": {"$in": ["42"]}}),
        (["new!=true"], {"new": {"$nin": [True, "true"]}}),
        (["colour in red, blue"], {"colour": {"$in": ["red", "blue"]}}),
        (['x in "a, b",3'], {"x": {"$in": ["a, b", 3, "3"]}}),
        (["a=b=c"], {"a": {"$in": ["b=c"]}}),
        (["a=not in it"], {"a": {"$in": ["not in it"]}}),
        (["a="], {"a": {"$in": [""]}}),
        (["a=[1]"], {"a": {"$in": ["[1]"]}}),
        (["a>1", "a<3"], {"$and": [{"a": {"$gt": 1}}, {"a": {"$lt": 3}}]}),
        ([], None),
    ],
)
def test_conditions_of_the_command_line(where: list[str], expected: dict[str, Any] | None) -> None:
    made = filter_of(where)
    assert made == expected
    if made is not None:
        condition(made)


DATES = [
    "2023-12-31T23:59:59",
    "2024",
    "2024-05",
    "2024-05-01",
    "2024-05-31T10:30:00",
    "2024-06-01",
    "2025-01-01T00:00:00",
]


@pytest.mark.parametrize("date", ["2024", "2024-05", "2024-05-31"])
@pytest.mark.parametrize("sign", ["=", "!=", "<", "<=", ">", ">="])
def test_a_year_a_month_or_a_day_stands_for_all_of_it(date: str, sign: str) -> None:
    compare = {"=": op.eq, "!=": op.ne, "<": op.lt, "<=": op.le, ">": op.gt, ">=": op.ge}[sign]
    # what is as precise as the date that is given, or more, is compared by as much of it as is given
    dates = [taken for taken in DATES if len(taken) >= len(date)]
    connection = table([{"taken": taken} for taken in dates])
    matching = select(connection, filter_of([f"taken{sign}{date}"]) or {})
    connection.close()
    assert matching == [row for row, taken in enumerate(dates) if compare(taken[: len(date)], date)]


def test_a_year_may_be_a_number_and_other_texts_are_no_dates() -> None:
    rows: list[dict[str, Any]] = [{"x": 2023}, {"x": 2024}, {"x": 2025.5}, {"x": "zebra"}, {"x": "A 2024"}]
    connection = table(rows)
    matching = {
        sign: select(connection, filter_of([f"x{sign}2024"]) or {}) for sign in ("<", "<=", "=", ">=", ">")
    }
    connection.close()
    assert matching == {"<": [0], "<=": [0, 1], "=": [1], ">=": [1, 2], ">": [2]}


@pytest.mark.parametrize("where", ["", "brand", "=acme", "in red", "<5"])
def test_what_is_no_condition_is_refused(where: str) -> None:
    with pytest.raises(InputError, match="is no condition: write one like"):
        filter_of([where])


def test_an_order_without_a_value_is_refused() -> None:
    with pytest.raises(InputError, match="a number or a text is missing behind <="):
        filter_of(["price<="])


@pytest.mark.parametrize(
    ("where", "message"), [("a<>5", "written !="), ("a in ", "missing"), ("a<", "missing")]
)
def test_what_is_almost_a_condition(where: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        filter_of([where])
