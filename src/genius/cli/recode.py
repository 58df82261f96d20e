"""`genius recode`: a collection moves to another model."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any

import typer

from genius.cli.collection import IndexPath
from genius.cli.examples import examples
from genius.cli.source import FailureFile, Strict, failure_file, finish, show_failures
from genius.display import numbered


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("genius recode photos-index/ --model better-model/ -o photos-index-2/"))(
        recode
    )


def recode(
    index: IndexPath,
    model: Annotated[str, typer.Option("--model", "-m", help="The new model: a folder, or photo.")],
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The new index, or the one that was begun so, to continue.")
    ],
    embeddings: Annotated[
        str | None,
        typer.Option(help="What the new index keeps of embeddings: int8, fp16 or none; by default as INDEX."),
    ] = None,
    workers: Annotated[int, typer.Option(help="The number of processes; 0 is one per core.")] = 0,
    strict: Strict = False,
    failures: FailureFile = None,
) -> None:
    """Move the collection of INDEX to another model, into an index of its own; start it again to continue.

    INDEX stays as it is, and can be searched and changed meanwhile. Its own model is not needed, and may be
    gone. Images are read from where they are.
    """
    from genius.index.index import Index
    from genius.index.recode import recode_catalogue
    from genius.index.shard_catalogue import open_catalogue
    from genius.model import Model
    from genius.progress import log_to_terminal
    from genius.runtime import cores

    log_to_terminal()
    kept: Any = embeddings
    opened = Model.open(model)
    with closing(open_catalogue(index)) as old, failure_file(failures) as listener:
        report = recode_catalogue(
            Index, old, opened, out, kept, strict=strict, on_failure=listener, workers=workers or cores()
        )
    with Index.open(out, opened) as new:
        typer.echo(
            f"{out}: {numbered(len(new), 'item')}; {report.added:,} moved now, {report.replaced:,} replaced, "
            f"{report.known:,} moved before"
        )
        failed = show_failures((report.failures,), "could not be moved", has_option=True, listed_in=failures)
        finish(new, failed, report.added + report.replaced + report.known, "moved")
