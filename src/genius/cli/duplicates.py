"""`genius duplicates`: what an index holds twice."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, cast

import typer

from genius.cli.collection import AsJson, IndexPath, ModelPath, Sheet, check_free, print_json, write_sheet
from genius.cli.examples import examples
from genius.cli.source import show_notes
from genius.display import Table, numbered, shortened

if TYPE_CHECKING:
    from genius.collection.duplicates import Duplicates, Level

LARGE, LARGE_SHARE = 20, 0.1
"""A group of so many items, and this share of all, is no group of duplicates."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius duplicates photos-index/ --sheet twice.png",
            "genius duplicates photos-index/ --similarity 0.97",
            "genius duplicates photos-index/ --remove",
        )
    )(duplicates)


def duplicates(
    index: IndexPath,
    level: Annotated[
        str | None,
        typer.Option(
            help="exact: equal contents. same (the default): the same image in another size, format or "
            "brightness, or with a small crop. near: similar by embeddings."
        ),
    ] = None,
    similarity: Annotated[
        float | None, typer.Option(help="The least cosine of near duplicates, from 0 to 1; 0.95 by default.")
    ] = None,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Remove all but one item of each group from the index; files stay. Kept is the largest "
            "image, of equal ones the oldest.",
        ),
    ] = False,
    sheet: Sheet = None,
    as_json: AsJson = False,
    model: ModelPath = None,
) -> None:
    """Find what INDEX holds twice: groups of duplicates, each with the item that is worth keeping.

    Nothing is changed unless you say --remove.
    """
    from genius.collection.duplicates import duplicates_to_dict
    from genius.collection.sheets import duplicates_sheet
    from genius.index.index import Index
    from genius.index.near_misses import EMPTY
    from genius.progress import log_to_terminal

    log_to_terminal()
    check_free(sheet)
    with Index.open(index, model) as opened:
        show_notes([] if len(opened) else [EMPTY])
        groups = opened.duplicates(cast("Level | None", level), similarity=similarity)
        if as_json:
            print_json(duplicates_to_dict(groups, local=True))
        else:
            _print_groups(groups)
        show_notes(_too_large(groups, len(opened)))
        if sheet is not None and len(groups):
            write_sheet(duplicates_sheet(groups), sheet)
        if remove:
            removed = opened.remove(groups.keep().remove)
            left = numbered(len(opened), "item")
            typer.echo(f"{index}: {removed:,} removed, {left} left; files stay", err=True)


def _too_large(groups: Duplicates, items: int) -> list[str]:
    """A note if so many items hang together that they can't all be duplicates."""
    largest = max((len(group.items) for group in groups.groups), default=0)
    if largest < max(LARGE, LARGE_SHARE * items):
        return []
    return [
        f"one group has {largest:,} of {items:,} items, as each is like some other of them: ask for a higher "
        "--similarity"
    ]


def _print_groups(groups: Duplicates) -> None:
    """A table on a terminal; else a line an item: group, keep or not, level, similarity, id."""
    ordered = [(group, groups.by_worth(group)) for group in groups.groups]
    if not sys.stdout.isatty():
        for number, (group, items) in enumerate(ordered, 1):
            for place, item in enumerate(items):
                kept = "" if place else "keep"
                typer.echo(f"{number}\t{kept}\t{group.level}\t{group.similarity:.4f}\t{item.id}")
        return
    if ordered:
        table = Table(("group", "keep", "duplicates", "level", "similarity"), optional=2, elastic=2)
        for number, (group, items) in enumerate(ordered, 1):
            others = ", ".join(item.id for item in items[1:])
            table.add(number, items[0].id, shortened(others, 80), group.level, f"{group.similarity:.3f}")
        table.print()
    count = sum(len(items) - 1 for _, items in ordered)
    total = f"{numbered(len(ordered), 'group')}; {numbered(count, 'item')} could go"
    typer.echo(total if ordered else "no duplicates")
