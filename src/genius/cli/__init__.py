"""The `genius` command: thin, it parses, calls and prints. One file per command."""

from __future__ import annotations

import sys

import typer

from genius import __version__
from genius.cli import bench, change, demo, doctor, encode, evaluate, fetch, index, search, serve, show, train
from genius.errors import GeniusError

app = typer.Typer(
    name="genius",
    help="One search over pictures, texts and both together, by generating identifiers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Every command has an example: genius COMMAND --help. --debug shows where an error comes from.",
)
for command in (show, fetch, encode, train, doctor, index, change, search, serve, evaluate, bench, demo):
    command.register(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"genius {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(
        False, "--version", callback=_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options that stand before the command."""


def main() -> None:
    """Run the command line; an error is one sentence on standard error and an exit code.

    2 for the user's input, 1 for anything else, 130 for Ctrl-C; --debug, anywhere, shows the traceback.
    """
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments, prog_name="genius")  # exits by itself, with 130 after Ctrl-C
    except GeniusError as error:
        if debug:
            raise
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(error.exit_code)
