"""`genius index --ray`: an index built by workers on a Ray cluster."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from genius.cluster.build import CHUNK_ITEMS, WorkerSettings, chunk_job, cut_source, run_build
from genius.cluster.connection import AUTO, connected, lay_out, node_resources
from genius.cluster.ray_workers import RayWorkers
from genius.data.collection import Collection, Report
from genius.errors import InputError
from genius.index.index import Index
from genius.index.ingest import Added
from genius.index.segments import KeptEmbeddings
from genius.index.snapshot import is_index
from genius.model import Model


@dataclass(frozen=True)
class ClusterOptions:
    """How an index is built on a cluster.

    Attributes:
        address: `host:port`, or `auto`.
        workers: how many; by default one per core, or per GPU.
        gpus_per_worker: GPUs that each has; with any, the model's towers run there.
        chunk_items: about how many items a chunk has.
        scratch: a folder that all machines write to, where encoded chunks wait; by default in the index.
        cache: the folder of cached features; by default the user's, on each machine.
    """

    address: str = AUTO
    workers: int = 0
    gpus_per_worker: float = 0.0
    chunk_items: int = CHUNK_ITEMS
    scratch: Path | None = None
    cache: Path | None = None


def index_on_cluster(
    collection: Collection,
    model: Model,
    out: Path,
    options: ClusterOptions,
    *,
    embeddings: KeptEmbeddings | None = None,
    strict: bool = False,
    on_failure: Report | None = None,
    offline: bool = False,
) -> Added:
    """Build the index at `out`, or go on with it. What is committed stays when this is stopped.

    The source, the model and the index (or `scratch`) are at the same places on all machines.
    """
    with connected(options.address) as ray:
        layout = lay_out(node_resources(ray), options.workers, options.gpus_per_worker)
        kept = _prepared(out, model, embeddings, offline)
        job = chunk_job(collection, model, kept, strict=strict)
        settings = WorkerSettings(
            job,
            model.name,
            cache=options.cache,
            threads=layout.cores,
            device="cuda" if layout.gpus else None,
        )
        chunks = cut_source(collection, options.chunk_items)
        with RayWorkers(ray, settings, layout) as workers:
            scratch = None if options.scratch is None else options.scratch.absolute()
            return run_build(job, chunks, workers, out.absolute(), scratch=scratch, on_failure=on_failure)


def _prepared(out: Path, model: Model, embeddings: KeptEmbeddings | None, offline: bool) -> KeptEmbeddings:
    """Make the index, if there is none; what it keeps of embeddings."""
    if not is_index(out):
        Index.create(out, model, embeddings=embeddings or "int8", offline=offline).close()
    with Index.open(out, model) as index:
        kept: KeptEmbeddings = index.format.embeddings
    if embeddings and kept != embeddings:
        raise InputError(f"this index keeps {kept}: make another one", path=out)
    return kept
