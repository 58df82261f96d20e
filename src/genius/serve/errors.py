"""Errors as HTTP answers: a status, and a JSON body that programs and people can read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from genius.errors import (
    DamagedError,
    DiskError,
    FilterTimeoutError,
    GeniusError,
    InputError,
    MismatchError,
    MissingError,
    ShardError,
)

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
"""The error kind of each status, unless an error names its own."""


class ApiError(Exception):
    """A request that is answered with an error.

    Attributes:
        status: the HTTP status.
        message: one sentence for a person.
        kind: one word for programs.
        headers: of the answer.
        extra: fields of the answer beside `error`.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str | None = None,
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.message = status, message
        self.kind = kind or KINDS.get(status, "http")
        self.headers, self.extra = dict(headers or {}), dict(extra or {})

    def body(self) -> bytes:
        """The answer's JSON body."""
        return orjson.dumps({"error": {"kind": self.kind, "message": self.message}, **self.extra})


def busy_error(message: str) -> ApiError:
    """The service is overloaded or stopping: the client may try again."""
    return ApiError(503, message, headers=RETRY)


def timeout_error(seconds: float) -> ApiError:
    """A request took longer than `seconds`."""
    return ApiError(
        503, f"this takes more than {seconds:g} seconds: try again", kind="timeout", headers=RETRY
    )


def internal_error() -> ApiError:
    """A bug; the log has the traceback."""
    return ApiError(500, "something went wrong here; the service goes on")


def api_error(error: GeniusError) -> ApiError:
    """An error of the package as an answer, without the paths of files on this machine."""
    if isinstance(error, InputError):
        return ApiError(400, error.reason)
    if isinstance(error, DamagedError):
        return ApiError(500, "the index is damaged: its owner finds more in the log", kind="damaged")
    if isinstance(error, MismatchError | MissingError):
        return ApiError(500, "the index can't do that: its owner finds more in the log", kind="mismatch")
    if isinstance(error, DiskError):
        return ApiError(507, f"the index's disk refuses: {error.reason}; what was committed before is there")
    if isinstance(error, FilterTimeoutError | ShardError):
        kind, message = "shards", str(error)
        if isinstance(error, FilterTimeoutError):
            kind, message = "timeout", "this filter takes too long here: use fewer conditions"
        return ApiError(503, message, kind=kind, headers=RETRY)
    return busy_error(
        "the index can't be used for this right now, perhaps because another program writes to it"
    )
