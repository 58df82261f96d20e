"""The shards of an index as applications of Ray Serve: how they are started, and how they are asked.

Each shard is a deployment of some replicas, which Ray Serve spreads over the machines, checks and replaces. A
replica that dies while it is asked costs another try; a shard that does not answer in time is missing, and
searches don't wait for it until it answers again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from genius import __version__
from genius.cluster.connection import node_resources
from genius.cluster.shard_replica import Shard
from genius.cluster.shard_router import Gathered
from genius.data.content_key import content_key
from genius.errors import (
    FilterTimeoutError,
    GeniusError,
    InputError,
    ItemError,
    MismatchError,
    MissingError,
    ShardError,
    require,
)
from genius.index.query import MissingShard
from genius.progress import bar

log = logging.getLogger(__name__)

TRIES = 3
"""How many replicas of a shard are asked, if they die while they are."""
SHARD_SECONDS = 20.0
"""How long a shard may take to answer, with all tries: long enough to replace its only replica."""
START_SECONDS = 300.0
"""How long all shards may take to start."""
CHECK_SECONDS, STUCK_SECONDS = 5.0, 30.0
"""How often Ray Serve checks each replica, and how long that may take."""
ONGOING = 4
"""How many questions a replica works on at a time."""
POLL_SECONDS = 0.2
PASSED_ON = (InputError, MissingError, FilterTimeoutError)
"""Errors of a shard that are errors of the search; others are the shard's own, which then is missing."""


class ShardReplica:
    """One replica of a shard, in a process of its own. Its errors are answers: they must not end it."""

    def __init__(self, folder: Path, model: str) -> None:
        self._folder, self._model, self._lock = folder, model, threading.Lock()
        self._shard: Shard | None = None
        with contextlib.suppress(GeniusError):  # whoever asks hears of it
            self._opened()

    async def ask(self, method: str, *arguments: Any) -> tuple[Any, GeniusError | None]:
        """What a method of the shard returns, or raises."""
        return await asyncio.to_thread(self._ask, method, arguments)

    def _ask(self, method: str, arguments: Sequence[Any]) -> tuple[Any, GeniusError | None]:
        try:
            return getattr(self._opened(), method)(*arguments), None
        except PASSED_ON as error:  # an item's error takes arguments of its own, and could not be sent
            return None, InputError(str(error)) if isinstance(error, ItemError) else error
        except GeniusError as error:
            return None, GeniusError(f"{error} (on {socket.gethostname()})")

    def check_health(self) -> None:
        """Called by Ray Serve, which replaces a replica that raises here."""
        if self._shard is not None:
            len(self._shard)

    def _opened(self) -> Shard:
        with self._lock:
            if self._shard is None:
                self._shard = Shard.open(self._folder, self._model)
            return self._shard


def application_name(folder: Path) -> str:
    """The name of the application that serves the shard in a folder."""
    return f"genius-{content_key(str(folder).encode()).hex()[:12]}-{folder.name}"


@contextlib.contextmanager
def applications(ray: Any, folders: Sequence[Path], model: str, replicas: int) -> Iterator[None]:
    """Within, the shards in these folders are served: by so many replicas each, unless they run already.

    The last router that leaves stops them, also those that a killed one left behind. Raises GeniusError if
    they don't start.
    """
    serve, names = _serve(), [application_name(folder) for folder in folders]
    serve.start(proxy_location="Disabled", logging_config={"log_level": "ERROR", "enable_access_log": False})
    with _present(ray, names[0]) as is_last:
        running = set(serve.status().applications)
        missing = [folder for folder in folders if application_name(folder) not in running]
        cores = _cores_each([node.get("CPU", 0.0) for node in node_resources(ray)], len(missing) * replicas)
        try:
            if missing:
                targets = [_target(serve, folder, model, replicas, cores) for folder in missing]
                serve.run_many(targets, wait_for_applications_running=False)
            _wait_for(serve, names)
            yield
        finally:
            with contextlib.suppress(Exception):  # the cluster may be gone
                for name in names if is_last() else ():
                    serve.delete(name, _blocking=False)


class _Presence:
    """An actor that lives as long as the router that made it."""


@contextlib.contextmanager
def _present(ray: Any, name: str) -> Iterator[Callable[[], bool]]:
    """Within, this process is a router of the shards of this name; gives whether it is the only one."""
    prefix = f"router-{name}-"
    own = prefix + uuid.uuid4().hex
    actor = ray.remote(_Presence).options(name=own, namespace="genius", num_cpus=0).remote()

    def is_last() -> bool:
        known = {each["name"] for each in ray.util.list_named_actors(all_namespaces=True)}
        return not any(other.startswith(prefix) for other in known - {own})

    try:
        yield is_last
    finally:
        with contextlib.suppress(Exception):  # the cluster may be gone
            ray.kill(actor)


def _serve() -> Any:
    serve = require("ray.serve", "ray", "serving shards on a cluster")
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    # Where a replica died, Ray leaves a question for the length of its queue unanswered, with a traceback.
    logging.getLogger("asyncio").addFilter(_is_about_no_queue)
    return serve


def _is_about_no_queue(record: logging.LogRecord) -> bool:
    return "get_queue_len" not in record.getMessage()


def _target(serve: Any, folder: Path, model: str, replicas: int, cores: float) -> Any:
    deployment = serve.deployment(
        ShardReplica,
        name=folder.name,
        num_replicas=replicas,
        ray_actor_options={"num_cpus": cores},
        max_ongoing_requests=ONGOING,
        health_check_period_s=CHECK_SECONDS,
        health_check_timeout_s=STUCK_SECONDS,
        graceful_shutdown_timeout_s=CHECK_SECONDS,
    )
    return serve.RunTarget(deployment.bind(folder, model), name=application_name(folder), route_prefix=None)


def _cores_each(nodes: Sequence[float], count: int) -> float:
    """How many cores each of so many replicas gets, whole ones or, if there are too few, a part of one.

    >>> _cores_each([8.0, 8.0], 4), _cores_each([1.0, 1.0, 1.0], 4), _cores_each([4.0, 1.0], 2)
    (4.0, 0.5, 2.0)
    """
    for cores in range(int(max(nodes, default=0)), 0, -1):
        if sum(int(node // cores) for node in nodes) >= count:
            return float(cores)
    for parts in range(2, 101):
        if sum(int(node * parts) for node in nodes) >= count:
            return 1 / parts if parts in (2, 4, 5, 10, 20, 50, 100) else int(1000 / parts) / 1000
    raise InputError(f"the cluster has no room for {count:,} replicas: ask for fewer, or add machines")


def _wait_for(serve: Any, names: Sequence[str]) -> None:
    """Wait until these applications run."""
    deadline, done = time.monotonic() + START_SECONDS, 0
    with bar("starting shards", total=len(names)) as shown:
        while done < len(names):
            known = serve.status().applications
            states = [known[name] for name in names if name in known]
            for state in states:
                if state.status.value == "DEPLOY_FAILED":
                    reasons = [each.message for each in state.deployments.values()]
                    raise GeniusError(f"a shard can't be started: {_cause(reasons)}")
            running = sum(state.status.value == "RUNNING" for state in states)
            shown.advance(running - done)
            done = max(done, running)
            if time.monotonic() > deadline:
                raise GeniusError(
                    f"{len(names) - done} of {len(names)} shards did not start within {START_SECONDS:g} "
                    "seconds: look whether the cluster is busy with something else, or ask for fewer replicas"
                )
            time.sleep(POLL_SECONDS)


def _cause(reasons: Sequence[str]) -> str:
    """The last line of what Ray says, which is the most exact one."""
    lines = [line.strip() for text in reasons for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "Ray does not say why"


class RayShards:
    """The shards in these folders, asked over the cluster that `ray` is connected to (`router.Shards`).

    Args:
        ray: the module, connected.
        folders: of the shards, in their order; their applications run.
        on_missing: what becomes of an answer without some shards, if whoever asks does not say.
        seconds: how long a shard may take.
    """

    def __init__(
        self, ray: Any, folders: Sequence[Path], *, on_missing: MissingShard, seconds: float = SHARD_SECONDS
    ) -> None:
        serve = _serve()
        self._ray, self._on_missing, self._seconds = ray, on_missing, seconds
        self._folders, self._names = folders, [folder.name for folder in folders]
        gone = require("ray.serve.exceptions", "ray", "serving shards on a cluster").RayServeException
        self._unavailable: tuple[type[Exception], ...] = (TimeoutError, gone)
        try:
            self._handles = [serve.get_app_handle(application_name(folder)) for folder in folders]
        except gone as error:
            raise GeniusError(f"nobody serves the shards of this index: {_cause([str(error)])}") from None
        self._probes: dict[int, tuple[float, Any]] = {}
        self._threads = ThreadPoolExecutor(ONGOING * len(folders), "asking")

    def __len__(self) -> int:
        return len(self._folders)

    def close(self) -> None:
        """Ask no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)

    def check(self, model: str) -> None:
        """Raise GeniusError if a shard is not what it should be: of this model, and of this genius."""
        for number, folder in enumerate(self._folders):
            value, error = self._answer(number, "about", (), START_SECONDS)
            if error is not None:
                raise error
            expected = {"genius": __version__, "model": model, "path": str(folder)}
            for name, wanted in expected.items():
                if value[name] != wanted:
                    raise MismatchError(
                        f"{folder} is served with the {name} {value[name]}, and this is {wanted}: stop the "
                        "genius serve that does that, and start again"
                    )

    def ask(self, method: str, *arguments: Any, on_missing: MissingShard | None = None) -> Gathered:
        """What all of them answer. Raises ShardError if none does, or if some don't and all should."""
        questions = [
            self._threads.submit(self._ask, number, method, arguments) for number in range(len(self))
        ]
        answers, missing = [], []
        for name, question in zip(self._names, questions, strict=True):
            try:
                answers.append(question.result())
            except ShardError:
                missing.append(name)
        if not answers or (missing and (on_missing or self._on_missing) == "error"):
            raise self._missing(missing)
        return Gathered(answers, tuple(missing))

    def ask_one(self, number: int, method: str, *arguments: Any) -> Any:
        """What one of them answers. Raises ShardError."""
        try:
            return self._threads.submit(self._ask, number, method, arguments).result()
        except ShardError:
            raise self._missing([self._names[number]]) from None

    def _missing(self, names: Sequence[str]) -> ShardError:
        return ShardError(
            f"{len(names)} of {len(self)} shards did not answer ({', '.join(names)}): try again in a moment"
        )

    def _ask(self, number: int, method: str, arguments: Sequence[Any]) -> Any:
        name = self._names[number]
        if not self._is_back(number):
            raise ShardError(f"{name} still does not answer")
        try:
            value, error = self._answer(number, method, arguments, self._seconds)
        except self._unavailable as gone:
            self._probe(number)
            log.warning("%s does not answer (%s): searches go on without it", name, type(gone).__name__)
            raise ShardError(f"{name} does not answer") from None
        if isinstance(error, PASSED_ON):
            raise error
        if error is not None:
            log.warning("%s can't answer: %s", name, error)
            raise ShardError(f"{name} can't answer")
        return value

    def _probe(self, number: int) -> None:
        """Ask a shard that is missing whether it is back, without waiting for it."""
        self._probes[number] = time.monotonic(), self._handles[number].ask.remote("about")

    def _is_back(self, number: int) -> bool:
        """Whether a shard answers, as far as is known."""
        if (probe := self._probes.get(number)) is None:
            return True
        since, question = probe
        try:
            question.result(timeout_s=0)
        except TimeoutError:
            if time.monotonic() - since > self._seconds:  # perhaps it was lost
                self._probe(number)
            return False
        except Exception:  # whatever it is, the next one may be answered
            self._probe(number)
            return False
        if self._probes.pop(number, None) is not None:  # another thread may have seen it before
            log.warning("%s answers again", self._names[number])
        return True

    def _answer(
        self, number: int, method: str, arguments: Sequence[Any], seconds: float
    ) -> tuple[Any, GeniusError | None]:
        """The answer of a replica, or of another one if it dies meanwhile. Raises `self._unavailable`."""
        errors, deadline = self._ray.exceptions, time.monotonic() + seconds
        for _ in range(TRIES):
            question = self._handles[number].ask.remote(method, *arguments)
            try:
                answer: tuple[Any, GeniusError | None] = question.result(
                    timeout_s=max(0.0, deadline - time.monotonic())
                )
            except errors.GetTimeoutError as error:
                raise TimeoutError(str(error)) from None
            except errors.RayTaskError:
                raise  # a bug of ours
            except errors.RayError as error:
                log.info("a replica of %s died: %s", self._names[number], error)
            else:
                return answer
        raise TimeoutError(f"{TRIES} replicas died while they were asked")
