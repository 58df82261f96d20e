"""Running a service: a port, one process or several that share it, and an end that answers what is due."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from genius.encode.runtime import cores
from genius.errors import GeniusError, InputError
from genius.index.index import Index
from genius.progress import log_to_terminal, quiet
from genius.serve.app import create_app
from genius.serve.connections import Config
from genius.serve.metrics import SHARED
from genius.serve.settings import Settings
from genius.serve.workers import run_workers

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
