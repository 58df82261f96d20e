"""`genius outliers`: the odd ones out of an index."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from genius.cli.collection import AsJson, IndexPath, ModelPath, Sheet, check_free, print_json, write_sheet
from genius.cli.examples import examples
from genius.cli.source import show_notes
from genius.display import Table, shortened


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples("genius outliers photos-index/ -n 20", "genius outliers shop-index/ --sheet odd.png")
    )(outliers)


def outliers(
    index: IndexPath,
    n: Annotated[int, typer.Option("-n", help="The number of items, at most.")] = 50,
    sheet: Sheet = None,
    as_json: AsJson = False,
    model: ModelPath = None,
) -> None:
    """List the odd ones out of INDEX, each with the reason.

    Odd are items far from all others, texts that don't fit their image, and images that can't be read or show
    nothing.
    """
    from genius.collection.outliers import outliers_to_dict
    from genius.collection.sheets import outliers_sheet
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    check_free(sheet)
    with Index.open(index, model) as opened:
        odd = opened.outliers(n)
        show_notes(odd.notes)
        if as_json:
            print_json(outliers_to_dict(odd, local=True))
        elif not sys.stdout.isatty():
            for outlier in odd:
                typer.echo(f"{outlier.score:.3f}\t{outlier.reason}\t{outlier.item.id}\t{outlier.says}")
        elif len(odd):
            table = Table(("item", "score", "why"), elastic=2)
            for outlier in odd:
                table.add(shortened(outlier.item.id, 40), f"{outlier.score:.2f}", outlier.says)
            table.print()
        else:
            typer.echo("nothing looks odd")
        if sheet is not None and len(odd):
            write_sheet(outliers_sheet(odd), sheet)
