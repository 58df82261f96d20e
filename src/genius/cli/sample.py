"""`genius sample`: some items that stand for an index."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from genius.cli.collection import AsJson, IndexPath, ModelPath, Sheet, check_free, print_json, write_sheet
from genius.cli.examples import examples
from genius.cli.source import show_notes
from genius.display import numbered


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius sample photos-index/ -n 60 --sheet sample.png",
            "genius sample photos-index/ -n 200 --typical --paths > to-label.txt",
        )
    )(sample)


def sample(
    index: IndexPath,
    n: Annotated[int, typer.Option("-n", help="The number of items.")] = 200,
    spread: Annotated[
        bool, typer.Option("--spread", help="As different from each other as can be; this is the default.")
    ] = False,
    typical: Annotated[
        bool, typer.Option("--typical", help="From the middle of each part, as many as its share is.")
    ] = False,
    per_cell: Annotated[
        bool, typer.Option("--per-cell", help="From each cell of codes in turn, also from small ones.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Another seed gives another sample.")] = 0,
    paths: Annotated[
        bool, typer.Option("--paths", help="Print the full paths of image files instead of ids.")
    ] = False,
    sheet: Sheet = None,
    as_json: AsJson = False,
    model: ModelPath = None,
) -> None:
    """Choose items of INDEX that stand for all, to label, to test with, or to look at; prints their ids."""
    from genius.collection.samples import SampleKind, sample_to_dict
    from genius.collection.sheets import sample_sheet
    from genius.errors import InputError
    from genius.index.index import Index
    from genius.index.near_misses import EMPTY

    chosen = {"spread": spread, "typical": typical, "per-cell": per_cell}
    if sum(chosen.values()) > 1:
        raise InputError("--spread, --typical and --per-cell exclude each other: give one of them")
    kind = cast(SampleKind, next((name for name, wanted in chosen.items() if wanted), "spread"))
    check_free(sheet)
    with Index.open(index, model) as opened:
        items = opened.sample(n, kind, seed=seed)
        if len(items) < n:
            note = f"the index has only {numbered(len(items), 'item')}: these are all"
            show_notes([note if items else EMPTY])
        if as_json:
            print_json(sample_to_dict(items, kind, seed, local=True))
        else:
            for item in items:
                if not paths or item.image_path is not None:
                    typer.echo(item.image_path if paths else item.id)
        if sheet is not None and items:
            write_sheet(sample_sheet(items), sheet)
