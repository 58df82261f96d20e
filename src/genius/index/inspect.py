"""What an index is and whether it is whole, without the model that it was made by."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from genius.data.records import MODALITIES
from genius.errors import DamagedError
from genius.index.catalogue import Catalogue
from genius.index.locks import opening
from genius.index.segments import Coding, open_segment, segment_path


def describe(path: Path | str, *, verify: bool = False) -> dict[str, Any]:
    """What the index at `path` was made with, what is in it, and how many bytes that takes.

    Its segments are opened, so damage is an error, as it is for a search; `verify` looks at every byte of
    segments and catalogue. Raises InputError (no index), MismatchError (another format) or DamagedError.
    """
    path = Path(path)
    catalogue = Catalogue(path)
    try:
        with opening(path), catalogue.reading():
            check(path, catalogue, verify=verify)
            counts = catalogue.modalities()
            return {
                "kind": "index",
                **catalogue.settings(),
                "version": catalogue.state().version,
                "items": len(catalogue),
                "modalities": {MODALITIES[number].value: count for number, count in sorted(counts.items())},
                "segments": len(catalogue.segments()),
                "removed": len(catalogue.removed()),
                "bytes": _bytes(path),
            }
    finally:
        catalogue.close()


def check(path: Path, catalogue: Catalogue, *, verify: bool) -> None:
    """Open all segments; with `verify` also look at every byte, and whether segments and catalogue fit."""
    coding = Coding.read(catalogue.settings()["coding"])
    rows = [np.zeros(0, np.int64)]
    for entry in catalogue.segments():
        segment = open_segment(segment_path(path, entry.number), coding, entry.fingerprint, verify=verify)
        rows.append(segment.rows.astype(np.int64))
    if not verify:
        return
    catalogue.check()
    named = np.concatenate([np.array([row for row, _ in catalogue.walk()], np.int64), catalogue.removed()])
    if not np.array_equal(np.sort(np.concatenate(rows)), np.sort(named)):
        raise DamagedError(f"{path}: catalogue and segments don't name the same rows; make the index again")


def _bytes(path: Path) -> int:
    """How much is in a folder, of which others may remove something meanwhile."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(folder, name).stat().st_size
    return total
