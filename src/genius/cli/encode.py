"""`genius encode`: compute the features of a collection, through the feature cache."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genius.cli.examples import examples


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("genius encode photos/ -o features/"))(encode)


def encode(
    source: Annotated[
        Path, typer.Argument(help="A collection: folder, JSONL, CSV, Parquet, tar, M-BEIR tree.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write the features to.")],
    clip: Annotated[
        str,
        typer.Option(
            help="Use this CLIP or SigLIP (a folder or a hub name) instead of the embedded encoder."
        ),
    ] = "",
    workers: Annotated[int, typer.Option(help="Number of processes; 0 means one per core.")] = 0,
    root: Annotated[
        Path | None, typer.Option(help="Folder of a table's images, if not the table's own.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first item that can't be read.")] = False,
) -> None:
    """Compute features of the images and texts of SOURCE; what was encoded before comes from the cache."""
    from genius.cli.source import show_failures
    from genius.data.collection import Failures
    from genius.data.mbeir import Tree
    from genius.data.read import read
    from genius.encode.encoder import encoder_loader
    from genius.encode.inputs import EncoderInputs
    from genius.encode.pipeline import default_cache
    from genius.encode.pipeline import encode as encode_inputs
    from genius.progress import log_to_terminal, track
    from genius.runtime import cores

    log_to_terminal()
    collection = read(source, root=root, strict=strict)
    inputs = EncoderInputs()
    if isinstance(collection, Tree):
        inputs.add_tree(collection)
    else:
        inputs.add_items(track(collection, "reading"))
    loader, _ = encoder_loader("clip" if clip else "lite", clip)
    report = encode_inputs(inputs, loader, out, cache=default_cache(), workers=workers or cores())
    if strict and report.failures:
        raise report.failures[0]
    typer.echo(
        f"{out}: {len(inputs.images):,} images and {len(inputs.texts):,} texts; "
        f"{report.encoded:,} encoded now, {report.known:,} from the cache"
    )
    show_failures((collection.failures, Failures(len(report.failures), report.failures)))
