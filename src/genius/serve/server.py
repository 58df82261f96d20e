"""Connections that end: a client that never finishes a request's head, never takes its answer, or is one too
many, is let go."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import os
import signal
import socket
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

import h11
import uvicorn
from prometheus_client.multiprocess import mark_process_dead
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from genius.errors import GeniusError, InputError
from genius.index.index import Index
from genius.progress import log_to_terminal, quiet
from genius.runtime import cores
from genius.serve.app import create_app
from genius.serve.config import Limits, Settings
from genius.serve.errors import Refusal, busy
from genius.serve.metrics import SHARED


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


log = logging.getLogger(__name__)

SIGNALS = (signal.SIGINT, signal.SIGTERM)
LOOK = 0.5
"""Seconds between looks at a stop that was asked for."""
PATIENCE = 10
"""Seconds beyond its own limit that a worker has to stop."""


def run_workers(config: Config, sockets: Sequence[socket.socket]) -> None:
    """A worker for each socket, until a signal says to stop. Raises GeniusError if one can't start."""
    workers = _Workers(config, sockets)
    before = {number: signal.signal(number, workers.stop) for number in SIGNALS}
    try:
        workers.watch()
    finally:
        workers.end()
        for number, handler in before.items():
            signal.signal(number, handler)


class _Workers:
    def __init__(self, config: Config, sockets: Sequence[socket.socket]) -> None:
        self._config, self._sockets = config, sockets
        self._stopping = threading.Event()
        self._running = [self._start(place) for place in range(len(sockets))]

    def stop(self, number: int, frame: object) -> None:
        """What a signal does."""
        self._stopping.set()

    def watch(self) -> None:
        """See that all run, until it is time to stop."""
        while not self._stopping.is_set():
            connection.wait([worker.sentinel for worker in self._running], LOOK)
            for place, worker in enumerate(self._running):
                if worker.exitcode is None or self._stopping.is_set():
                    continue
                if worker.exitcode >= 0:
                    raise GeniusError("a worker of the service could not start, or ended by itself")
                log.warning("a worker was ended by signal %d: another takes its place", -worker.exitcode)
                mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # its waiting is over
                self._running[place] = self._start(place)

    def end(self) -> None:
        """Let all finish what they accepted; who does not is ended."""
        for worker in self._running:
            if worker.exitcode is None and worker.pid is not None:
                os.kill(worker.pid, signal.SIGTERM)
        for worker in self._running:
            worker.join((self._config.timeout_graceful_shutdown or 0) + PATIENCE)
            if worker.exitcode is None:
                worker.kill()
                worker.join()

    def _start(self, place: int) -> SpawnProcess:
        worker = multiprocessing.get_context("spawn").Process(
            target=_serve, args=(self._config, self._sockets[place], place), name=f"worker {place + 1}"
        )
        worker.start()
        return worker


def _serve(config: Config, listening: socket.socket, place: int) -> None:
    """The worker at a place. A signal ends it through uvicorn, which afterwards hands it on."""
    done: Callable[[int, object], None] = lambda number, frame: None  # noqa: E731
    for number in SIGNALS:
        signal.signal(number, done)
    config.app = partial(config.app, place)  # type: ignore[misc, operator, arg-type]
    uvicorn.Server(config).run([listening])


KEEP_ALIVE = 15
BACKLOG = 1024
LONGEST_HEAD = 64 * 1024
FILES = 1 << 16
"""How many files may be open, if the system lets us;"""
OWN_FILES = 256
"""and how many of them an index and its threads may need."""


@dataclass(frozen=True)
class Started:
    """What runs, and where."""

    url: str
    items: int


def serve(settings: Settings, tell: Callable[[Started], None] = lambda started: None) -> None:
    """Serve an index until the process is told to stop; `tell` is called when the port is open.

    Raises InputError for an address that can't be listened at, and what opening the index raises.
    """
    with Index.open(settings.index, settings.model) as index:  # what is wrong with it is said before all else
        items = len(index)
    settings = _within_files(settings)
    with _listening(settings) as sockets:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        started = Started(f"http://{host}:{sockets[0].getsockname()[1]}", items)
        if settings.workers == 1:
            tell(started)
            uvicorn.Server(_config(settings)).run(sockets)
            return
        with _shared() as folder:
            tell(started)
            run_workers(_config(replace(settings, shared=folder)), sockets)


def open_app(settings: Settings, place: int = 0) -> ASGIApp:
    """The application of one worker, ready to answer: it has searched and coded an item, so all is read and
    compiled, and no request waits for that."""
    log_to_terminal()
    quiet()
    with share_of_cores(settings.workers, place):
        index = Index.open(settings.index, settings.model)
        if len(index):
            for mode in ("auto", "fast"):
                index.search("ready", k=1, mode=mode)
            # This one goes through all levels, however few items there are.
            index.search("ready", k=1, mode="paper", decoder="geometry")
        if not settings.read_only:
            index.prepare_to_add()
    return create_app(index, settings)


def _config(settings: Settings) -> Config:
    return Config(
        partial(open_app, settings),
        settings.limits,
        factory=True,
        backlog=BACKLOG,
        lifespan="on",
        ws="none",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=settings.limits.stop_seconds,
        h11_max_incomplete_event_size=LONGEST_HEAD,
    )


def _within_files(settings: Settings) -> Settings:
    """Let as many files be open as the system allows, and no more connections than these leave room for."""
    if sys.platform == "win32":
        return settings
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    if soft == resource.RLIM_INFINITY:
        return settings
    connections = min(settings.limits.connections, max(1, soft - OWN_FILES))
    return replace(settings, limits=replace(settings.limits, connections=connections))


@contextlib.contextmanager
def _listening(settings: Settings) -> Iterator[list[socket.socket]]:
    """A socket for each worker, all on one port."""
    with contextlib.ExitStack() as stack:
        try:
            if settings.workers > 1:  # a port that another service has would be shared with it
                _bind(settings, settings.port, shared=False).close()
            sockets = [stack.enter_context(_bind(settings, settings.port))]
            for _ in range(settings.workers - 1):
                sockets.append(stack.enter_context(_bind(settings, sockets[0].getsockname()[1])))
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot listen at {settings.host} port {settings.port}: {error}") from None
        yield sockets


def _bind(settings: Settings, port: int, *, shared: bool = True) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    several = shared and settings.workers > 1
    return socket.create_server((settings.host, port), family=family, backlog=BACKLOG, reuse_port=several)


@contextlib.contextmanager
def _shared() -> Iterator[Path]:
    """A folder for what workers share; where they count is told by a variable that they inherit."""
    if SHARED in os.environ:
        raise GeniusError(f"{SHARED} is set, and several workers need a folder of their own: unset it")
    with tempfile.TemporaryDirectory(prefix="genius-serve-") as folder:
        os.environ[SHARED] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ[SHARED]


@contextlib.contextmanager
def share_of_cores(workers: int, place: int) -> Iterator[None]:
    """Let what is opened meanwhile count on its share of the cores: workers beside each other use all."""
    if workers == 1 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    every = sorted(os.sched_getaffinity(0))
    share = max(1, cores() // workers)
    first = place * share % len(every)
    os.sched_setaffinity(0, (every + every)[first : first + share])
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)
