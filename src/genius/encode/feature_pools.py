"""Embeddings that others extracted from M-BEIR, by id: UniIR's `.npy` files and GENIUS's `.pt` pools.

UniIR writes `mbeir_POOL_cand_pool_embed.npy` (one embedding of each item, in 16 bits) with `…_ids.npy` beside
it, and `mbeir_DATASET_test_embed.npy` for queries. GENIUS writes `cand_pool_POOL_IT_dict.pt`: features of
images and of texts apart, masks that say which are present, and a dictionary of rows by id.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genius.data.hashed_ids import RecordKind, kind_of_file, original_ids
from genius.data.vectors import VectorTable, VectorTables
from genius.encode.checkpoints import read_rows_by_id
from genius.errors import InputError

ENDING = ".pt"
_ARRAYS = {"img": "image", "text": "text", "img_mask": "has_image", "text_mask": "has_text"}
"""What GENIUS calls its tensors, and we."""
_EXAMPLES: dict[RecordKind, str] = {
    "items": "mbeir_cirr_task7_cand_pool_embed.npy (UniIR) or cand_pool_cirr_task7_IT_dict.pt (GENIUS)",
    "queries": "mbeir_cirr_task7_test_embed.npy (UniIR)",
}


def open_vectors(path: Path | str, kind: RecordKind = "items") -> VectorTable | VectorTables:
    """The vectors of items or of queries, from a file, or from all files of that kind below a folder.

    Raises InputError for a folder without any, a file of the other kind, and whatever is wrong with a file.
    """
    path = Path(path)
    if path.is_dir():
        files = [file for file in sorted(path.rglob("*")) if kind_of_file(file) == kind]
        if not files:
            raise InputError(
                f"has no vectors of {kind}: expected files such as {_EXAMPLES[kind]}",
                path=path,
            )
        return VectorTables(path, [_open_file(file) for file in files])
    of_file = kind_of_file(path)
    if of_file is not None and of_file != kind:
        raise InputError(f"holds vectors of {of_file} by its name, and not of {kind}", path=path)
    return _open_file(path)


def _open_file(path: Path) -> VectorTable:
    return _open_pool(path) if path.suffix.lower() == ENDING else VectorTable.open(path)


def _open_pool(path: Path) -> VectorTable:
    """A pool of GENIUS's. Raises InputError, with the file, for one that is made otherwise."""
    tensors, rows_by_id = read_rows_by_id(path, "id_to_index")
    if missing := sorted(set(_ARRAYS) - set(tensors)):
        held = ", ".join(sorted(tensors)) or "nothing"
        raise InputError(f"is no pool of features: it has no {', '.join(missing)}, but {held}", path=path)
    lengths = {name: len(tensors[name]) for name in _ARRAYS if tensors[name].ndim}
    rows = np.fromiter(rows_by_id.values(), np.int64, len(rows_by_id))
    if len(set(lengths.values())) != 1 or len(lengths) < len(_ARRAYS):
        raise InputError(f"has tensors of different lengths: {lengths}", path=path)
    if len(rows) and not 0 <= rows.min() <= rows.max() < lengths["img"]:
        raise InputError(f"has ids of rows up to {rows.max():,}, but {lengths['img']:,} rows", path=path)
    arrays = {ours: tensors[theirs][rows] for theirs, ours in _ARRAYS.items()}
    for name in ("has_image", "has_text"):
        arrays[name] = np.asarray(arrays[name].reshape(len(rows), -1).any(axis=1))
    try:
        ids = original_ids(np.fromiter(rows_by_id, np.int64, len(rows_by_id)), kind_of_file(path) or "items")
    except InputError as error:
        raise error.at(path) from None
    return VectorTable(path, ids, arrays)
