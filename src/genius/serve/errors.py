"""What is answered when a request can't be: a status, and a body that programs and people can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from genius.errors import DamagedError, GeniusError, InputError, MismatchError, MissingError
from genius.index.disk import DiskError
from genius.index.sqlite import TooLongError

RETRY = {"Retry-After": "1"}

KINDS = {
    400: "input",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method",
    408: "slow",
    413: "too_large",
    415: "media_type",
    422: "invalid",
    500: "internal",
    503: "busy",
    507: "disk",
}
"""What kind of error each status is, unless it is said otherwise."""


class Refusal(Exception):
    """A request that is not answered as it wished; `more` are fields of the answer beside the error."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        more: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.kind = kind or KINDS.get(status, "http")
        self.headers, self.more = dict(headers or {}), dict(more or {})

    def body(self) -> bytes:
        """The answer's body."""
        return orjson.dumps({"error": {"kind": self.kind, "message": self.message}, **self.more})


def busy(message: str) -> Refusal:
    """More than can be done now."""
    return Refusal(503, message, headers=RETRY)


def late(seconds: float) -> Refusal:
    """What took too long."""
    return Refusal(503, f"this takes more than {seconds:g} seconds: try again", kind="timeout", headers=RETRY)


def unexpected() -> Refusal:
    """What should not have happened."""
    return Refusal(500, "something went wrong here; the service goes on")


def refusal_of(error: GeniusError) -> Refusal:
    """An error of ours as an answer; where files are on this machine is not told."""
    if isinstance(error, InputError):
        return Refusal(400, error.reason)
    if isinstance(error, DamagedError):
        return Refusal(500, "the index is damaged: its owner finds more in the log", kind="damaged")
    if isinstance(error, MismatchError | MissingError):
        return Refusal(500, "the index can't do that: its owner finds more in the log", kind="mismatch")
    if isinstance(error, DiskError):
        return Refusal(507, f"the index's disk refuses: {error.reason}; what was committed before is there")
    if isinstance(error, TooLongError):
        return Refusal(
            503, "this filter takes too long here: use fewer conditions", kind="timeout", headers=RETRY
        )
    return busy("the index can't be used for this right now, perhaps because another program writes to it")
