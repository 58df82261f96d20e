"""Connections that end: a client that never finishes a request's head, never takes its answer, or is one too
many, is let go."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from genius.serve.refusals import Refusal, busy
from genius.serve.settings import Limits


class Config(uvicorn.Config):
    """How uvicorn is run, with limits on connections; it is sent to workers."""

    def __init__(self, app: Any, limits: Limits, **options: Any) -> None:
        super().__init__(app, http=Bounded, **options)
        self.limits = limits


class Bounded(H11Protocol):
    """HTTP on one connection."""

    _head: asyncio.TimerHandle | None = None
    _taking: asyncio.TimerHandle | None = None

    @property
    def _limits(self) -> Limits:
        assert isinstance(self.config, Config)
        return self.config.limits

    def connection_made(self, transport: Any) -> None:
        """Refuse one connection too many, and wait for a request's head on any other."""
        super().connection_made(transport)
        # asyncio only does so for sockets that say they are TCP; or small answers wait for the client's word.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(0)  # so that whatever a client does not take is told
        if len(self.connections) > self._limits.connections:
            self._say(busy("too many connections are open: try again in a moment"))
        else:
            self._await_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing more is awaited."""
        self._head_came()
        self._taken()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Something waits to be taken by the client, who has not for ever."""
        super().pause_writing()
        if self._taking is None:
            self._taking = self.loop.call_later(self._limits.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """All was taken."""
        self._taken()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read on, and see whether a head is complete."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._await_head()
        else:
            self._head_came()

    def _await_head(self) -> None:
        if self._head is None:
            seconds = self._limits.head_seconds
            slow = Refusal(408, f"the head of a request must come within {seconds:g} seconds")
            self._head = self.loop.call_later(seconds, self._say, slow)

    def _head_came(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _taken(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _say(self, refusal: Refusal) -> None:
        if not self.transport.is_closing():
            self.transport.write(_written(refusal))
            self.transport.close()


def _written(refusal: Refusal) -> bytes:
    """A whole answer, for where there is no request yet."""
    body = refusal.body()
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **refusal.headers,
    }
    lines = [f"HTTP/1.1 {refusal.status} Refused", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
