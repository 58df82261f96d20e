"""`genius add`, `genius remove`, `genius compact`: changes to an existing index."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from genius.cli.index import add_all, collect

_Index = Annotated[Path, typer.Argument(help="The index to change.")]
_Model = Annotated[Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(epilog="Example: genius add index/ new-photos/")(add)
    app.command(epilog="Example: genius remove index/ a.jpg b.jpg; or: genius remove index/ --from gone.txt")(
        remove
    )
    app.command(epilog="Example: genius compact index/")(compact)


def add(
    index: _Index,
    source: Annotated[
        Path, typer.Argument(help="A collection: folder, JSONL, CSV, Parquet, tar, M-BEIR tree.")
    ],
    workers: Annotated[int, typer.Option(help="The number of processes; 0 is one per core.")] = 1,
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
    model: _Model = None,
) -> None:
    """Add the items of SOURCE to INDEX; one whose id exists replaces the item that has it.

    Searches find them at once, also those of a running service.
    """
    from genius.index.index import Index

    counted = collect(source, root, strict, vectors)
    with Index.open(index, model) as target:
        add_all(target, index, *counted, strict=strict, workers=workers)


def remove(
    index: _Index,
    ids: Annotated[list[str] | None, typer.Argument(help="The ids of the items.", show_default=False)] = None,
    listed: Annotated[
        str | None, typer.Option("--from", help="A file with an id on each line; - is standard input.")
    ] = None,
    model: _Model = None,
) -> None:
    """Remove items from INDEX, all of them atomically."""
    from genius.errors import InputError
    from genius.index.index import Index

    wanted = list(dict.fromkeys([*(ids or []), *(_lines(listed) if listed else ())]))
    if not wanted:
        raise InputError("no ids: name some, or a file of them with --from")
    with Index.open(index, model) as target:
        removed = target.remove(wanted)
        typer.echo(f"{index}: {removed:,} removed, {len(target):,} items left")
    if removed < len(wanted):
        typer.secho(f"{len(wanted) - removed:,} ids are not in the index", fg="yellow", err=True)


def compact(index: _Index, model: _Model = None) -> None:
    """Merge all segments of INDEX and purge removed items, which makes searches faster."""
    from genius.index.index import Index

    with Index.open(index, model) as target:
        done = target.compact()
        typer.echo(
            f"{index}: {len(target):,} items; {done.before:,} segments before, {done.after:,} now; "
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
