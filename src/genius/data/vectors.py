"""Embeddings of one's own, from files: `.npy`, `.npz`, `.safetensors` or Parquet, each vector with an id.

`VectorTable` looks vectors up by id, `VectorTables` does so in several files; `with_vectors` gives them to
the items of a collection, and `VectorFile` is a collection of vectors without anything else.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genius.data.collection import Collection, Located, Report
from genius.data.hashed_ids import ids_file, kind_of_file, original_ids
from genius.data.records import Item, Vectors
from genius.errors import InputError, require

ENDINGS = (".npy", ".npz", ".safetensors")
TABLE_ENDINGS = (*ENDINGS, ".parquet")
WHOLE_NAMES = ("vector", "vectors", "embedding", "embeddings")
IMAGE_NAMES = ("image_vector", "image_vectors", "image_embedding", "image")
TEXT_NAMES = ("text_vector", "text_vectors", "text_embedding", "text")
_TABLE_NAMES = {"whole": WHOLE_NAMES, "image": IMAGE_NAMES[:3], "text": TEXT_NAMES[:3]}
VECTOR_COLUMNS = frozenset(name for names in _TABLE_NAMES.values() for name in names)
"""The names of a table's columns that may hold vectors; `image` and `text` hold something else there."""
ID_NAMES = ("id", "ids", "_id", "did", "key")


def is_vector_file(path: Path) -> bool:
    """Whether a file holds vectors and nothing else, by the ending of its name."""
    return path.name.lower().endswith(ENDINGS)


class VectorTable:
    """Vectors [n, width] by id: one of each whole, or one of its image and one of its text, or either.

    Raises InputError, with the file, for arrays that don't fit together, NaN, and ids that repeat.
    """

    def __init__(self, path: Path, ids: list[str], arrays: Mapping[str, np.ndarray]) -> None:
        self.path, self.ids = path, ids
        self._whole, self._image, self._text = (arrays.get(name) for name in ("whole", "image", "text"))
        self._has = {name: arrays.get(f"has_{name}") for name in ("image", "text")}
        for name, array in arrays.items():
            self._check(name, array)
        if (self._whole is None) == (self._image is None and self._text is None):
            raise InputError(
                "holds no vectors, or both of the whole and of parts: name the arrays vectors, "
                "or image and text",
                path=path,
            )
        self._rows = {id: row for row, id in enumerate(ids)}
        if len(self._rows) < len(ids):
            seen: set[str] = set()
            twice = next(id for id in ids if id in seen or seen.add(id))  # type: ignore[func-returns-value]
            raise InputError(f"the id {twice!r} occurs twice: every vector needs its own", path=path)

    @classmethod
    def open(cls, path: Path | str) -> VectorTable:
        """The vectors of a file. Raises InputError."""
        path = Path(path)
        readers = {
            ".npy": _read_npy,
            ".npz": _read_npz,
            ".safetensors": _read_safetensors,
            ".parquet": _read_parquet,
        }
        reader = readers.get(path.suffix.lower())
        if reader is None:
            raise InputError(f"is no file of vectors: expected {', '.join(TABLE_ENDINGS)}", path=path)
        try:
            ids, arrays = reader(path)
        except InputError as error:
            raise error.at(path) from None
        except OSError as error:
            raise InputError(f"cannot be read: {error.strerror or error}", path=path) from error
        except Exception as error:  # each library has its own for damaged files
            reason = "" if "pickle" in str(error) else f": {error}"  # numpy takes any other file for a pickle
            raise InputError(f"is no whole file of vectors{reason}", path=path) from error
        return cls(path, ids, arrays)

    @property
    def width(self) -> int:
        """Numbers of a vector."""
        arrays = (self._whole, self._image, self._text)
        return next(int(array.shape[1]) for array in arrays if array is not None)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, id: str) -> bool:
        return id in self._rows

    def __getitem__(self, id: str) -> Vectors:
        row = self._rows[id]
        if self._whole is not None:
            return Vectors(self._whole[row])
        return Vectors(image=self._part("image", row), text=self._part("text", row))

    def _part(self, name: str, row: int) -> np.ndarray | None:
        array, present = (self._image if name == "image" else self._text), self._has[name]
        if array is None or (present is not None and not present[row]):
            return None
        return np.asarray(array[row])

    def _check(self, name: str, array: np.ndarray) -> None:
        vectors = not name.startswith("has_")
        shown = "vectors" if name == "whole" else name
        if array.ndim != (2 if vectors else 1) or not len(array):
            wanted = "[vectors, width]" if vectors else "[vectors]"
            raise InputError(
                f"{shown} should be an array {wanted}, but is {list(array.shape)}", path=self.path
            )
        if len(array) != len(self.ids):
            raise InputError(
                f"{shown} has {len(array):,} rows for {len(self.ids):,} ids: there should be one for each",
                path=self.path,
            )
        if vectors and not (
            np.issubdtype(array.dtype, np.floating) or np.issubdtype(array.dtype, np.integer)
        ):
            raise InputError(f"{shown} should hold numbers, but holds {array.dtype}", path=self.path)
        if vectors:
            present = self._has.get(name)
            finite = np.isfinite(array).all(axis=1) & array.any(axis=1)
            wrong = np.flatnonzero(~finite if present is None else ~finite & present.astype(bool))
            if len(wrong):
                id = self.ids[int(wrong[0])]
                raise InputError(
                    f"the vector of {id!r} is all zeros or holds NaN ({len(wrong):,} such vectors): "
                    "embed these again, or leave them out",
                    path=self.path,
                )


class VectorTables:
    """The vectors of several files by id; of an id that occurs in several, those of the first.

    Raises InputError for vectors of different widths.
    """

    def __init__(self, path: Path, tables: Sequence[VectorTable]) -> None:
        self.path = path
        self._tables: dict[str, VectorTable] = {}
        for table in tables:
            if table.width != tables[0].width:
                raise InputError(
                    f"its vectors have {table.width} numbers, and those of {tables[0].path.name} have "
                    f"{tables[0].width}: they come from different encoders",
                    path=table.path,
                )
            for id in table.ids:
                self._tables.setdefault(id, table)
        self.ids = list(self._tables)

    def __len__(self) -> int:
        return len(self.ids)

    def __contains__(self, id: str) -> bool:
        return id in self._tables

    def __getitem__(self, id: str) -> Vectors:
        return self._tables[id][id]


class VectorFile(Collection):
    """A file of vectors as a collection: each item is its vector, and is shown by its id."""

    kind = "vectors"

    def _located_items(self, report: Report) -> Iterator[Located]:
        table = VectorTable.open(self.path)
        for row, id in enumerate(table.ids, start=1):
            yield self.path, row, Item(id, vector=table[id])


class WithVectors(Collection):
    """The items of a collection, each with its vector of a table; items without one are failures."""

    def __init__(self, collection: Collection, vectors: VectorTable | VectorTables) -> None:
        super().__init__(collection.path, root=collection.root, strict=collection.strict)
        self.kind = collection.kind  # type: ignore[misc]
        self._collection, self._vectors, self._surplus = collection, vectors, 0

    @property
    def notes(self) -> list[str]:
        """What the reader should know of what was read."""
        surplus = f"{self._surplus:,} vectors of {self._vectors.path} have an id that no item has"
        return super().notes + ([surplus] if self._surplus else [])

    def without_exif(self) -> WithVectors:
        """The same items, to be looked through: without what cameras wrote into images, and unheard."""
        return WithVectors(self._collection.without_exif(), self._vectors)

    def _located_items(self, report: Report) -> Iterator[Located]:
        self._collection.skipped = self.skipped  # what it skips is skipped here
        fitting: set[str] = set()
        missing: list[str] = []
        for path, line, item in self._collection._located_items(report):
            if item.id in self._vectors:
                fitting.add(item.id)
                given = Item(item.id, item.text, item.image, item.metadata, self._vectors[item.id])
                yield path, line, given
                continue
            missing.append(item.id)
            report(
                InputError(f"item {item.id!r} has no vector in {self._vectors.path}", path=path, line=line)
            )
        if missing and not fitting:
            near = difflib.get_close_matches(missing[0], self._vectors.ids[:10_000], 1, 0.0)
            raise InputError(
                f"none of its ids is an item of {self.path}: ids like {near[0]!r} don't fit items like "
                f"{missing[0]!r}",
                path=self._vectors.path,
            )
        self._surplus = len(self._vectors) - len(fitting)


def with_vectors(collection: Collection, vectors: Path | str | VectorTable | VectorTables) -> Collection:
    """The items of a collection with their vectors from a file, or from an open table, by id."""
    opened = VectorTable.open(vectors) if isinstance(vectors, Path | str) else vectors
    return WithVectors(collection, opened)


def read_vector(path: Path | str) -> Vectors:
    """A single vector: a `.npy` [width] or [1, width], or a file with one vector and its id.

    Raises InputError for several vectors, or none.
    """
    path = Path(path)
    if path.suffix.lower() != ".npy":
        table = VectorTable.open(path)
        if len(table) != 1:
            raise InputError(f"holds {len(table):,} vectors, and a search is by one", path=path)
        return table[table.ids[0]]
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"is no whole .npy file: {error}", path=path) from error
    if array.ndim == 2 and len(array) == 1:
        array = array[0]
    try:
        return Vectors(array)
    except InputError as error:
        raise error.at(path) from None


def row_vectors(row: Mapping[str, Any]) -> tuple[Vectors | None, list[str]]:
    """The vectors that a table's row holds in columns of their names, and the names of those columns.

    A column of such a name counts only if it holds a list of numbers.
    """
    if VECTOR_COLUMNS.isdisjoint(row):
        return None, []  # the usual case, at once
    columns: dict[str, tuple[str, Any]] = {}
    for part, names in _TABLE_NAMES.items():
        for name in names:
            if isinstance(value := row.get(name), list) and value and isinstance(value[0], float | int):
                columns.setdefault(part, (name, value))
    if "whole" in columns:
        columns = {"whole": columns["whole"]}
    if not columns:
        return None, []
    given = {part: value for part, (_, value) in columns.items()}
    return Vectors(given.pop("whole", None), **given), [name for name, _ in columns.values()]


# --- files


def _read_npy(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    kind = kind_of_file(path)
    if kind is None or path.with_suffix(".txt").exists():
        return _ids_beside(path), {"whole": array}
    ids = ids_file(path)
    try:
        return original_ids(np.load(ids, allow_pickle=False), kind), {"whole": array}
    except FileNotFoundError:
        raise InputError(f"has no ids: {ids.name} should be beside it") from None
    except InputError as error:
        raise error.at(ids) from None


def _read_npz(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    ids = next((arrays.pop(name) for name in ID_NAMES if name in arrays), None)
    return (_ids_beside(path) if ids is None else [str(id) for id in ids.tolist()]), _named(arrays)


def _read_safetensors(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    from safetensors.numpy import load_file

    return _ids_beside(path), _named(load_file(path))


def _read_parquet(path: Path) -> tuple[list[str], dict[str, np.ndarray]]:
    parquet = require("pyarrow.parquet", "parquet", "reading Parquet files")
    table = parquet.read_table(path)
    id_column = next((name for name in ID_NAMES if name in table.column_names), None)
    if id_column is None:
        raise InputError(f"has no column {ID_NAMES[0]!r}: every vector needs an id")
    arrays: dict[str, np.ndarray] = {}
    for part, names in _TABLE_NAMES.items():
        name = next((name for name in names if name in table.column_names), None)
        if name is None:
            continue
        rows = table[name].to_pylist()
        present = np.array([row is not None for row in rows])
        widths = {len(row) for row in rows if row is not None}
        if len(widths) > 1:
            raise InputError(f"column {name!r} holds vectors of different widths: {sorted(widths)[:3]}")
        arrays[part] = np.zeros((len(rows), *widths), np.float32)
        arrays[part][present] = [row for row in rows if row is not None]
        if part != "whole":
            arrays[f"has_{part}"] = present
    return [str(id) for id in table[id_column].to_pylist()], arrays


def _named(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays under our names for them; others are left out."""
    known = {"whole": WHOLE_NAMES, "image": IMAGE_NAMES, "text": TEXT_NAMES}
    named = {
        part: next(arrays[name] for name in names if name in arrays)
        for part, names in known.items()
        if any(name in arrays for name in names)
    }
    return named | {name: arrays[name] for name in ("has_image", "has_text") if name in arrays}


def _ids_beside(path: Path) -> list[str]:
    """The ids in the text file of the same name."""
    beside = path.with_suffix(".txt")
    try:
        lines = beside.read_bytes().decode().split("\n")
    except FileNotFoundError:
        raise InputError(f"has no ids: put them into {beside.name} beside it, one a line") from None
    except UnicodeDecodeError:
        raise InputError("is no text in UTF-8: it should hold an id on each line", path=beside) from None
    return [line.removesuffix("\r") for line in lines if line]
