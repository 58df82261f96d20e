"""`genius drift`: how newer items differ from older ones, and whether codes still fit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genius.cli.collection import AsJson, ModelPath, Sheet, check_free, print_json, write_sheet
from genius.cli.examples import examples
from genius.cli.source import show_notes
from genius.display import Table, shortened

if TYPE_CHECKING:
    from genius.collection.drift import Drift


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius drift last-year-index/ this-year-index/ --sheet drift.png",
            "genius drift shop-index/ --since 2026-03-01",
            "genius drift photos/ --since 2025-01-01 --by taken",
        )
    )(drift)


def drift(
    old: Annotated[Path, typer.Argument(help="The index, or the older one of two.")],
    new: Annotated[Path | None, typer.Argument(help="The newer index, of the same model.")] = None,
    since: Annotated[
        str | None,
        typer.Option(
            help="Compare the items since this date (2026-03-01) with those before it, in one index."
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="The metadata key that has an item's date, such as taken; else when it was added."),
    ] = None,
    sheet: Sheet = None,
    as_json: AsJson = False,
    model: ModelPath = None,
) -> None:
    """Compare NEW with OLD, or the items of OLD since a date with those before: what appeared, grew, shrank
    and emptied, and whether codes still fit.

    Of two groups that differ by chance alone, one pair in a hundred at most is called drifted.
    """
    from genius.collection.drift import drift_to_dict
    from genius.collection.sheets import drift_sheet
    from genius.errors import InputError
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    check_free(sheet)
    if new is None and since is None:
        raise InputError("compare with what? Give a second index, or a date with --since")
    if new is not None and since is not None:
        raise InputError("two indexes are compared as they are: leave out one of them, or --since")
    with Index.open(old, model) as opened:
        if new is None:
            drifted = opened.drift(since=since, by=by)
        else:
            with Index.open(new, model) as newer:
                drifted = opened.drift(newer, by=by)
        if as_json:
            print_json(drift_to_dict(drifted, local=True))
        else:
            _print_drift(drifted)
        show_notes(drifted.notes)
        if sheet is not None and drifted.cells:
            write_sheet(drift_sheet(drifted), sheet)


def _print_drift(drifted: Drift) -> None:
    """The verdict, and a table on a terminal; else a line a cell: kind, old, new, label, prefix, an item."""
    from genius.collection.drift import cell_name

    typer.echo(drifted.says)
    if not sys.stdout.isatty():
        for cell in drifted.cells:
            example = cell.items[0].id if cell.items else ""
            name = cell_name(cell.prefix)
            typer.echo(f"{cell.kind}\t{cell.old}\t{cell.new}\t{cell.label}\t{name}\t{example}")
        return
    if drifted.cells:
        columns = ("cell", "what", "old items", "new items", "for instance", "share before", "share now")
        table = Table(columns, optional=2, elastic=4)
        for cell in drifted.cells:
            table.add(
                cell.label or cell_name(cell.prefix),
                cell.kind,
                cell.old,
                cell.new,
                shortened(", ".join(item.id for item in cell.items), 40),
                f"{cell.old_share:.1%}",
                f"{cell.new_share:.1%}",
            )
        table.print()
    typer.echo(f"{drifted.old:,} old and {drifted.new:,} new items")
