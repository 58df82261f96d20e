"""`genius merge`, `genius copy` and `genius split`: indexes of others, whole and in part."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, cast

import typer

from genius.cli.collection import IndexPath, ModelPath, Where, check_free
from genius.cli.examples import examples
from genius.cli.source import SHOWN, show_notes
from genius.display import numbered

_Out = Annotated[Path, typer.Option("--out", "-o", help="The new index; nothing may stand there.")]


def register(app: typer.Typer) -> None:
    """Add the commands to the program."""
    app.command(
        epilog=examples(
            "genius merge photos-2023/ photos-2024/ -o photos/",
            "genius merge old/ new/ -o all/ --prefer newer",
        )
    )(merge)
    app.command(epilog=examples("genius copy index/ /mnt/replica/index/"))(copy)
    app.command(
        epilog=examples(
            "genius split shop/ --where brand=acme -o acme/",
            "genius split photos/ --where 'taken<2020' -o old/ --rest new/",
        )
    )(split)


def merge(
    indexes: Annotated[
        list[Path],
        typer.Argument(help="Two indexes or more, of one model; or one that has shards.", show_default=False),
    ],
    out: _Out,
    prefer: Annotated[
        str,
        typer.Option(
            help="Of items with one id: newer takes the one that was added last, first that of the index "
            "named first, error stops."
        ),
    ] = "error",
    model: ModelPath = None,
) -> None:
    """Make one index of INDEXES, which stay as they are; nothing is encoded again."""
    from genius.index.index import Index
    from genius.index.merge import Preference
    from genius.index.merge import merge as merge_indexes
    from genius.progress import log_to_terminal

    log_to_terminal()
    with Index.open(indexes[0], model) as first:
        used = first.model
    report = merge_indexes(indexes, out, prefer=cast(Preference, prefer))
    shares = ", ".join(f"{count:,} of {path}" for path, count in zip(indexes, report.from_each, strict=True))
    typer.echo(f"{out}: {numbered(report.items, 'item')}; {shares}")
    if report.collisions:
        named = ", ".join(map(repr, report.collisions[:SHOWN])) + (" …" * (len(report.collisions) > SHOWN))
        chosen = "the newer item" if prefer == "newer" else "the item of the first index"
        count = numbered(len(report.collisions), "id")
        show_notes([f"in more than one index: {count}, {named}; {chosen} of each was taken"])
    with Index.open(out, used) as made:
        made.calibrate()  # so that no search waits for it


def copy(
    index: IndexPath,
    target: Annotated[
        Path, typer.Argument(help="A new folder, or the copy that was made there before.", show_default=False)
    ],
) -> None:
    """Copy INDEX to TARGET while it is searched and changed; once more, only what is new is copied.

    Those who read the copy, such as genius serve --read-only, see the new version with their next search.
    """
    from genius.index.copy import copy as copy_index
    from genius.progress import log_to_terminal

    log_to_terminal()
    report = copy_index(index, target)
    typer.echo(
        f"{target}: {numbered(report.items, 'item')}, version {report.version}; {report.copied} segments "
        f"copied now, {report.kept} were there"
    )


def split(
    index: IndexPath,
    where: Where,
    out: _Out,
    rest: Annotated[
        Path | None, typer.Option(help="Another new index, of the items that do not fulfil the filter.")
    ] = None,
    model: ModelPath = None,
) -> None:
    """Make an index of the items of INDEX that fulfil a filter; INDEX stays as it is, and nothing is encoded
    again."""
    from genius.errors import InputError
    from genius.index.filters import filter_of
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    check_free(out, rest)
    filter = filter_of(where or ())
    if filter is None:
        raise InputError("which items? Name them by their metadata, as in --where brand=acme")
    with Index.open(index, model) as opened:
        report = opened.split(filter, out, rest=rest)
        used = opened.model
    typer.echo(f"{out}: {numbered(report.items, 'item')}")
    if rest is not None:
        typer.echo(f"{rest}: {numbered(report.rest, 'item')}")
    for path in (out, rest):
        if path is not None:
            with Index.open(path, used) as made:
                made.calibrate()  # so that no search waits for it
