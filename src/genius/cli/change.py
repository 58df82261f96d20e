"""`genius add`, `genius update`, `genius remove`, `genius compact`: changes to an existing index."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from genius.cli.examples import examples
from genius.cli.index import Replace, add_all, count_items, refuse_vectors
from genius.cli.source import (
    SHOWN,
    Exif,
    FailureFile,
    IdColumn,
    ImageColumn,
    ReadOptions,
    Root,
    Strict,
    TextColumn,
    VectorsFile,
    failure_file,
    show_failures,
)
from genius.display import numbered

_Index = Annotated[Path, typer.Argument(help="The index to change.")]
_Model = Annotated[Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(epilog=examples("genius add index/ new-photos/", "genius add index/ photo.jpg"))(add)
    app.command(epilog=examples("genius update index/ prices.csv"))(update)
    app.command(epilog=examples("genius remove index/ a.jpg b.jpg", "genius remove index/ --from gone.txt"))(
        remove
    )
    app.command(epilog=examples("genius compact index/"))(compact)


def add(
    index: _Index,
    sources: Annotated[
        list[Path],
        typer.Argument(
            help="Collections (folder, JSONL, CSV, Parquet, tar, M-BEIR tree) or single images and texts.",
            show_default=False,
        ),
    ],
    workers: Annotated[int, typer.Option(help="The number of processes; 0 is one per core.")] = 1,
    root: Root = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    image_column: ImageColumn = None,
    exif: Exif = True,
    strict: Strict = False,
    replace: Replace = False,
    failures: FailureFile = None,
    vectors: VectorsFile = None,
    model: _Model = None,
) -> None:
    """Add the items of SOURCES to INDEX; a source that was added before goes on, with what changed in it.

    Searches find them at once, also those of a running service.
    """
    from genius.index.index import Index

    options = ReadOptions(root, strict, id_column, text_column, image_column, exif, vectors)
    counted = count_items(options.read_all(sources))
    with Index.open(index, model) as target:
        refuse_vectors(target.model, vectors)
        add_all(target, index, counted, strict=strict, workers=workers, replace=replace, failures=failures)


def update(
    index: _Index,
    table: Annotated[
        Path, typer.Argument(help="A CSV, JSONL or Parquet file with a column of ids, and what is new.")
    ],
    root: Root = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    image_column: ImageColumn = None,
    strict: Strict = False,
    failures: FailureFile = None,
    model: _Model = None,
) -> None:
    """Change items of INDEX by the rows of TABLE: its columns are new metadata, other metadata stays.

    Empty cells change nothing. Columns that are recognised as text or image change these, too.
    """
    from genius.index.index import Index

    rows = ReadOptions(root, strict, id_column, text_column, image_column).read_table(table)
    with Index.open(index, model) as target, failure_file(failures) as listener:
        rows.failure_listener = listener
        report = target.update(rows.changes(), strict=strict, on_failure=listener)
        typer.echo(f"{index}: {numbered(report.replaced, 'item')} changed, {report.known:,} unchanged")
    failed = show_failures(
        (rows.failures, report.failures), "could not be changed", has_option=True, listed_in=failures
    )
    if failed > report.replaced + report.known:
        raise typer.Exit(1)


def remove(
    index: _Index,
    ids: Annotated[list[str] | None, typer.Argument(help="The ids of the items.", show_default=False)] = None,
    listed: Annotated[
        str | None, typer.Option("--from", help="A file with an id on each line; - is standard input.")
    ] = None,
    model: _Model = None,
) -> None:
    """Remove items from INDEX, all of them atomically; the exit code is 1 if INDEX lacks one of them."""
    from genius.errors import InputError
    from genius.index.index import Index

    wanted = list(dict.fromkeys([*(ids or []), *(_lines(listed) if listed else ())]))
    if not wanted:
        raise InputError("no ids: name some, or a file of them with --from")
    with Index.open(index, model) as target:
        unknown = [id for id in wanted if id not in target]
        removed = target.remove(wanted)
        typer.echo(f"{index}: {removed:,} removed, {numbered(len(target), 'item')} left")
    if unknown:
        named = ", ".join(map(repr, unknown[:SHOWN])) + (" …" if len(unknown) > SHOWN else "")
        typer.secho(f"{len(unknown):,} not in the index: {named}", fg="yellow", err=True)
        raise typer.Exit(1)


def compact(index: _Index, model: _Model = None) -> None:
    """Merge all segments of INDEX and purge removed items, which makes searches faster."""
    from genius.index.index import Index

    with Index.open(index, model) as target:
        done = target.compact()
        typer.echo(
            f"{index}: {numbered(len(target), 'item')}; {done.before:,} segments before, {done.after:,} now; "
            f"{done.dropped:,} removed items purged"
        )


def _lines(name: str) -> Iterator[str]:
    from genius.errors import InputError

    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
        # Not splitlines: an id may hold one of the other characters that Unicode calls line breaks.
        yield from (id for line in content.decode().split("\n") if (id := line.removesuffix("\r")))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", path=name) from error
    except UnicodeDecodeError:
        raise InputError("is no text in UTF-8: it should hold an id on each line", path=name) from None
