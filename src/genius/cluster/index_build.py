"""An index that is built of encoded chunks, which are committed in their order, each as one segment.

The catalogue is the checkpoint: the transaction that names a chunk's segment also says how many chunks are
in, and which. Whoever goes on after a kill compares the chunks of the source with these. The same chunks make
the same index, however often the work was stopped.
"""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict, astuple, dataclass, replace
from pathlib import Path

import numpy as np
import orjson

from genius import storage
from genius.cluster.encoded_chunk import FORMAT, KIND, PART, SEGMENT, read_failures
from genius.data.chunks import Chunk
from genius.data.collection import Collection, repeated_id
from genius.data.folder import Folder
from genius.errors import InputError, translate_disk_errors
from genius.index import segments
from genius.index.catalogue import Catalogue, SegmentEntry, now
from genius.index.entries import COLUMNS
from genius.index.ingest import Added
from genius.index.locks import only_writer
from genius.index.segments import SegmentFormat, open_segment, segment_path, write_segment
from genius.index.snapshot import is_index
from genius.index.sources import attach
from genius.index.sqlite import to_json
from genius.index.writer import SegmentWriter, merge

CHUNKS = "chunks"
"""The setting that says how far a build is, and the folder of an index where encoded chunks wait."""
NO_CHUNKS = ""
_COLUMNS = ", ".join(COLUMNS)


@dataclass(frozen=True)
class Progress:
    """How many chunks are committed, and a checksum of their names."""

    committed: int = 0
    names: str = NO_CHUNKS

    def after(self, chunk: Chunk) -> Progress:
        """The progress when one more is."""
        names = hashlib.sha256((self.names + chunk.name).encode()).hexdigest()
        return Progress(self.committed + 1, names)


class BuildCatalogue(Catalogue):
    """The catalogue of an index that is being built."""

    def progress(self) -> Progress:
        """How far the build is."""
        return Progress(**self.settings().get(CHUNKS, {}))

    @contextlib.contextmanager
    def attached(self, part: Path) -> Iterator[None]:
        """Within, this thread's statements know a chunk's part of the catalogue as `part`."""
        self._query("ATTACH DATABASE ? AS part", str(part))
        try:
            yield
        finally:
            self._query("DETACH DATABASE part")

    def repeated(self) -> list[tuple[int, str, str, int | None]]:
        """The items of the part whose ids are in use: number, id, and where they are in the source."""
        return self._query(
            "SELECT number, part.items.id, file, line FROM part.items JOIN main.items USING (id) "
            "ORDER BY number"
        )

    def commit_part(
        self, segment: SegmentEntry | None, dropped: Sequence[int], folder: str | None, progress: Progress
    ) -> None:
        """Add the items of the part but for `dropped` ones, with the segment that holds them.

        Their keys follow each other from the next one on. `folder` is that of text files.
        """
        state = self.state()
        with self._changing():
            if segment is not None:
                # The keys of those after a dropped one move up.
                key = "? + number - (SELECT count(*) FROM json_each(?) WHERE value < number)"
                self._query(
                    f"INSERT INTO main.items (item_key, {_COLUMNS}) SELECT {key}, {_COLUMNS} FROM part.items "
                    "WHERE number NOT IN (SELECT value FROM json_each(?)) ORDER BY number",
                    state.next_key,
                    *[to_json(dropped)] * 2,
                )
                self._query("INSERT OR IGNORE INTO main.images SELECT * FROM part.images")
                self._query("INSERT INTO segments VALUES (?, ?, ?)", *astuple(segment))
                self._add_additions([(state.next_key, now())])
                if folder is not None:
                    texts = "SELECT item_key, ? FROM main.items WHERE image IS NULL AND item_key >= ?"
                    self._query(f"INSERT OR REPLACE INTO text_files {texts}", folder, state.next_key)
            self._query(
                "UPDATE state SET version = version + 1, next_key = ?, next_segment = ?",
                state.next_key + (0 if segment is None else segment.items),
                state.next_segment if segment is None else segment.number + 1,
            )
            value = orjson.dumps(asdict(progress)).decode()
            self._query("INSERT OR REPLACE INTO settings VALUES (?, ?)", CHUNKS, value)
        self._checkpoint_if_large()


class IndexBuild:
    """Commits chunks to the index at `path`; made by `open_build`."""

    def __init__(self, path: Path, catalogue: BuildCatalogue, collection: Collection, strict: bool) -> None:
        settings = catalogue.settings()
        self.path, self._catalogue, self._strict = path, catalogue, strict
        self.format = SegmentFormat.read(settings["codes"])
        self.model = str(settings["model"]["fingerprint"])
        self._writer = SegmentWriter(path, catalogue, self.format, self.model)
        self._folder = str(collection.path.resolve()) if isinstance(collection, Folder) else None
        self.progress = catalogue.progress()
        self._writer.settle()

    def __len__(self) -> int:
        """How many items are committed."""
        return len(self._catalogue)

    def commit(self, chunk: Chunk, encoded: Path, report: Added) -> None:
        """Commit the next chunk, which is encoded at a place, and remove it there.

        Raises DamagedError if it is not what was written there.
        """
        artifact = storage.open(encoded, kind=KIND, format=FORMAT)
        progress, count = self.progress.after(chunk), int(artifact.manifest.counts["items"])
        for failure in read_failures(encoded):
            report.failures.add(failure.error)
        with self._catalogue.attached(encoded / PART):
            repeated = self._catalogue.repeated() if count else []
            for _, id, file, line in repeated:
                error = repeated_id(id, Path(file), line)
                if self._strict:
                    raise error
                report.failures.add(error)
            dropped = [number for number, *_ in repeated]
            with translate_disk_errors(self.path):
                segment = self._take_segment(encoded / SEGMENT, dropped) if len(dropped) < count else None
            self._catalogue.commit_part(segment, dropped, self._folder, progress)
        self.progress = progress
        report.added += count - len(dropped)
        self._writer.settle()
        shutil.rmtree(encoded, ignore_errors=True)

    def _take_segment(self, path: Path, dropped: Sequence[int]) -> SegmentEntry:
        """A chunk's segment among those of the index: all is as it was, but for the items' keys."""
        number, first = self._writer.next_number(), self._catalogue.state().next_key
        target = segment_path(self.path, number)
        artifact = storage.open(path, kind=segments.KIND, format=segments.FORMAT)
        if dropped:
            opened = open_segment(path, self.format, artifact.fingerprint)
            block = merge([opened], np.array(dropped, np.int64)).block
            block = replace(block, item_keys=first + np.arange(len(block.item_keys)))
            fingerprint = write_segment(target, block, self.format, self.model)
            return SegmentEntry(number, len(block.item_keys), fingerprint)
        manifest = artifact.manifest
        keys = np.load(artifact.file("item_keys.npy")).astype(np.int64) + first
        with storage.create(
            target,
            kind=manifest.kind,
            format=manifest.format,
            settings=manifest.settings,
            made_from=manifest.made_from,
        ) as draft:
            draft.reuse(artifact, *(set(manifest.files) - {"item_keys.npy"}))
            np.save(draft.folder / "item_keys.npy", keys.astype(segments.key_dtype(keys)))
            draft.counts.update(manifest.counts)
        return SegmentEntry(number, len(keys), storage.read_manifest(target).fingerprint)


@contextlib.contextmanager
def open_build(path: Path, collection: Collection, *, strict: bool) -> Iterator[IndexBuild]:
    """The index at `path`, empty or built of chunks until now, for its only writer.

    Raises InputError if it holds items that came otherwise.
    """
    path = path.absolute()
    if not is_index(path):
        raise InputError("is no index", path=path)
    catalogue = BuildCatalogue(path)
    try:
        with only_writer(path):
            if len(catalogue) and not catalogue.progress().committed:
                raise InputError(
                    "holds items that came without --ray: add to it without --ray, or build another index "
                    "and join them with genius merge",
                    path=path,
                )
            attach(catalogue, collection, replacing=False)
            yield IndexBuild(path, catalogue, collection, strict)
    finally:
        catalogue.close()


def left_to_do(build: IndexBuild, chunks: Sequence[Chunk]) -> range:
    """The numbers of the chunks that are still to be committed.

    Raises InputError if those that are in are not the first of these.
    """
    done = build.progress.committed
    if done > len(chunks) or _names(chunks[:done]) != build.progress.names:
        raise InputError(
            "was built of other chunks until now, as the source or --chunk-items has changed: give it what "
            "it was begun with, bring it up to date without --ray, or choose another place",
            path=build.path,
        )
    return range(done, len(chunks))


def _names(chunks: Sequence[Chunk]) -> str:
    progress = Progress()
    for chunk in chunks:
        progress = progress.after(chunk)
    return progress.names
