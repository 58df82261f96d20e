"""What an index holds and whether it is intact, without the model that it was made by."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

import numpy as np

from genius.data.records import MODALITIES
from genius.errors import DamagedError
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.locks import opening_segments
from genius.index.segments import SegmentFormat, open_segment
from genius.index.shard_catalogue import open_catalogue
from genius.index.shards import is_sharded


def describe(path: Path | str, *, verify: bool = False) -> dict[str, Any]:
    """What the index at `path` was made with, what is in it, and how many bytes that takes.

    Its segments are opened, so damage is an error, as it is for a search; `verify` checks every byte of
    segments and catalogue, and looks whether the image files are where they were. Raises InputError (no
    index), MismatchError (another format) or DamagedError.
    """
    path = Path(path)
    catalogue = open_catalogue(path)
    try:
        with opening_segments(*catalogue.folders), catalogue.reading():
            check(path, catalogue, verify=verify)
            missing = {"missing_images": _missing_images(catalogue)} if verify else {}
            shards = {"shards": len(catalogue.folders)} if is_sharded(path) else {}
            counts = catalogue.modalities()
            return {
                "kind": "index",
                **catalogue.settings(),
                **shards,
                **missing,
                "version": catalogue.state().version,
                "items": len(catalogue),
                "modalities": {MODALITIES[number].value: count for number, count in sorted(counts.items())},
                "segments": len(catalogue.segments()),
                "tombstones": len(catalogue.tombstones()),
                "bytes": _size(path),
            }
    finally:
        catalogue.close()


def _missing_images(catalogue: Catalogue) -> int:
    """How many items have an image in a file that is not there."""
    items = (item_of(entry, catalogue.path) for _, entry in catalogue.entries_with_prefix(""))
    paths = (path for item in items if (path := item.image_path) is not None)
    return sum(not path.exists() for path in paths)


def check(path: Path, catalogue: Catalogue, *, verify: bool) -> None:
    """Open all segments; with `verify` also check every byte, and whether segments and catalogue agree."""
    if verify:
        catalogue.check()
    format = SegmentFormat.read(catalogue.settings()["codes"])
    keys = [np.zeros(0, np.int64)]
    for entry in catalogue.segments():
        segment = open_segment(catalogue.segment_path(entry.number), format, entry.fingerprint, verify=verify)
        if len(segment) != entry.items:
            raise DamagedError(
                f"{path}: the catalogue names {entry.items:,} items of segment {entry.number}, which has "
                f"{len(segment):,}; make the index again"
            )
        keys.append(segment.item_keys.astype(np.int64))
    if not verify:
        return
    live = np.array([key for key, _ in catalogue.walk()], np.int64)
    named = np.concatenate([live, catalogue.tombstones()])
    if not np.array_equal(np.sort(np.concatenate(keys)), np.sort(named)):
        raise DamagedError(f"{path}: catalogue and segments don't name the same items; make the index again")


def _size(path: Path) -> int:
    """The bytes in a folder, from which another process may remove files meanwhile."""
    total = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                total += Path(folder, name).stat().st_size
    return total
