"""Pairs of a query and its answer from what people have: a spreadsheet, or captions beside photos."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from genius.data.collection import Report
from genius.data.columns import Columns, ContentColumns
from genius.data.mbeir import Split
from genius.data.pairs import Pair
from genius.data.read import read
from genius.data.records import Item, Modality, Query
from genius.data.rows import Row, row_to_item
from genius.data.tables import TableCollection, table
from genius.errors import InputError

_NAMES = {
    "query": ("query", "query_text", "question", "search"),
    "query_image": ("query_image", "query_img", "query_photo"),
    "item": ("item", "item_text", "answer", "target"),
    "item_image": ("item_image", "item_img", "item_photo", "answer_image", "target_image"),
    "instruction": ("instruction", "prompt"),
    "split": ("split",),
}
"""The names that columns of a table of pairs may have."""
_SPLITS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "test": "test",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
}


def read_pairs(path: Path, report: Report, *, root: Path | None = None) -> Iterator[Pair]:
    """The pairs in a table or a collection; what can't be read goes to `report`.

    A table has columns such as query, query_image, item, item_image, and perhaps instruction and split. In
    any other collection, say a folder of photos with captions beside them or a table of captions and images,
    each text asks for the image that it belongs to. Raises InputError for a table with neither kind of
    columns, and if there is no pair at all.
    """
    failures: list[InputError] = []  # the first is enough

    def record(error: InputError) -> None:
        if not failures:
            failures.append(error)
        report(error)

    rows = table(path, root=root, columns=_PairColumns()) if path.is_file() else None
    pairs = _from_rows(rows, record) if rows and _are_pairs(rows) else _from_captions(path, root, record)
    is_empty = True
    for pair in pairs:
        is_empty = False
        yield pair
    if is_empty and failures:
        raise InputError(f"none of its pairs can be read; the first: {failures[0]}", path=path)
    if is_empty:
        raise InputError(
            "holds no pair: name the columns query and item (or query_image, item_image), or give images "
            "that have captions",
            path=path,
        )


def _from_captions(path: Path, root: Path | None, report: Report) -> Iterator[Pair]:
    collection = read(path, root=root)
    collection.failure_listener = report
    for item in collection:
        if item.modality is Modality.PAIR:
            yield Pair(Query(text=item.text), Item(item.id, None, item.image))


def _from_rows(rows: TableCollection, report: Report) -> Iterator[Pair]:
    for path, line, row in rows.rows(report):
        try:
            yield _pair(row, str(rows.root))
        except InputError as error:
            report(error.at(path, line))


def _are_pairs(rows: TableCollection) -> bool:
    """Whether a table has columns of pairs.

    Raises InputError, with the nearest names, if it has only queries or only items.
    """
    _, _, row = next(rows.rows(lambda _: None), (None, None, {}))
    has = {role: _column(role, list(row)) is not None for role in _NAMES}
    queries, items = has["query"] or has["query_image"], has["item"] or has["item_image"]
    if not queries and not items and not _has_captions(list(row)):
        hint = _nearest(list(row), [name for names in _NAMES.values() for name in names])
        raise InputError(
            "has neither pairs (columns query, query_image, item, item_image) nor images with captions: "
            + (hint or (f"it has {', '.join(map(repr, row))}" if row else "it is empty")),
            path=rows.path,
        )
    if queries == items:
        return queries
    present, missing = ("queries", "item") if queries else ("items", "query")
    wanted = (*_NAMES[missing], *_NAMES[f"{missing}_image"])
    hint = _nearest(list(row), wanted) or f"it has {', '.join(map(repr, row))}"
    raise InputError(f"has {present} but no column {missing} or {missing}_image: {hint}", path=rows.path)


def _nearest(columns: Sequence[str], wanted: Sequence[str]) -> str:
    """A question that offers the wanted name which one of the columns is nearest to; empty without any.

    Columns that are understood already are not asked about.
    """
    understood = {_column(role, list(columns)) for role in _NAMES}
    for column in columns:
        if column in understood:
            continue
        for name in difflib.get_close_matches(_plain(column), wanted, 1, cutoff=0.6):
            return f"is {column!r} meant to be {name!r}?"
    return ""


def _has_captions(names: Sequence[str]) -> bool:
    """Whether these columns have one of an image and one of a text."""
    try:
        columns = Columns().locate(names)
    except InputError:
        return False
    return bool(columns.texts) and columns.image is not None


def _pair(row: Row, root: str) -> Pair:
    names = list(row)
    query = _content(row, "query", root)
    item = _content(row, "item", root)
    split = _value(row, _column("split", names))
    if split is not None and split.lower() not in _SPLITS:
        raise InputError(f"split {split!r} is none of train, val and test")
    return Pair(
        Query(text=query.text, image=query.image, instruction=_value(row, _column("instruction", names))),
        item,
        _SPLITS[split.lower()] if split else None,
    )


def _content(row: Row, role: str, root: str) -> Item:
    """The text and image that a row has for a role, as an item whose id follows from them."""
    text, image = _column(role, list(row)), _column(f"{role}_image", list(row))
    own = {name: value for name, value in row.items() if name in (text, image)}
    if not any(own.values()):
        raise InputError(f"has no {role}: both its text and its image are empty")
    item = row_to_item(own, Columns(text=(text,) if text else (), image=image), root, role)
    return Item(f"{item.text or ''}\n{item.image.name if item.image else ''}", item.text, item.image)


def _value(row: Row, column: str | None) -> str | None:
    value = row.get(column) if column is not None else None
    return str(value).strip() or None if value is not None else None


def _column(role: str, names: Sequence[str]) -> str | None:
    """The column that has a role, by its name."""
    by_plain_name = {_plain(name): name for name in reversed(names)}
    return next((by_plain_name[name] for name in _NAMES[role] if name in by_plain_name), None)


def _plain(name: str) -> str:
    return name.strip().lower().replace(" ", "_").replace("-", "_")


@dataclass(frozen=True)
class _PairColumns(Columns):
    """Reads the columns of pairs as texts, and no others."""

    def locate(self, names: Sequence[str]) -> ContentColumns:
        roles = (_column(role, names) for role in _NAMES)
        return ContentColumns(None, tuple(name for name in roles if name is not None), None)

    def check_content(self, names: Sequence[str]) -> None:
        """Any columns will do: a table without those of pairs may have captions and images."""
