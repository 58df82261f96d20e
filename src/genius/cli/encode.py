"""`genius encode`: features of a collection, cached; nothing is encoded twice."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius encode photos/ -o features/")(encode)


def encode(
    source: Annotated[
        Path, typer.Argument(help="A collection: folder, JSONL, CSV, Parquet, tar, M-BEIR tree.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to put the features.")],
    clip: Annotated[
        str,
        typer.Option(
            help="Use this CLIP or SigLIP (a folder or a hub name) instead of the embedded encoder."
        ),
    ] = "",
    workers: Annotated[int, typer.Option(help="Processes; 0 is one per core.")] = 0,
    root: Annotated[Path | None, typer.Option(help="Where a table's pictures are, if not beside it.")] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first item that can't be read.")] = False,
) -> None:
    """Encode the pictures and texts of SOURCE; what was encoded before, here or elsewhere, is taken over."""
    from genius.cli.show import show_failures
    from genius.data.mbeir import Tree
    from genius.data.read import read
    from genius.encode.contents import Contents
    from genius.encode.encoder import encoder_loader
    from genius.encode.pipeline import default_cache
    from genius.encode.pipeline import encode as encode_contents
    from genius.progress import log_to_terminal, track
    from genius.runtime import cores

    log_to_terminal()
    collection = read(source, root=root, strict=strict)
    contents = Contents()
    if isinstance(collection, Tree):
        contents.add_tree(collection)
    else:
        contents.add_items(track(collection, "reading"))
    loader, _ = encoder_loader("clip" if clip else "lite", clip)
    report = encode_contents(contents, loader, out, cache=default_cache(), workers=workers or cores())
    failures = [*collection.failures.first, *report.failures]
    if strict and failures:
        raise failures[0]
    typer.echo(
        f"{out}: {len(contents.images):,} pictures and {len(contents.texts):,} texts; "
        f"{report.encoded:,} encoded now, {report.known:,} known before"
    )
    show_failures(collection.failures.count + len(report.failures), failures)
