"""The manifest of a sharded index: a folder of ordinary indexes of one model, which are one together.

An item is in the shard that a stable hash of its id says. Keys of items are given out over all shards, so no
two shards share one, and their order is that in which items were added to the whole.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import orjson

from genius import atomic
from genius.data.content_key import content_key
from genius.errors import DamagedError, InputError, MismatchError

FILE = "shards.json"
FORMAT = 1
MIN_SHARDS, MAX_SHARDS = 2, 10
"""SQLite reads at most ten databases together, if it is built as usual."""


@dataclass(frozen=True)
class ShardManifest:
    """What the manifest says: the identity of the whole, which its shards know, and their folders."""

    identity: str
    folders: tuple[str, ...]

    @classmethod
    def new(cls, count: int) -> ShardManifest:
        """Of an index that is about to be made. Raises InputError for a count that makes no sense."""
        if isinstance(count, bool) or not isinstance(count, int) or not MIN_SHARDS <= count <= MAX_SHARDS:
            raise InputError(
                f"an index has {MIN_SHARDS} to {MAX_SHARDS} shards, not {count!r}: name none for a whole one"
            )
        return cls(uuid.uuid4().hex, tuple(f"shard-{number:02d}" for number in range(count)))

    @classmethod
    def read(cls, folder: Path) -> ShardManifest:
        """Of the sharded index at `folder`. Raises DamagedError or MismatchError."""
        path = folder / FILE
        try:
            fields = orjson.loads(path.read_bytes())
            format, identity, names = fields["format"], fields["identity"], tuple(fields["shards"])
            sound = isinstance(identity, str) and all(
                isinstance(name, str) and Path(name).name == name and name[0] != "." for name in names
            )
        except (OSError, ValueError, KeyError, TypeError, IndexError):
            format, sound, names, identity = FORMAT, False, (), ""
        if format != FORMAT:
            raise MismatchError(f"{path} has format {format}, but this genius reads {FORMAT}: update genius")
        if not sound or not MIN_SHARDS <= len(names) <= MAX_SHARDS or len(set(names)) < len(names):
            raise DamagedError(
                f"{path} is damaged: take a copy of it, or join the shards beside it with genius merge"
            )
        return cls(identity, names)

    def write(self, folder: Path) -> None:
        """Write it into a folder."""
        fields = {"kind": "shards", "format": FORMAT, "identity": self.identity, "shards": self.folders}
        with atomic.write_file(folder / FILE) as file:
            file.write(orjson.dumps(fields, option=orjson.OPT_INDENT_2))

    def settings_of(self, number: int) -> dict[str, Any]:
        """What a shard's own settings say of its place."""
        return {"identity": self.identity, "number": number, "of": len(self.folders)}

    def check(self, folder: Path, settings: list[Mapping[str, Any]]) -> None:
        """Raise MismatchError if these settings of the shards at `folder` don't belong together."""
        first = settings[0]
        for number, (name, own) in enumerate(zip(self.folders, settings, strict=True)):
            models = [shard["model"]["fingerprint"][:12] for shard in (first, own)]
            if models[0] != models[1]:
                raise MismatchError(
                    f"{folder / name} was made by the model {models[1]}, but {folder / self.folders[0]} by "
                    f"{models[0]}: bring the shard back that belongs here"
                )
            if own.get("shard") != self.settings_of(number) or own["codes"] != first["codes"]:
                raise MismatchError(
                    f"{folder / name} is not shard {number + 1} of {folder}: bring back the one that is"
                )


def is_sharded(folder: Path | str) -> bool:
    """Whether `folder` is a sharded index."""
    return Path(folder, FILE).is_file()


def shard_of(id: str, count: int) -> int:
    """The number of the shard that has the item with this id, the same everywhere and always."""
    return int.from_bytes(content_key(id.encode("utf-8", "surrogatepass"))[:8], "big") % count


@lru_cache(maxsize=64)
def _folders(folder: Path, inode: int, changed_at: int) -> tuple[str, ...]:
    """The folders of the shards that this manifest names; another index may take its place."""
    return ShardManifest.read(folder).folders


def catalogue_of(catalogue: Path, id: str) -> Path:
    """The catalogue that keeps what an item brought along: this one, or that of the item's shard."""
    if catalogue.name != FILE:
        return catalogue
    try:
        manifest = catalogue.stat()
    except OSError:
        raise DamagedError(f"{catalogue} is gone: bring it back") from None
    folders = _folders(catalogue.parent, manifest.st_ino, manifest.st_mtime_ns)
    return catalogue.parent / folders[shard_of(id, len(folders))] / "catalogue.sqlite"
