"""`genius demo`: everything this program does, on real demo data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius demo --out demo/")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Where to put what the demo makes.")] = Path("out/demo"),
) -> None:
    """Fetch the demo data (emoji of three vendors, by package name with npm) and show it."""
    from genius.cli.show import show
    from genius.data.demo import demo_tree
    from genius.progress import log_to_terminal

    log_to_terminal(verbose=True)
    tree = demo_tree()
    show(tree, sheet=out / "emoji.png")
