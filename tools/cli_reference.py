"""Writes docs/cli.md from the commands' own --help: `python tools/cli_reference.py docs/cli.md`."""

from __future__ import annotations

import sys
from pathlib import Path

import typer
from typer.testing import CliRunner

from genius.cli import app

_INTRODUCTION = """# The command line

Generated from `--help` by `make docs`; a test compares the two.

| exit code | meaning |
|---|---|
| 0 | done; of several items, at least as many could be read as not |
| 1 | not done, or in part: most items could not be read, an id is unknown, a file is damaged or missing |
| 2 | wrong input: an option, a path, a source without readable items; with `--strict` any unreadable item |
| 130 | stopped by Ctrl-C; what was committed stays |

Errors are one sentence on standard error; `--debug` shows their traceback. What could not be read is counted,
the first five are shown, and `--failures FILE` writes all of them to a file.
"""


def command_page() -> str:
    """The page: the program's help, then the help of each command."""
    sections = [_INTRODUCTION, _section("genius", [])]
    sections += [_section(f"genius {name}", [name]) for name in _command_names(app)]
    for group in app.registered_groups:
        assert group.name is not None and group.typer_instance is not None
        for name in _command_names(group.typer_instance):
            sections.append(_section(f"genius {group.name} {name}", [group.name, name]))
    return "\n".join(sections)


def _command_names(commands: typer.Typer) -> list[str]:
    return [
        command.name or str(getattr(command.callback, "__name__", ""))
        for command in commands.registered_commands
    ]


def _section(title: str, arguments: list[str]) -> str:
    runner = CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1", "TERM": "dumb", "TERMINAL_WIDTH": "100"})
    shown = runner.invoke(app, [*arguments, "--help"], prog_name="genius", color=False)
    text = "\n".join(line.rstrip() for line in shown.output.strip().splitlines())
    return f"## `{title}`\n\n```\n{text}\n```\n"


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(command_page(), encoding="utf-8")
