"""The command line, run in this process: what tests of commands share."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from genius.cli import app
from genius.errors import GeniusError


def run(*arguments: object, code: int = 0, given: str | None = None, width: int = 200) -> Result:
    """What a command prints on a terminal of this width, given an answer to what it asks.

    It must end with this exit code; an error of ours that has another one is raised, as any other error.
    """
    runner = CliRunner(env={"COLUMNS": str(width), "NO_COLOR": "1"})
    result = runner.invoke(app, [*map(str, arguments)], input=given)
    error = result.exception
    ended = error.exit_code if isinstance(error, GeniusError) else result.exit_code
    if error is not None and not isinstance(error, SystemExit) and ended != code:
        raise error
    assert ended == code, result.output
    return result


def refused(*arguments: object) -> str:
    """What the error of ours says with which a command refuses."""
    with pytest.raises(GeniusError) as caught:
        run(*arguments)
    return str(caught.value)


def answer(*arguments: object) -> dict[str, Any]:
    """The JSON object that a command prints."""
    shown: dict[str, Any] = json.loads(run(*arguments, "--json").stdout)
    return shown
