"""Errors of the index as HTTP answers."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from genius import Index
from genius.errors import (
    DamagedError,
    DiskError,
    FilterTimeoutError,
    GeniusError,
    InputError,
    ItemError,
    MismatchError,
    MissingError,
)
from genius.serve.errors import api_error
from tests.serving import Serve

ERRORS = {
    InputError("k is wrong", path="/secret/pool.jsonl", line=3): (400, "input"),
    ItemError("a", InputError("is no image", path="/secret/a.png")): (400, "input"),
    DamagedError("/secret is damaged"): (500, "damaged"),
    MismatchError("/secret was made by another model"): (500, "mismatch"),
    MissingError("/secret has no decoder"): (500, "mismatch"),
    DiskError("/secret", errno.EROFS, "opened"): (507, "disk"),
    FilterTimeoutError("/secret takes too long"): (503, "timeout"),
    GeniusError("/secret is in use"): (503, "busy"),
}


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_errors_have_a_status_and_a_kind_and_hide_paths(error: GeniusError) -> None:
    answer = api_error(error)
    assert (answer.status, answer.kind) == ERRORS[error]
    assert "secret" not in answer.message
    assert ("Retry-After" in answer.headers) == (answer.status == 503)


def test_a_full_disk_is_reported(serve: Serve, own_index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = serve(own_index)

    def full(*_: Any, **__: Any) -> None:
        raise DiskError(own_index, errno.ENOSPC, "written to")

    monkeypatch.setattr(Index, "add", full)
    answer = client.post("/items", json={"items": [{"id": "a", "text": "red"}]})
    assert (answer.status_code, answer.json()["error"]["kind"]) == (507, "disk")
    assert "No space left on device" in answer.json()["error"]["message"]
    assert str(own_index) not in answer.text
