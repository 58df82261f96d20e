"""The help of a command as people read it: paragraphs without line breaks, and examples, one a line."""

from __future__ import annotations

import inspect
from collections.abc import Iterable

import typer


def examples(*commands: str) -> str:
    """The end of a command's help: commands that one may type."""
    return f"Example: {commands[0]}" if len(commands) == 1 else "\n".join(["Examples:", *commands])


def unwrap_help(program: typer.Typer) -> None:
    """Let the terminal break the lines of each command's description, instead of the source file."""
    groups: Iterable[typer.Typer] = filter(
        None, (group.typer_instance for group in program.registered_groups)
    )
    for commands in (program, *groups):
        for command in commands.registered_commands:
            paragraphs = (inspect.getdoc(command.callback) or "").split("\n\n")
            command.help = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
