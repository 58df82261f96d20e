"""Several processes that serve one port: each with a socket of its own, among which connections are spread.

Were they to accept from one socket, the first to wake would take all that wait, and the others none. A worker
that is killed is started again; one that can't start stops the service.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Sequence
from functools import partial
from multiprocessing import connection
from multiprocessing.context import SpawnProcess

import uvicorn
from prometheus_client.multiprocess import mark_process_dead

from genius.errors import GeniusError
from genius.serve.connections import Config

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
