"""Workers on the machines of a Ray cluster: each opens the model once, and encodes one chunk after another.

A worker that dies is replaced, and its chunk given to another one. Ray moves neither items nor features: a
worker reads its chunk and writes it to the disk, and what comes back is how many items are done.
"""

from __future__ import annotations

import contextlib
import socket
from collections import Counter, deque
from collections.abc import Iterator
from typing import Any, Self

from genius import __version__
from genius.cluster.build import Assignment, ChunkEncoder, WorkerSettings
from genius.cluster.connection import Layout
from genius.errors import GeniusError, InputError

TRIES = 5
"""How many workers a chunk may end, and how many in a row may fail to start."""
POLL_SECONDS = 1.0
"""How long the driver waits for news, before it looks whether it was interrupted."""

News = int | tuple[str, str]
"""How many items are done, or what went wrong: the name of the error, and its message."""


class WorkerProcess:
    """A worker, in a process of its own. Its errors are answers: they must not end it."""

    def __init__(self, settings: WorkerSettings, version: str) -> None:
        self._settings, self._version = settings, version
        self._encoder: ChunkEncoder | None = None

    def open(self) -> tuple[str, str] | None:
        """Open the model; what is wrong, if anything is."""
        if __version__ != self._version:
            versions = f"has genius {__version__}, and the driver {self._version}: install the same"
            return GeniusError.__name__, _on_this_machine(versions)
        try:
            self._encoder = ChunkEncoder(self._settings)
        except GeniusError as error:
            return _described(error)
        return None

    def run(self, assignment: Assignment) -> Iterator[News]:
        """Encode a chunk."""
        assert self._encoder is not None
        try:
            yield from self._encoder.run(assignment)
        except GeniusError as error:
            yield _described(error)


def _described(error: GeniusError) -> tuple[str, str]:
    kind = InputError if isinstance(error, InputError) else GeniusError
    return kind.__name__, _on_this_machine(str(error))


def _on_this_machine(message: str) -> str:
    return f"{message} (on {socket.gethostname()})"


def _raise(problem: tuple[str, str]) -> None:
    kind, message = problem
    raise InputError(message) if kind == InputError.__name__ else GeniusError(message)


class RayWorkers:
    """Workers on the cluster that `ray` is connected to. Use it as a context: then none is left behind."""

    def __init__(self, ray: Any, settings: WorkerSettings, layout: Layout) -> None:
        self.size = layout.workers
        self._ray = ray
        self._settings = ray.put(settings)
        self._kind = ray.remote(num_cpus=layout.cores, num_gpus=layout.gpus, max_restarts=0)(WorkerProcess)
        self._opening: dict[Any, Any] = {}
        self._idle: list[Any] = []
        self._running: dict[Any, tuple[Any, Assignment]] = {}
        self._waiting: deque[Assignment] = deque()
        self._deaths: Counter[int] = Counter()
        self._failed_starts = self._items = 0
        self._done: Counter[int] = Counter()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        workers = [*self._opening.values(), *self._idle, *(worker for worker, _ in self._running.values())]
        for worker in workers:
            with contextlib.suppress(Exception):  # the cluster may be gone
                self._ray.kill(worker)

    def start(self, assignment: Assignment) -> None:
        """Have a chunk encoded by the next worker that is free."""
        self._waiting.append(assignment)
        self._give_out()

    def items(self) -> int:
        """How many items were encoded; those of a worker that died are taken back."""
        return self._items + self._done.total()

    def wait(self) -> int | None:
        """Wait a moment for news; the number of a chunk that is encoded."""
        self._give_out()
        ready, _ = self._ray.wait([*self._opening, *self._running], num_returns=1, timeout=POLL_SECONDS)
        for news in ready:
            if news in self._opening:
                self._opened(news)
            else:
                return self._progressed(news)
        return None

    def _give_out(self) -> None:
        """Give what waits to workers that are free, and have as many workers as there may be use for."""
        while self._waiting and self._idle:
            worker, assignment = self._idle.pop(), self._waiting.popleft()
            stream = worker.run.options(num_returns="streaming").remote(assignment)
            self._running[stream] = worker, assignment
        busy = len(self._running) + len(self._idle) + len(self._opening)
        missing = min(self.size - busy, len(self._waiting) - len(self._opening))
        for _ in range(missing):
            worker = self._kind.remote(self._settings, __version__)
            self._opening[worker.open.remote()] = worker

    def _opened(self, news: Any) -> None:
        worker = self._opening.pop(news)
        try:
            problem = self._ray.get(news)
        except self._ray.exceptions.RayError as error:
            self._failed_starts += 1
            if self._failed_starts >= TRIES:
                raise GeniusError(f"no worker can be started: {_cause(error)}") from error
            return
        if problem is not None:
            _raise(problem)
        self._failed_starts = 0
        self._idle.append(worker)

    def _progressed(self, stream: Any) -> int | None:
        worker, assignment = self._running[stream]
        try:
            news: News = self._ray.get(next(stream))
        except StopIteration:
            del self._running[stream]
            self._items += self._done.pop(assignment.number, 0)
            self._idle.append(worker)
            return assignment.number
        except self._ray.exceptions.RayTaskError:
            raise  # a bug of ours
        except self._ray.exceptions.RayError as error:
            del self._running[stream]
            self._died(assignment, error)
            return None
        if not isinstance(news, int):
            _raise(news)
            return None
        self._done[assignment.number] += news
        return None

    def _died(self, assignment: Assignment, error: Exception) -> None:
        """Have the chunk of a dead worker encoded again, before all others: what follows waits for it."""
        self._done.pop(assignment.number, 0)
        self._deaths[assignment.number] += 1
        if self._deaths[assignment.number] >= TRIES:
            raise GeniusError(
                f"the chunk of {assignment.chunk} ended its worker {TRIES} times: {_cause(error)}; "
                "give workers more memory (fewer --workers), or leave out what is wrong there"
            ) from error
        self._waiting.appendleft(assignment)


def _cause(error: Exception) -> str:
    """The last line of what Ray says, which is the most exact one."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__
