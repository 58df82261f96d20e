"""Running a service: sockets, worker processes, and HTTP connections with time limits.

One worker runs in this process. Several run in processes of their own, each with its own socket on the same
port, and one that crashes is replaced. Uvicorn speaks HTTP; `BoundedProtocol` closes connections whose client
never finishes a request's head, never reads its answer, or is one too many.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
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
from genius.index.calibration import QueryKind
from genius.index.index import Index
from genius.progress import log_to_terminal, quiet
from genius.runtime import cores
from genius.serve.access_log import open_access_log
from genius.serve.app import create_app
from genius.serve.config import Limits, Settings
from genius.serve.errors import ApiError, busy_error
from genius.serve.metrics import SHARED_FOLDER_VARIABLE

log = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS = 15
BACKLOG = 1024
MAX_HEAD_BYTES = 64 * 1024
MAX_FILES = 1 << 16
"""How many open files a worker asks the system for."""
INDEX_FILES = 256
"""How many open files are kept for the index and its threads; the others are for connections."""
CALIBRATED_KINDS: tuple[QueryKind, ...] = ("text", "item", "image", "both")
CALIBRATED_WANTS = ((None, None), ("image", None), (None, "text"))
"""What the page asks for, by `want` and `only`: its confidences are measured ahead of the first search."""
SIGNALS = (signal.SIGINT, signal.SIGTERM)
POLL_SECONDS = 0.5
"""How often the supervisor checks for a signal."""
KILL_SECONDS = 10
"""How many seconds beyond `stop_seconds` a worker has to stop before it is killed."""


@dataclass(frozen=True)
class Started:
    """A service that has opened its port: its URL, and how many items it serves."""

    url: str
    items: int


OpenIndex = Callable[[Settings], Index]
"""How a worker opens the index that it serves; it can be sent to another process."""


def open_index(settings: Settings) -> Index:
    """The index in its folder."""
    return Index.open(settings.index, settings.model)


def serve(
    settings: Settings,
    on_start: Callable[[Started], None] = lambda started: None,
    opened: OpenIndex = open_index,
) -> None:
    """Serve an index until the process is told to stop; `on_start` is called when the port is open.

    Raises InputError for an address that can't be listened at, and what `Index.open` raises.
    """
    with Index.open(settings.index, settings.model) as index:  # first, to report what is wrong with it
        items = len(index)
    settings = _fit_connections(settings)
    with _listening_sockets(settings) as sockets:
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        started = Started(f"http://{host}:{sockets[0].getsockname()[1]}", items)
        if settings.workers == 1:
            on_start(started)
            uvicorn.Server(_server_config(settings, opened)).run(sockets)
            return
        with _shared_folder() as folder:
            on_start(started)
            _run_workers(_server_config(replace(settings, shared_folder=folder), opened), sockets)


def check_address(settings: Settings) -> None:
    """Raise InputError if a service can't listen where it should."""
    with _listening_sockets(settings):
        pass


def open_app(settings: Settings, worker: int = 0, opened: OpenIndex = open_index) -> ASGIApp:
    """The application of one worker, warmed up.

    It has searched and coded before, so that no request waits for files to be read or code to be compiled.
    """
    log_to_terminal()
    if settings.access_log:
        open_access_log()
    quiet()
    with share_of_cores(settings.workers, worker):
        index = opened(settings)
        if len(index):
            _warm_up(index)
        if not settings.read_only:
            index.prepare_to_add()
    stop = threading.Event()
    calibrating = threading.Thread(target=_calibrate, args=(index, stop), name="calibrating", daemon=True)
    calibrating.start()

    def stop_calibrating() -> None:
        stop.set()
        calibrating.join()  # a thread that computes while its process ends would make that crash

    return create_app(index, settings, on_stop=stop_calibrating)


def _warm_up(index: Index) -> None:
    """Search as requests will: by a text, or, for a model that takes vectors alone, by an item."""
    query: dict[str, Any] = {"text": "ready"}
    if index.model.takes_vectors:
        query = {"near": index.page(most=1)[0][1].id}
    for mode in ("auto", "fast"):
        index.search(**query, k=1, mode=mode)
    if index.model.has_code_vectors:  # this search goes through all levels, however few items there are
        index.search(**query, k=1, mode="paper", decoder="geometry")
    index.calibrate()


def _calibrate(index: Index, stop: threading.Event) -> None:
    """Measure what the page's confidences are told by, unless that is known; searches don't wait for it."""
    try:
        for kind, (want, only) in itertools.product(CALIBRATED_KINDS, CALIBRATED_WANTS):
            if stop.is_set():
                return
            index.calibrate([kind], want=want, only=only)
    except Exception as error:  # a search that needs it will say so, too
        log.warning("confidences could not be measured ahead: %s", error)


# --- the resources of a service


def _fit_connections(settings: Settings) -> Settings:
    """Allow as many open files as the system lets us, and no more connections than they leave room for."""
    if sys.platform == "win32":
        return settings
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    if soft == resource.RLIM_INFINITY:
        return settings
    connections = min(settings.limits.connections, max(1, soft - INDEX_FILES))
    return replace(settings, limits=replace(settings.limits, connections=connections))


@contextlib.contextmanager
def _listening_sockets(settings: Settings) -> Iterator[list[socket.socket]]:
    """A socket for each worker, all on one port. Raises InputError."""
    with contextlib.ExitStack() as stack:
        try:
            if settings.workers > 1:  # otherwise a port that another service shares would be shared with it
                _bind(settings, settings.port, share=False).close()
            sockets = [stack.enter_context(_bind(settings, settings.port))]
            for _ in range(settings.workers - 1):
                sockets.append(stack.enter_context(_bind(settings, sockets[0].getsockname()[1])))
        except (OSError, OverflowError) as error:
            raise InputError(f"cannot listen at {settings.host} port {settings.port}: {error}") from None
        yield sockets


def _bind(settings: Settings, port: int, *, share: bool = True) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    reuse_port = share and settings.workers > 1
    return socket.create_server((settings.host, port), family=family, backlog=BACKLOG, reuse_port=reuse_port)


@contextlib.contextmanager
def _shared_folder() -> Iterator[Path]:
    """A temporary folder for the workers; they find their metrics in it by a variable that they inherit."""
    variable = SHARED_FOLDER_VARIABLE
    if variable in os.environ:
        raise GeniusError(f"{variable} is set, and several workers need a folder of their own: unset it")
    with tempfile.TemporaryDirectory(prefix="genius-serve-") as folder:
        os.environ[variable] = folder
        try:
            yield Path(folder)
        finally:
            del os.environ[variable]


@contextlib.contextmanager
def share_of_cores(workers: int, worker: int) -> Iterator[None]:
    """Within, this process sees only its share of the cores, and opens pools of as many threads."""
    if workers == 1 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    available = sorted(os.sched_getaffinity(0))
    share = max(1, cores() // workers)
    first = worker * share % len(available)
    os.sched_setaffinity(0, (available + available)[first : first + share])
    try:
        yield
    finally:
        os.sched_setaffinity(0, available)


# --- worker processes


def _run_workers(config: ServerConfig, sockets: Sequence[socket.socket]) -> None:
    """Run a worker for each socket until a signal says to stop. Raises GeniusError if one can't start."""
    supervisor = _Supervisor(config, sockets)
    handlers = {number: signal.signal(number, supervisor.on_signal) for number in SIGNALS}
    try:
        supervisor.watch()
    finally:
        supervisor.stop()
        for number, handler in handlers.items():
            signal.signal(number, handler)


class _Supervisor:
    def __init__(self, config: ServerConfig, sockets: Sequence[socket.socket]) -> None:
        self._config, self._sockets = config, sockets
        self._stopping = threading.Event()
        self._workers = [self._start(number) for number in range(len(sockets))]

    def on_signal(self, number: int, frame: object) -> None:
        """Handle a signal to stop."""
        self._stopping.set()

    def watch(self) -> None:
        """Replace workers that crash, until it is time to stop. Raises GeniusError if one ends by itself."""
        while not self._stopping.is_set():
            connection.wait([worker.sentinel for worker in self._workers], POLL_SECONDS)
            for number, worker in enumerate(self._workers):
                if worker.exitcode is None or self._stopping.is_set():
                    continue
                if worker.exitcode >= 0:
                    raise GeniusError("a worker of the service could not start, or ended by itself")
                log.warning("a worker was ended by signal %d: another takes its place", -worker.exitcode)
                mark_process_dead(worker.pid)  # type: ignore[no-untyped-call]  # its gauges no longer count
                self._workers[number] = self._start(number)

    def stop(self) -> None:
        """Let all workers finish what they accepted; kill those that take too long."""
        for worker in self._workers:
            if worker.exitcode is None and worker.pid is not None:
                os.kill(worker.pid, signal.SIGTERM)
        for worker in self._workers:
            worker.join((self._config.timeout_graceful_shutdown or 0) + KILL_SECONDS)
            if worker.exitcode is None:
                worker.kill()
                worker.join()

    def _start(self, number: int) -> SpawnProcess:
        worker = multiprocessing.get_context("spawn").Process(
            target=_run_worker,
            args=(self._config, self._sockets[number], number),
            name=f"worker {number + 1}",
        )
        worker.start()
        return worker


def _run_worker(config: ServerConfig, listening: socket.socket, number: int) -> None:
    """The main function of a worker process."""
    # Uvicorn stops at a signal, and afterwards raises it again for the handler that was set before: this one.
    ignore: Callable[[int, object], None] = lambda number, frame: None  # noqa: E731
    for signal_number in SIGNALS:
        signal.signal(signal_number, ignore)
    config.app = partial(config.app, number)  # type: ignore[misc, operator, arg-type]
    uvicorn.Server(config).run([listening])


# --- connections


class ServerConfig(uvicorn.Config):
    """Uvicorn's configuration with limits on connections; it is pickled for worker processes."""

    def __init__(self, app: Any, limits: Limits, **options: Any) -> None:
        super().__init__(app, http=BoundedProtocol, **options)
        self.limits = limits


def _server_config(settings: Settings, opened: OpenIndex) -> ServerConfig:
    return ServerConfig(
        partial(open_app, settings, opened=opened),
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
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=settings.limits.stop_seconds,
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
    )


class BoundedProtocol(H11Protocol):
    """HTTP on one connection, with limits on the number of connections and on the client's time."""

    _head_timer: asyncio.TimerHandle | None = None
    _answer_timer: asyncio.TimerHandle | None = None

    @property
    def _limits(self) -> Limits:
        assert isinstance(self.config, ServerConfig)
        return self.config.limits

    def connection_made(self, transport: Any) -> None:
        """Refuse one connection too many, and wait for a request's head on any other."""
        super().connection_made(transport)
        # asyncio does this only for sockets whose protocol is TCP; without it, small answers are delayed.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        transport.set_write_buffer_limits(0)  # so that pause_writing is called for whatever is not read
        if len(self.connections) > self._limits.connections:
            self._refuse(busy_error("too many connections are open: try again in a moment"))
        else:
            self._start_head_timer()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop the timers."""
        self._stop_head_timer()
        self._stop_answer_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """Start the client's time to read its answer."""
        super().pause_writing()
        if self._answer_timer is None:
            self._answer_timer = self.loop.call_later(self._limits.answer_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has read everything."""
        self._stop_answer_timer()
        super().resume_writing()

    def data_received(self, data: bytes) -> None:
        """Read on, and see whether a head is complete."""
        if self.transport.is_closing():
            return
        super().data_received(data)
        if self.conn.their_state is h11.IDLE and self.conn.trailing_data[0]:
            self._start_head_timer()
        else:
            self._stop_head_timer()

    def _start_head_timer(self) -> None:
        if self._head_timer is None:
            seconds = self._limits.head_seconds
            error = ApiError(408, f"the head of a request must come within {seconds:g} seconds")
            self._head_timer = self.loop.call_later(seconds, self._refuse, error)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _stop_answer_timer(self) -> None:
        if self._answer_timer is not None:
            self._answer_timer.cancel()
            self._answer_timer = None

    def _refuse(self, error: ApiError) -> None:
        if not self.transport.is_closing():
            self.transport.write(_raw_answer(error))
            self.transport.close()


def _raw_answer(error: ApiError) -> bytes:
    """The bytes of a whole answer, for where there is no request yet."""
    body = error.body()
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        **error.headers,
    }
    lines = [f"HTTP/1.1 {error.status} Refused", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body
