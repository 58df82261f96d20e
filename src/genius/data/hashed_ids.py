"""Ids as UniIR's and GENIUS's files of embeddings have them: one whole number for data set and number.

A candidate `9:77` is 9 · 10,000,000 + 77, a query `9:77` is 9 · 500,000 + 77. Which of the two a file holds,
its name says.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Literal

import numpy as np

from genius.errors import InputError

RecordKind = Literal["items", "queries"]
_MOST: dict[RecordKind, int] = {"items": 10_000_000, "queries": 500_000}
"""Numbers that a data set has room for."""
_NAMES: dict[RecordKind, re.Pattern[str]] = {
    "items": re.compile(r"mbeir_.+_cand_pool_embed(dings)?\.npy|(mbeir_union_)?(cand_)?pool_.+_dict\.pt"),
    "queries": re.compile(r"mbeir_.+_(train|val|test)_embed(dings)?\.npy|query_.+_dict\.pt"),
}


def kind_of_file(path: Path) -> RecordKind | None:
    """Whose embeddings a file of UniIR or GENIUS holds, by its name; None if it is none of theirs."""
    return next((kind for kind, name in _NAMES.items() if name.fullmatch(path.name)), None)


def ids_file(path: Path) -> Path:
    """The file with the ids of a file `…_embed.npy` or `…_embeddings.npy`."""
    return path.with_name(re.sub(r"_embed(dings)?\.npy$", "_ids.npy", path.name))


def original_ids(numbers: np.ndarray, kind: RecordKind) -> list[str]:
    """The ids, such as `9:77`, that these numbers [n] stand for. Raises InputError if they stand for none."""
    if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer) or (numbers < 0).any():
        raise InputError(
            f"should hold a whole number for each id, but holds {numbers.dtype} {list(numbers.shape)}"
        )
    datasets, rest = np.divmod(numbers.astype(np.int64), _MOST[kind])
    return [f"{dataset}:{number}" for dataset, number in zip(datasets.tolist(), rest.tolist(), strict=True)]
