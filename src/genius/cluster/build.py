"""`genius index --ray`, without Ray: the chunks of a source are encoded by workers and committed in order.

    job, chunks = chunk_job(collection, model, "int8"), cut_source(collection, 1_000_000)
    report = run_build(job, chunks, workers, out)

The workers may be anything that encodes chunks: `LocalWorker` does so in this process, and
`genius.cluster.ray_workers` on the machines of a cluster.
"""

from __future__ import annotations

import contextlib
import copy
import shutil
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from genius import storage
from genius.cluster.encoded_chunk import ChunkJob, chunk_folder, encode_chunk, is_encoded
from genius.cluster.index_build import CHUNKS, IndexBuild, left_to_do, open_build
from genius.data.chunks import Chunk, cut, shared_errors
from genius.data.collection import Collection, Failures, Report
from genius.encode.pipeline import default_cache
from genius.errors import DamagedError, InputError, MismatchError, MissingError
from genius.index.ingest import Added
from genius.index.item_encoder import item_encoder
from genius.index.segments import KeptEmbeddings
from genius.index.snapshot import segment_format
from genius.model import Model, model_folder
from genius.progress import bar

CHUNK_ITEMS = 1_000_000
"""How many items a chunk has, and so a segment, by default."""
AHEAD = 3
"""How many chunks a worker may be ahead of the commits: what waits takes space on the disk."""


@dataclass(frozen=True)
class Assignment:
    """A chunk to encode, and where to put it."""

    number: int
    chunk: Chunk
    out: Path


class Workers(Protocol):
    """What encodes chunks, several at a time."""

    size: int
    """How many at a time."""

    def start(self, assignment: Assignment) -> None:
        """Have a chunk encoded."""

    def wait(self) -> int | None:
        """Wait a moment for a chunk to be encoded; the number of one that is. Raises what went wrong."""

    def items(self) -> int:
        """How many items were encoded in all, of unfinished chunks too."""


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker needs to encode the chunks of a build; it is sent to other machines.

    Attributes:
        job: what all chunks have in common.
        model: the model's folder, which is at the same place on every machine, or its name if it ships.
        cache: the folder of cached features; by default the user's on the worker's machine.
        threads: how many threads a worker may use.
        device: where the model's towers run, such as "cuda"; by default on the processor.
    """

    job: ChunkJob
    model: str
    cache: Path | None = None
    threads: int | None = None
    device: str | None = None


class ChunkEncoder:
    """Encodes chunks with a model that is opened once. Raises GeniusError if it is not the build's model."""

    def __init__(self, settings: WorkerSettings) -> None:
        self._job = settings.job
        if not model_folder(settings.model).exists():
            raise MissingError(
                f"there is no model at {settings.model} on a worker's machine: put it there, or on storage "
                "that all machines share"
            )
        model = Model.open(settings.model, threads=settings.threads, device=settings.device)
        if model.fingerprint != settings.job.model:
            raise MismatchError(
                f"{settings.model} is another model on a worker's machine: put the same one there"
            )
        self._open = contextlib.ExitStack()
        encoder = item_encoder(model, settings.cache or default_cache(), workers=1)
        self._encode = self._open.enter_context(encoder)

    def run(self, assignment: Assignment) -> Iterator[int]:
        """Encode a chunk; gives the numbers of items as they are done."""
        return encode_chunk(self._job, assignment.chunk, self._encode, assignment.out)

    def close(self) -> None:
        """Close the model's cache."""
        self._open.close()


class LocalWorker:
    """One worker, in this process."""

    size = 1

    def __init__(self, settings: WorkerSettings) -> None:
        self._encoder = ChunkEncoder(settings)
        self._waiting: deque[Assignment] = deque()
        self._items = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._encoder.close()

    def start(self, assignment: Assignment) -> None:
        """Note a chunk; it is encoded by `wait`."""
        self._waiting.append(assignment)

    def wait(self) -> int | None:
        """Encode the next chunk."""
        assignment = self._waiting.popleft()
        self._items += sum(self._encoder.run(assignment))
        return assignment.number

    def items(self) -> int:
        """How many were encoded."""
        return self._items


def check_chunkable(model: Model) -> None:
    """Raise InputError for a model whose identifiers depend on the items before."""
    if not model.has_code_vectors:
        raise InputError(
            f"{model.name} numbers items one after another, so they can't be encoded apart: index them "
            "without --ray"
        )


def chunk_job(
    collection: Collection, model: Model, kept: KeptEmbeddings, *, strict: bool = False
) -> ChunkJob:
    """What the chunks of a collection have in common. Raises InputError for a model that can't do this."""
    check_chunkable(model)
    sent = copy.copy(collection)
    sent.failure_listener, sent.failures = None, Failures()  # who listens to it stays here
    return ChunkJob(sent, model.fingerprint, segment_format(model, kept), strict)


def cut_source(collection: Collection, chunk_items: int) -> list[Chunk]:
    """The chunks of a collection. Raises InputError if it holds nothing."""
    if chunk_items < 1:
        raise InputError(f"a chunk has at least one item, not {chunk_items:,}")
    with bar("reading") as shown:
        chunks = []
        for chunk in cut(collection, chunk_items):
            chunks.append(chunk)
            shown.advance(chunk.items)
    if not chunks:
        raise InputError("holds no item", path=collection.path)
    return chunks


def run_build(
    job: ChunkJob,
    chunks: Sequence[Chunk],
    workers: Workers,
    out: Path,
    *,
    scratch: Path | None = None,
    on_failure: Report | None = None,
) -> Added:
    """Encode chunks and commit them to the index at `out`, from where it was left.

    `scratch` is where encoded chunks wait for those before them: a folder that all workers write to, by
    default in the index.
    """
    report = Added(failures=Failures(listener=on_failure))
    with open_build(out, job.collection, strict=job.strict) as build:
        left = left_to_do(build, chunks)
        if not left.start:
            shared_errors(job.collection, report.failures.add)
        report.known = len(build)
        place = (scratch or build.path) / CHUNKS
        place.mkdir(parents=True, exist_ok=True)
        _Run(build, job, chunks, workers, place, report).work(left)
        shutil.rmtree(place, ignore_errors=True)
    return report


class _Run:
    """Gives chunks to workers and commits them: in order, and never far ahead of what is committed."""

    def __init__(
        self,
        build: IndexBuild,
        job: ChunkJob,
        chunks: Sequence[Chunk],
        workers: Workers,
        scratch: Path,
        report: Added,
    ) -> None:
        self._build, self._job, self._chunks, self._workers = build, job, chunks, workers
        self._scratch, self._report = scratch, report

    def work(self, left: range) -> None:
        """Encode and commit these chunks."""
        encoded: set[int] = set()
        next_start, window = left.start, (1 + AHEAD) * self._workers.size
        total = sum(self._chunks[number].items for number in left)
        with bar("indexing", total=total) as shown:
            for number in left:
                while number not in encoded:
                    while next_start < min(number + window, left.stop):
                        if self._is_encoded(next_start):  # by a run that was killed
                            encoded.add(next_start)
                            shown.advance(self._chunks[next_start].items)
                        else:
                            self._workers.start(self._assignment(next_start))
                        next_start += 1
                    if number not in encoded:
                        self._take(encoded, shown.advance)
                encoded.remove(number)
                self._build.commit(self._chunks[number], self._place(number), self._report)

    def _take(self, encoded: set[int], advance: Callable[[float], None]) -> None:
        before = self._workers.items()
        finished = self._workers.wait()
        if finished is not None:
            encoded.add(finished)
        advance(self._workers.items() - before)

    def _place(self, number: int) -> Path:
        return chunk_folder(self._scratch, number, self._chunks[number])

    def _assignment(self, number: int) -> Assignment:
        return Assignment(number, self._chunks[number], self._place(number))

    def _is_encoded(self, number: int) -> bool:
        place = self._place(number)
        if not is_encoded(place, self._job, self._chunks[number]):
            return False
        try:
            storage.open(place, verify=True)
        except DamagedError:
            return False  # it is encoded again
        return True
