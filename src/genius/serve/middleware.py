"""What every request passes before it is looked at: who asks, by which name, how much, and how many at once.

It also counts and times, adds the headers that keep browsers careful, and turns whatever goes wrong behind it
into an answer. A body is read here, up to its limit and in due time, before anything parses it.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from collections.abc import Iterable
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from genius.serve.config import Settings
from genius.serve.errors import Refusal, busy, unexpected
from genius.serve.metrics import Metrics

log = logging.getLogger(__name__)

OPEN = ("/", "/favicon.ico", "/health")
"""What needs no token, besides the files of the page."""
PAGE = "/page/"

CAREFUL = (
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


class Gate:
    """Stands before the application."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics) -> None:
        self._app, self._settings, self._metrics = app, settings, metrics
        self._requests = self._bytes = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection's worth of ASGI: a request, or the start and the end of the service."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, answer = time.perf_counter(), _Answer(send)
        self._requests += 1
        try:
            await self._pass(scope, receive, answer)
        except Refusal as refusal:
            await answer.refuse(refusal)
        except Exception:  # the last place where it can be turned into an answer
            log.exception("%s %s failed", scope["method"], scope["path"])
            await answer.refuse(unexpected())
        finally:
            self._requests -= 1
            route = getattr(scope.get("route"), "path", "other")
            self._metrics.answered(scope["method"], route, answer.status, time.perf_counter() - began)

    async def _pass(self, scope: Scope, receive: Receive, answer: _Answer) -> None:
        headers = dict(scope["headers"])
        self._check_name(headers)
        self._check_token(scope["path"], headers)
        if self._requests > self._settings.limits.requests and scope["path"] != "/health":
            raise busy("too many requests are being worked on: try again in a moment")
        body = await self._body(headers, receive)
        try:
            await self._app(scope, _replay(body, receive), answer.send)
        finally:
            self._bytes -= len(body)

    def _check_name(self, headers: dict[bytes, bytes]) -> None:
        hosts = self._settings.hosts
        if hosts is None:
            return
        name = headers.get(b"host", b"").decode("latin-1").lower()
        bare = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
        if bare not in hosts:
            raise Refusal(403, "this service does not answer to that host name: start it with --allow-name")

    def _check_token(self, path: str, headers: dict[bytes, bytes]) -> None:
        token = self._settings.token
        if token is None or path in OPEN or path.startswith(PAGE):
            return
        shown = headers.get(b"authorization", b"")
        if not hmac.compare_digest(shown, b"Bearer " + token.encode()):
            raise Refusal(401, "this needs a token that is right", headers={"WWW-Authenticate": "Bearer"})

    async def _body(self, headers: dict[bytes, bytes], receive: Receive) -> bytes:
        """The whole body, which is counted as held; the caller lets go of it."""
        limits = self._settings.limits
        length = headers.get(b"content-length", b"0")
        if not length.isdigit() or int(length[:20]) > limits.body:
            raise self._too_large()
        try:
            async with asyncio.timeout(limits.body_seconds):
                return await self._read(receive)
        except TimeoutError:
            message = f"the body of a request must come within {limits.body_seconds:g} seconds"
            raise Refusal(408, message, headers={"Connection": "close"}) from None

    async def _read(self, receive: Receive) -> bytes:
        limits, parts, size = self._settings.limits, [], 0
        try:
            while True:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise Refusal(400, "the client went away")
                part = message.get("body", b"")
                size += len(part)
                self._bytes += len(part)
                parts.append(part)
                if size > limits.body:
                    raise self._too_large()
                if self._bytes > limits.bodies:
                    raise busy("too much is being sent at the same time: try again in a moment")
                if not message.get("more_body", False):
                    return b"".join(parts)
        except BaseException:
            self._bytes -= size
            raise

    def _too_large(self) -> Refusal:
        most = self._settings.limits.body
        return Refusal(413, f"a request's body may have {most:,} bytes", headers={"Connection": "close"})


class _Answer:
    """Passes an answer on, with careful headers, and remembers how far it got."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message = {**message, "headers": [*message.get("headers", ()), *CAREFUL]}
        await self._send(message)

    async def refuse(self, refusal: Refusal) -> None:
        """Answer with a refusal, unless an answer was begun."""
        if self.status:
            return
        body = refusal.body()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **refusal.headers}
        await self.send(
            {"type": "http.response.start", "status": refusal.status, "headers": _encoded(headers.items())}
        )
        await self.send({"type": "http.response.body", "body": body})


def _encoded(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode(), value.encode()) for name, value in headers]


def _replay(body: bytes, receive: Receive) -> Receive:
    """The body once, then what the client does next."""
    given = False

    async def again() -> dict[str, Any]:
        nonlocal given
        if given:
            return dict(await receive())
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return again
