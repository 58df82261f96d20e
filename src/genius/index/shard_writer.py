"""Commits to a sharded index: each item goes to the shard of its id, by a commit for each shard."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from genius.index.catalogue import Catalogue
from genius.index.segments import Block, Embeddings, SegmentFormat
from genius.index.shard_catalogue import ShardCatalogue
from genius.index.shards import shard_of
from genius.index.writer import Compacted, Revision, SegmentWriter


class ShardWriter(SegmentWriter):
    """Writes to the sharded index at `path`; the caller is the only writer of all shards.

    What is stopped between two shards has committed to some of them: adding the same again does the rest.
    """

    def __init__(self, path: Path, catalogue: ShardCatalogue, format: SegmentFormat, model: str) -> None:
        super().__init__(path, catalogue, format, model)
        self._shards = catalogue
        self._writers = [SegmentWriter(shard.path.parent, shard, format, model) for shard in catalogue.shards]

    def remove_orphans(self) -> None:
        """Remove segments that nothing names, from all shards."""
        for writer in self._writers:
            writer.remove_orphans()

    def commit(self, revision: Revision) -> None:
        """Commit to each shard what a revision changes there; an item's replacement is in its shard."""
        entries, block, count = revision.entries, revision.block, len(self._writers)
        numbers = np.array([shard_of(entry.id, count) for entry in entries], np.int64)
        shards = self._shards.shards_of([*revision.replaced, *revision.revised])
        for number, writer in enumerate(self._writers):
            rows = np.flatnonzero(numbers == number)
            part = Revision(
                [entries[row] for row in rows.tolist()],
                None if block is None or not len(rows) else _rows_of(block, rows),
                [key for key in revision.replaced if shards.get(key) == number],
                {key: entry for key, entry in revision.revised.items() if shards.get(key) == number},
                {id: read for id, read in revision.read_values.items() if shard_of(id, count) == number},
            )
            if part.entries or part.revised:
                writer.commit(part)

    def compact(self) -> Compacted:
        """Merge the segments of each shard."""
        done = [writer.compact() for writer in self._writers]
        counts = ([getattr(part, name) for part in done] for name in ("before", "after", "dropped"))
        return Compacted(*map(sum, counts))


def open_writer(path: Path, catalogue: Catalogue, format: SegmentFormat, model: str) -> SegmentWriter:
    """What writes to an index, whole or sharded."""
    kind = ShardWriter if isinstance(catalogue, ShardCatalogue) else SegmentWriter
    return kind(path, catalogue, format, model)  # type: ignore[arg-type]


def _rows_of(block: Block, rows: np.ndarray) -> Block:
    return Block(
        block.codes[rows],
        block.modality[rows],
        _ChosenEmbeddings(block.embeddings, rows),
        block.item_keys[rows],
        block.half_sq_norms[rows],
    )


class _ChosenEmbeddings:
    """Some rows of embeddings, read when they are needed."""

    def __init__(self, embeddings: Embeddings, rows: np.ndarray) -> None:
        self._embeddings, self._rows = embeddings, rows
        self.shape = len(rows), embeddings.shape[1]

    def __getitem__(self, places: np.ndarray) -> np.ndarray:
        return self._embeddings[self._rows[places]]
