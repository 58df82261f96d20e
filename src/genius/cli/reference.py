"""Writes docs/cli.md from the commands' own --help: `python -m genius.cli.reference docs/cli.md`."""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from typer.testing import CliRunner

from genius.cli import app

_HEAD = """# The command line

Made from `--help` by `make docs`; a test keeps it true.
"""


def reference() -> str:
    """The page: the program's help, then each command's."""
    parts = [_HEAD, _section("genius", [])]
    parts += [_section(f"genius {name}", [name]) for name in _names(app)]
    for group in app.registered_groups:
        assert group.name is not None and group.typer_instance is not None
        for name in _names(group.typer_instance):
            parts.append(_section(f"genius {group.name} {name}", [group.name, name]))
    return "\n".join(parts)


def _names(commands: typer.Typer) -> list[str]:
    return [one.name or str(getattr(one.callback, "__name__", "")) for one in commands.registered_commands]


def _section(title: str, arguments: list[str]) -> str:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "TERMINAL_WIDTH": "100"})
    shown = runner.invoke(app, [*arguments, "--help"], prog_name="genius", color=False)
    text = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
    return f"## `{title}`\n\n```\n{text}\n```\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
