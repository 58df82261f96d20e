"""Checks that every request passes before it is parsed: host name, token, load, and the size of its body.

The middleware also counts and times requests, adds security headers, and turns any exception behind it into
an answer. It reads the body, up to its limit and within its time, before anything parses it.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Iterable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from genius.serve.access_log import log_request
from genius.serve.config import Settings
from genius.serve.error_page import render_error
from genius.serve.errors import ApiError, busy_error, internal_error
from genius.serve.metrics import Metrics

log = logging.getLogger(__name__)

OPEN_PATHS = ("/", "/favicon.ico", "/health")
"""Paths that need no token, besides the files of the page."""
PAGE_PREFIX = "/page/"

SECURITY_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; form-action 'self'; "
        b"frame-ancestors 'none'",
    ),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


class GuardMiddleware:
    """ASGI middleware around the whole application."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._num_requests = self._body_bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle a request, or the start and the end of the service."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answer = time.perf_counter(), _Answer(send, dict(scope["headers"]).get(b"accept", b""))
        self._num_requests += 1
        try:
            await self._handle(scope, receive, answer)
        except ApiError as error:
            await answer.send_error(error)
        except Exception:  # the last place where it can be turned into an answer
            log.exception("%s %s failed", scope["method"], scope["path"])
            await answer.send_error(internal_error())
        finally:
            self._num_requests -= 1
            route, seconds = getattr(scope.get("route"), "path", "other"), time.perf_counter() - began
            self._metrics.count_request(scope["method"], route, answer.status, seconds)
            if self._settings.access_log:
                log_request(scope, answer.status, seconds)

    async def _handle(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = dict(scope["headers"])
        self._check_host(headers)
        self._check_token(scope["path"], headers)
        if self._num_requests > self._settings.limits.requests and scope["path"] != "/health":
            raise busy_error("too many requests are being worked on: try again in a moment")
        body = await self._read_body(headers, receive)
        try:
            await self._app(scope, _replay(body, receive), answer.send)
        finally:
            self._body_bytes -= len(body)

    def _check_host(self, headers: dict[bytes, bytes]) -> None:
        hosts = self._settings.hosts
        if hosts is None:
            return
        host = headers.get(b"host", b"").decode("latin-1").lower()
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
        if name not in hosts:
            raise ApiError(403, "this service does not answer to that host name: start it with --allow-name")

    def _check_token(self, path: str, headers: dict[bytes, bytes]) -> None:
        token = self._settings.token
        if token is None or path in OPEN_PATHS or path.startswith(PAGE_PREFIX):
            return
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + token.encode()):
            raise ApiError(401, "this needs a token that is right", headers={"WWW-Authenticate": "Bearer"})

    async def _read_body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, counted in `_body_bytes` until the caller subtracts it again."""
        limits = self._settings.limits
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > limits.body:
            raise self._too_large()
        try:
            async with asyncio.timeout(limits.body_seconds):
                return await self._receive_all(receive)
        except TimeoutError:
            message = f"the body of a request must come within {limits.body_seconds:g} seconds"
            raise ApiError(408, message, headers={"Connection": "close"}) from None

    async def _receive_all(self, receive: Receive) -> bytes:
        limits, chunks, size = self._settings.limits, [], 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise ApiError(400, "the client went away")
                chunk = message.get("body", b"")
                size += len(chunk)
                self._body_bytes += len(chunk)
                chunks.append(chunk)
                if size > limits.body:
                    raise self._too_large()
                if self._body_bytes > limits.bodies:
                    raise busy_error("too much is being sent at the same time: try again in a moment")
                if not message.get("more_body", False):
                    return b"".join(chunks)
        except BaseException:
            self._body_bytes -= size
            raise

    def _too_large(self) -> ApiError:
        limit = self._settings.limits.body
        return ApiError(413, f"a request's body may have {limit:,} bytes", headers={"Connection": "close"})


class _Answer:
    """Sends an answer with the security headers, and remembers its status (0 until it is sent)."""

    def __init__(self, send: Send, accept: bytes) -> None:
        self._send, self._accept = send, accept.decode("latin-1")
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *SECURITY_HEADERS]}
        await self._send(message)

    async def send_error(self, error: ApiError) -> None:
        """Answer with an error, unless an answer has begun."""
        if self.status:
            return
        body, media_type = render_error(error, self._accept)
        headers = {"content-type": media_type, "content-length": str(len(body)), "vary": "Accept"}
        headers |= error.headers
        await self.send(
            {"type": "http.response.start", "status": error.status, "headers": _encoded(headers.items())}
        )
        await self.send({"type": "http.response.body", "body": body})


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers]


def _replay(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body once, and then whatever the client does next."""
    given = False

    async def receive_again() -> dict[str, Any]:
        nonlocal given
        if given:
            return dict(await receive())
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again
