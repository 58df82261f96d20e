"""`genius export`: an index as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from genius.cli.collection import IndexPath, ModelPath
from genius.cli.examples import examples
from genius.cli.source import FailureFile, failure_file, show_failures, show_notes
from genius.display import numbered


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius export photos-index/ backup/items.jsonl --images backup/images",
            "genius export shop-index/ shop.parquet --codes --embeddings",
        )
    )(export)


def export(
    index: IndexPath,
    out: Annotated[
        Path, typer.Argument(help="The table: a name that ends in .parquet, .jsonl or .jsonl.gz.")
    ],
    codes: Annotated[bool, typer.Option("--codes", help="With the items' codes, as genius_code.")] = False,
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="With the items' embeddings, as genius_embedding.")
    ] = False,
    images: Annotated[
        Path | None,
        typer.Option(
            help="Copy the images to this folder, below that of the table, which then needs nothing else."
        ),
    ] = None,
    failures: FailureFile = None,
    model: ModelPath = None,
) -> None:
    """Write the items of INDEX to a table: id, text, image and metadata; genius index reads it back.

    Images are named by their paths unless they are copied.
    """
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    with Index.open(index, model) as opened, failure_file(failures) as listener:
        report = opened.export(out, codes=codes, embeddings=embeddings, images=images, on_failure=listener)
        name = opened.model.name
    copied = f", {numbered(report.images, 'image')} in {images}" if images is not None else ""
    typer.echo(f"{out}: {numbered(report.items, 'item')}{copied}")
    root = ""
    if report.absolute:
        root = " --root /"
        outside = numbered(report.absolute, "image")
        show_notes([f"{outside} outside of the table's folder: named by full paths"])
    typer.echo(f"to read it back: genius index {out}{root} -m {name} -o INDEX")
    failed = show_failures((report.failures,), "could not be exported", has_option=True, listed_in=failures)
    if failed > report.items:
        raise typer.Exit(1)
