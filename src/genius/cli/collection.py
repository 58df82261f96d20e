"""What the commands on a collection as a whole share: options, and how they print and write results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from PIL import Image

IndexPath = Annotated[Path, typer.Argument(help="The index.")]
ModelPath = Annotated[Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        "--filter",
        help="Only items with such metadata: 'brand=acme', 'price<50', 'colour in red,blue'; repeatable.",
        show_default=False,
    ),
]
Sheet = Annotated[Path | None, typer.Option(help="Write the images with captions to this PNG file.")]


def check_free(*paths: Path | None) -> None:
    """Raise InputError if something is to be written to a place where something stands."""
    from genius.errors import InputError

    for path in paths:
        if path is not None and path.exists():
            raise InputError("exists already: choose another name, or remove it first", path=path)


def print_json(fields: Any) -> None:
    """Print one JSON object."""
    import orjson

    typer.echo(orjson.dumps(fields).decode())


def write_sheet(sheet: Image.Image, path: Path) -> None:
    """Write a contact sheet, and say so."""
    from genius.data.contact_sheet import save

    save(sheet, path)
    typer.echo(path, err=True)
