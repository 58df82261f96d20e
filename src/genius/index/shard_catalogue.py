"""The catalogues of all shards of an index, read as one and written each by itself.

SQLite attaches them to one connection, in which views stand for their tables. So a question to the catalogue
is one to all shards.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from genius.errors import DamagedError, GeniusError, InputError
from genius.index.catalogue import FILTER_SECONDS, Catalogue
from genius.index.entries import Entry
from genius.index.shards import FILE, MAX_SHARDS, ShardManifest, is_sharded, shard_of
from genius.index.sqlite import LISTED, Database, database_uri, to_json

_ALIKE = ("items", "tombstones", "images", "additions", "text_files", "read_values")
"""Tables whose rows are those of all shards."""

Thing = TypeVar("Thing")


class ShardCatalogue(Catalogue):
    """The catalogues of the sharded index in a folder; `shards` are those of the shards."""

    def __init__(self, folder: Path) -> None:
        manifest = ShardManifest.read(folder)
        self.shards: list[Catalogue] = []
        with contextlib.ExitStack() as opened:
            for name in manifest.folders:
                if not (folder / name).is_dir():
                    raise DamagedError(
                        f"{folder / name} is gone: bring it back, as an index needs all its shards"
                    )
                self.shards.append(Catalogue(folder / name))
                opened.callback(self.shards[-1].close)
            manifest.check(folder, [shard.settings() for shard in self.shards])
            opened.pop_all()
        Database.__init__(self, folder / FILE)
        self.filter_seconds = FILTER_SECONDS

    def close(self) -> None:
        """Close all connections."""
        super().close()
        for shard in self.shards:
            shard.close()

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders of the shards."""
        return tuple(shard.path.parent for shard in self.shards)

    def segment_path(self, number: int) -> Path:
        """Where the segment with this number is, which tells its shard."""
        own, shard = divmod(number, MAX_SHARDS)
        return self.shards[shard].segment_path(own)

    def prepare_writing(self) -> None:
        """Have a write-ahead log in each shard."""
        for shard in self.shards:
            shard.keep_log()

    def refuse_shards(self, verb: str) -> NoReturn:
        """Raise InputError: what this verb does, it does to a whole index."""
        folder = self.path.parent
        raise InputError(
            f"is an index of {len(self.shards)} shards, and {verb} takes a whole one: join them with "
            f"genius merge {folder} -o WHOLE",
            path=folder,
        )

    def check(self) -> None:
        """Check every byte of all of them. Raises DamagedError."""
        for shard in self.shards:
            shard.check()

    def shards_of(self, item_keys: Iterable[int]) -> dict[int, int]:
        """The numbers of the shards that have these items, by key."""
        keys = to_json(item_keys)
        shard_of_key: dict[int, int] = {}
        for number in range(len(self.shards)):
            query = f"SELECT item_key FROM shard{number}.items WHERE item_key {LISTED}"
            shard_of_key.update((key, number) for (key,) in self._query(query, keys))
        return shard_of_key

    # --- writing: a transaction for each shard

    def remove(self, item_keys: Sequence[int]) -> None:
        """Remove items, from one shard after the other."""
        for shard, keys in self._by_shard(self.shards_of(item_keys).items(), lambda pair: pair[1]):
            shard.remove([key for key, _ in keys])

    def relocate(self, moved: Mapping[int, Entry], overwritten: Sequence[int] = ()) -> None:
        """Refused: another id may be that of another shard."""
        self.refuse_shards("moving items")

    def shrink(self) -> None:
        """Free the space of deleted items in all shards."""
        for shard in self.shards:
            shard.shrink()

    def keep_images(self, images: Iterable[tuple[str, bytes, bytes]]) -> None:
        """Keep the bytes of images where their items are."""
        for shard, own in self._by_shard(images, lambda image: shard_of(image[0], len(self.shards))):
            shard.keep_images(own)

    def keep_sources(self, sources: Sequence[Mapping[str, str]]) -> None:
        """Store which sources items were added of, in all shards."""
        for shard in self.shards:
            shard.keep_sources(sources)

    def keep_text_files(self, folder: str, ids: Iterable[str], former: str | None = None) -> None:
        """Store that items are text files of a folder."""
        listed = list(ids)
        for shard in self.shards:
            shard.keep_text_files(folder, listed, former)

    def add_instructions(self, wanted: Mapping[str, int]) -> None:
        """Store which modality instructions ask for, in all shards."""
        for shard in self.shards:
            shard.add_instructions(wanted)

    def _by_shard(
        self, things: Iterable[Thing], number_of: Callable[[Thing], int]
    ) -> list[tuple[Catalogue, list[Thing]]]:
        grouped: dict[int, list[Thing]] = defaultdict(list)
        for thing in things:
            grouped[number_of(thing)].append(thing)
        return [(self.shards[number], grouped[number]) for number in sorted(grouped)]

    # --- one connection to all

    def _connect(self) -> sqlite3.Connection:
        connection = self._connect_to("file::memory:")
        with self._translated():
            for number, shard in enumerate(self.shards):
                connection.execute(f"ATTACH ? AS shard{number}", (database_uri(shard.path),))
            for name, query in self._views():
                connection.execute(f"CREATE TEMP VIEW {name} AS {query}")
        return connection

    def _views(self) -> Iterable[tuple[str, str]]:
        """What stands for each table of a catalogue."""

        def of_all(table: str, columns: str = "*", union: str = "UNION ALL") -> str:
            numbers = range(len(self.shards))
            queries = (f"SELECT {columns.format(number)} FROM shard{number}.{table}" for number in numbers)
            return f" {union} ".join(queries)

        yield from ((name, of_all(name)) for name in _ALIKE)
        yield "settings", "SELECT * FROM shard0.settings WHERE name <> 'shard'"
        yield "instructions", of_all("instructions", union="UNION")
        yield "segments", of_all("segments", f"number * {MAX_SHARDS} + {{}} AS number, items, fingerprint")
        latest = "max(next_key) AS next_key, max(next_segment) AS next_segment"
        yield "state", f"SELECT sum(version) AS version, {latest} FROM ({of_all('state')})"

    def _query_provenance(self, sql: str, *values: Any) -> list[Any]:
        return self._query(sql, *values)  # shards have had these tables from the beginning

    def _closed(self) -> GeniusError:
        return GeniusError(f"{self.path.parent} was closed: open the index again")


def open_catalogue(folder: Path) -> Catalogue:
    """The catalogue of the index at `folder`, or those of its shards. Raises InputError for anything else."""
    return ShardCatalogue(folder) if is_sharded(folder) else Catalogue(folder)
