"""One line for each request, on standard output, if the user wants it.

Neither the words of a search nor the rest of a request's address is written, only which path was asked for,
by whom, and how it was answered:

    2026-11-17T16:30:00+00:00 127.0.0.1 POST /search 200 12.3 ms
"""

from __future__ import annotations

import datetime
import logging
import sys

from starlette.types import Scope

log = logging.getLogger("genius.access")


def open_access_log() -> None:
    """Send the lines to standard output, and nowhere else."""
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(message)s"))
    log.handlers, log.propagate = [handler], False
    log.setLevel(logging.INFO)


def log_request(scope: Scope, status: int, seconds: float) -> None:
    """Write the line of a request; a status of 0 means that the client went away before it was answered."""
    client = scope.get("client")
    # The path as it was sent, in which line breaks and the like are written %0A: nobody can forge lines.
    path = scope.get("raw_path", b"").decode("latin-1").partition("?")[0] or scope["path"]
    when = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    who = client[0] if client else "-"
    log.info("%s %s %s %s %d %.1f ms", when, who, scope["method"], path, status, 1000 * seconds)
