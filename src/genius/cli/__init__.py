"""The `genius` command. Each file holds one command, which parses its options, calls the library and prints.

`main` is the entry point, `app` the Typer application. Nothing heavy is imported before a command runs, so
that `--help` is quick; a command may import everything.
"""

from __future__ import annotations

import sys

import typer

from genius import __version__
from genius.cli import (
    albums,
    bench,
    change,
    demo,
    doctor,
    drift,
    duplicates,
    encode,
    evaluate,
    export,
    fetch,
    fit,
    import_model,
    index,
    listing,
    merge,
    outliers,
    plan,
    recode,
    sample,
    search,
    serve,
    show,
    sync,
    train,
)
from genius.cli.examples import unwrap_help
from genius.errors import GeniusError

app = typer.Typer(
    name="genius",
    help="One search over pictures, texts and both together, by generating identifiers.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
    epilog="Every command has an example: genius COMMAND --help. --debug shows the traceback of an error.",
)
for command in (
    show,
    fetch,
    encode,
    fit,
    import_model,
    train,
    doctor,
    index,
    change,
    sync,
    search,
    listing,
    albums,
    duplicates,
    outliers,
    sample,
    merge,
    export,
    recode,
    drift,
    serve,
    evaluate,
    bench,
    plan,
    demo,
):
    command.register(app)
unwrap_help(app)


STOPPED = 130
"""The exit code after Ctrl-C."""
RESUMABLE = ("index", "add", "sync", "encode", "train", "demo", "recode", "export")
"""Commands that go on where they were stopped, if they are run again."""


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"genius {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Show the version."
    ),
) -> None:
    """Options before the command."""


def main() -> None:
    """Run the command line; an error is one sentence on standard error and an exit code.

    The code is 2 for wrong input, 130 for Ctrl-C and 1 for anything else; --debug shows the traceback.
    """
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        app(arguments, prog_name="genius")  # exits by itself
    except SystemExit as ended:
        if ended.code == STOPPED:
            go_on = (
                "; run the same command again to go on" if arguments[:1] and arguments[0] in RESUMABLE else ""
            )
            typer.echo(f"stopped{go_on}", err=True)
        raise
    except GeniusError as error:
        if debug:
            raise
        typer.secho(f"error: {error}", fg="red", err=True)
        sys.exit(error.exit_code)
