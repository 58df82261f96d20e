"""Shards that are asked as those on other machines are, in this process."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path
from typing import Any, cast

from genius.cluster.shard_replica import Shard
from genius.cluster.shard_router import Gathered, RoutedIndex
from genius.errors import ShardError
from genius.index.query import MissingShard
from genius.index.shard_catalogue import open_catalogue
from genius.model import Model
from tests.index.made_up_index import MadeUpModel


class LocalShards:
    """Shards in this process; what goes to them and comes back is copied as if it were sent."""

    def __init__(self, folders: Collection[Path], *, partial: bool = True) -> None:
        self.names, self._partial = [folder.name for folder in folders], partial
        self.gone: set[str] = set()
        self._shards = [
            Shard(folder, open_catalogue(folder), cast(Model, MadeUpModel())) for folder in folders
        ]

    def __len__(self) -> int:
        return len(self._shards)

    def ask(self, method: str, *arguments: Any, on_missing: MissingShard | None = None) -> Gathered:
        """What all that are not gone answer."""
        partial = on_missing == "partial" if on_missing else self._partial
        if len(self.gone) == len(self) or (self.gone and not partial):
            raise ShardError(f"{len(self.gone)} of {len(self)} shards did not answer")
        present = [number for number, name in enumerate(self.names) if name not in self.gone]
        answers = [self.ask_one(number, method, *arguments) for number in present]
        return Gathered(answers, tuple(name for name in self.names if name in self.gone))

    def ask_one(self, number: int, method: str, *arguments: Any) -> Any:
        """What one answers."""
        if self.names[number] in self.gone:
            raise ShardError(f"{self.names[number]} did not answer")
        answer = getattr(self._shards[number], method)(*copy.deepcopy(arguments))
        return copy.deepcopy(answer)

    def close(self) -> None:
        """Close them."""
        for shard in self._shards:
            shard.close()


def open_routed_here(path: Path, *, partial: bool = True) -> tuple[RoutedIndex, LocalShards]:
    """The sharded index at `path`, whose shards answer for themselves."""
    catalogue = open_catalogue(path)
    shards = LocalShards(catalogue.folders, partial=partial)
    index = RoutedIndex(path, catalogue, cast(Model, MadeUpModel()))
    return index.routed(shards, shards.close), shards
