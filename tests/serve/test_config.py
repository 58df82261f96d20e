"""Settings and tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from genius.cli import app
from genius.errors import InputError
from genius.serve.config import Settings
from tests.serving import Serve


@pytest.mark.parametrize("token", ["", " ", " \n", "t\nt", "ä", "tökén"])
def test_invalid_tokens_are_refused(token: str) -> None:
    with pytest.raises(InputError, match="a token is some plain letters"):
        Settings(Path("index"), token=token)


def test_the_line_break_that_ends_a_token_is_not_part_of_it(serve: Serve) -> None:
    client = serve(token="secret\n")
    assert client.get("/about", headers={"Authorization": "Bearer secret"}).status_code == 200


def test_a_service_needs_a_worker(served: Path) -> None:
    with pytest.raises(InputError):
        Settings(served, workers=0)


def test_an_empty_token_is_not_taken_for_none(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENIUS_TOKEN", "")
    done = CliRunner().invoke(app, ["serve", str(served)])
    assert isinstance(done.exception, InputError) and "GENIUS_TOKEN is empty" in str(done.exception)
