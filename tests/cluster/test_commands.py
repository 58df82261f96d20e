"""What the commands refuse before they look for a cluster."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from genius.cli import app
from genius.errors import InputError

REFUSED = [
    (["index", "s", "-o", "i", "--chunk-items", "5"], "go with --ray ADDRESS"),
    (["index", "s", "-o", "i", "--ray", "h:1", "--replace"], "--replace is for an index that has items"),
    (["train", "--pairs", "p.csv", "-o", "m", "--ray", "h:1"], "--pairs trains on this machine"),
    (["train", "demo", "--tree", "t", "-o", "m", "--workers", "2"], "go with --ray ADDRESS"),
]


@pytest.mark.parametrize(("command", "reason"), REFUSED)
def test_options_that_do_not_go_together(command: list[str], reason: str) -> None:
    ended = CliRunner().invoke(app, command)
    assert isinstance(ended.exception, InputError) and reason in str(ended.exception)
