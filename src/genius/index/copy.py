"""`genius.copy`: a copy of an index that may be changed meanwhile, brought up to date by what is new.

A copy is of one version: the catalogue is copied by SQLite as it stood at one moment, and segments never
change. It is put together beside its place, with hard links to the segments that the copy before has, and
replaces that one in a single step. Segments that only the copy before names stay until the next copy, for
readers that are about to open them.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from genius import atomic, storage
from genius.errors import InputError, translate_disk_errors
from genius.index.catalogue import FILE, Catalogue
from genius.index.locks import opening_segments
from genius.index.segments import FOLDER, segment_path
from genius.index.shard_catalogue import ShardCatalogue, open_catalogue
from genius.index.shards import FILE as SHARDS
from genius.index.snapshot import is_index
from genius.index.sqlite import database_uri
from genius.progress import bar

MARKER = "copy.json"
"""The file by which a copy knows what it is a copy of."""
BACKGROUND = "background"


@dataclass(frozen=True)
class CopyReport:
    """What was copied: the index's version, its items, and how many segments were copied or there before."""

    version: int
    items: int
    copied: int
    kept: int


def copy(index: Path | str, target: Path | str) -> CopyReport:
    """Copy the index at `index` to the folder `target`, or bring the copy there up to date.

    Whoever writes to the index or reads it goes on. The copy is replaced completely or not at all, and those
    who read it see the new version with their next search. Raises InputError if something else stands at
    `target`, or a copy that was changed.
    """
    index, target = Path(index).absolute(), Path(target).absolute()
    if not index.exists():
        raise InputError("there is nothing here", path=index)
    if target.resolve() == index.resolve() or target.resolve().is_relative_to(index.resolve()):
        raise InputError("is the index itself, or within it: choose another place for the copy", path=target)
    with contextlib.closing(open_catalogue(index)) as catalogue:
        identity = _identity(catalogue)
        _check_target(target, identity)
        with (
            translate_disk_errors(target),
            opening_segments(*catalogue.folders),
            atomic.write_folder(target) as draft,
        ):
            report = _fill(draft, target, catalogue)
            (draft / MARKER).write_bytes(orjson.dumps({"of": identity, "version": report.version}))
            atomic.sync(draft / MARKER)
            atomic.sync(draft)
    return report


def _fill(draft: Path, target: Path, catalogue: Catalogue) -> CopyReport:
    """Copy all that is in an index, or in its shards, into a draft."""
    root, copied, kept, version, items = catalogue.path.parent, 0, 0, 0, 0
    for folder in catalogue.folders:
        own = folder.relative_to(root)
        (draft / own / FOLDER).mkdir(parents=True)
        with _copied_catalogue(folder, draft / own) as frozen:
            before = _segments_at(target / own)
            named = {entry.number: entry.fingerprint for entry in frozen.segments()}
            version, items = version + frozen.state().version, items + len(frozen)
        here = [number for number in named if before.get(number) == named[number]]
        kept += len(here)
        copied += len(named) - len(here)
        for number in before:
            if number in here or number not in named:
                _link(segment_path(target / own, number), segment_path(draft / own, number))
        with bar("copying", total=len(named) - len(here), unit="segments") as shown:
            for number in named.keys() - set(here):
                _copy_segment(segment_path(folder, number), segment_path(draft / own, number))
                shown.advance()
        for place in (draft / own / FOLDER, draft / own):
            atomic.sync(place)
    if isinstance(catalogue, ShardCatalogue):
        shutil.copyfile(root / SHARDS, draft / SHARDS)
        atomic.sync(draft / SHARDS)
    with contextlib.suppress(OSError, shutil.Error):  # what was measured can be measured again
        shutil.copytree(root / BACKGROUND, draft / BACKGROUND)
    return CopyReport(version, items, copied, kept)


@contextlib.contextmanager
def _copied_catalogue(folder: Path, draft: Path) -> Iterator[Catalogue]:
    """The catalogue as it stands now, in a file that can be read from a folder that can't be written to."""
    with (
        contextlib.closing(sqlite3.connect(database_uri(folder / FILE), uri=True)) as source,
        contextlib.closing(sqlite3.connect(draft / FILE)) as copied,
    ):
        source.backup(copied)
        copied.execute("PRAGMA journal_mode = DELETE")
    atomic.sync(draft / FILE)
    with contextlib.closing(Catalogue(draft)) as frozen:
        yield frozen


def _segments_at(folder: Path) -> Mapping[int, str]:
    """The segments of the copy before, by number."""
    if not is_index(folder):
        return {}
    with contextlib.closing(Catalogue(folder)) as catalogue:
        return {
            entry.number: entry.fingerprint
            for entry in catalogue.segments()
            if segment_path(folder, entry.number).is_dir()
        }


def _copy_segment(source: Path, target: Path) -> None:
    """Copy a segment, and check that it arrived."""
    shutil.copytree(source, target)
    storage.open(target)
    atomic.sync_all([*target.iterdir(), target])


def _link(source: Path, target: Path) -> None:
    """Have the files of a segment at another place too, without copying them where the disk can do that."""
    target.mkdir()
    for file in source.iterdir():
        try:
            os.link(file, target / file.name)
        except OSError:
            shutil.copyfile(file, target / file.name)
            atomic.sync(target / file.name)
    atomic.sync(target)


def _identity(catalogue: Catalogue) -> dict[str, Any]:
    """What tells an index from others."""
    settings = catalogue.settings()
    return {
        "path": str(catalogue.path.parent.resolve()),
        "made_at": settings.get("made_at"),
        "model": settings["model"]["fingerprint"],
    }


def _check_target(target: Path, identity: Mapping[str, Any]) -> None:
    """Raise InputError for a target that is neither free nor an unchanged copy of the index."""
    if not target.exists() or (target.is_dir() and not any(target.iterdir())):
        return
    try:
        marker = orjson.loads((target / MARKER).read_bytes())
    except (OSError, orjson.JSONDecodeError):
        raise InputError("holds something that is no copy: choose another place", path=target) from None
    if marker["of"] != identity:
        raise InputError(f"is a copy of {marker['of']['path']}: choose another place", path=target)
    with contextlib.closing(open_catalogue(target)) as copied:
        if copied.state().version != marker["version"]:
            raise InputError("is a copy that was changed since: choose another place", path=target)
