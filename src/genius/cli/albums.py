"""`genius albums`: an index in groups of what belongs together."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genius.cli.collection import AsJson, IndexPath, ModelPath, Sheet, check_free, print_json, write_sheet
from genius.cli.examples import examples
from genius.display import Table

if TYPE_CHECKING:
    from genius.collection.albums import Albums


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius albums photos-index/ -n 30 --sheet albums.png",
            "genius albums photos-index/ --links albums/",
            "genius albums photos-index/ --json > albums.json",
        )
    )(albums)


def albums(
    index: IndexPath,
    n: Annotated[int, typer.Option("-n", help="The number of albums.")] = 30,
    like: Annotated[
        Path | None,
        typer.Option(help="Earlier albums, as --json printed them: the new ones change no more than needed."),
    ] = None,
    links: Annotated[
        Path | None, typer.Option(help="Make this folder, with a folder of links to image files per album.")
    ] = None,
    sheet: Sheet = None,
    as_json: AsJson = False,
    model: ModelPath = None,
) -> None:
    """Put the items of INDEX into albums of what belongs together, each with a name and albums within."""
    from genius.collection.album_folder import write_album_folders
    from genius.collection.albums import albums_to_dict
    from genius.collection.sheets import albums_sheet
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    check_free(sheet, links)
    with Index.open(index, model) as opened:
        made = opened.albums(n, like=None if like is None else _read_albums(like))
        for note in made.notes:
            typer.secho(f"note: {note}", fg="yellow", err=True)
        if as_json:
            print_json(albums_to_dict(made, local=True))
        else:
            _print_albums(made)
        if sheet is not None and len(made):
            write_sheet(albums_sheet(made), sheet)
        if links is not None:
            paths = {item.id: path for item in opened if (path := item.image_path) is not None}
            count = write_album_folders(made, paths, links)
            typer.echo(f"{links}: {count:,} links", err=True)


def _read_albums(path: Path) -> list[list[str]]:
    import orjson

    from genius.collection.albums import ids_of_albums
    from genius.errors import InputError

    try:
        return ids_of_albums(orjson.loads(path.read_bytes()))
    except OSError as error:
        raise InputError(f"cannot read: {error.strerror or error}", path=path) from error
    except orjson.JSONDecodeError:
        raise InputError("is no JSON: give what genius albums --json printed", path=path) from None


def _print_albums(made: Albums) -> None:
    """A table on a terminal; else a line an album: size, coherence, label, id of its central item."""
    if not sys.stdout.isatty():
        for album in made:
            typer.echo(f"{len(album)}\t{album.coherence:.3f}\t{album.label}\t{album.id}")
        return
    table = Table(("album", "items", "coherence", "albums within"), elastic=3)
    for number, album in enumerate(made, 1):
        within = ", ".join(inner.label for inner in album.albums if inner.label)
        table.add(album.label or f"Album {number}", len(album), f"{album.coherence:.2f}", within)
    if len(made):
        table.print()
