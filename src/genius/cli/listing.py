"""`genius list`: the items of an index."""

from __future__ import annotations

from typing import Annotated

import typer

from genius.cli.collection import IndexPath, ModelPath, Where
from genius.cli.examples import examples
from genius.cli.source import show_notes
from genius.display import shortened

WIDTH = 80
"""How much is shown of a text."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        name="list",
        epilog=examples(
            "genius list photos-index/ --where 'taken<2010'",
            "genius list shop-index/ --where stock=0 --ids | genius remove shop-index/ --from -",
        ),
    )(list_items)


def list_items(
    index: IndexPath,
    where: Where = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print the ids alone, one a line.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a JSON object per item, one a line.")
    ] = False,
    model: ModelPath = None,
) -> None:
    """List the items of INDEX in the order in which they were added: id, modality, text or image."""
    import orjson

    from genius.errors import InputError
    from genius.index.filters import filter_of
    from genius.index.hits import item_to_dict
    from genius.index.index import Index

    if ids and as_json:
        raise InputError("--ids and --json exclude each other: give one of them")
    filter = filter_of(where or ())
    unlisted, empty = 0, True
    with Index.open(index, model) as opened:
        for item in opened.items(filter):
            if as_json:
                typer.echo(orjson.dumps(item_to_dict(item, local=True)).decode())
            elif not ids:
                name = "" if item.image is None else item.image.name
                id = item.id.replace("\n", " ").replace("\t", " ")
                typer.echo(f"{id}\t{item.modality.value}\t{shortened(item.text or name, WIDTH)}")
            elif "\n" in item.id or item.id.endswith("\r"):
                unlisted += 1
            else:
                typer.echo(item.id)
            empty = False
        if empty:
            show_notes(opened.browse(filter=filter, k=1).notes)
    if unlisted:
        show_notes([f"{unlisted:,} ids have line breaks and are left out; --json has them"])
