"""A connection to a Ray cluster, and how many workers find room on it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genius.errors import GeniusError, InputError, MismatchError, require

AUTO = "auto"
"""Instead of an address: the cluster that runs on this machine, or else one that is started on it."""
ANSWER_SECONDS = 5.0
"""How long an address may take to answer: Ray itself would wait for minutes."""

Resources = Mapping[str, float]


@dataclass(frozen=True)
class Layout:
    """How many workers there are, and what each has: cores, which are its threads, and GPUs."""

    workers: int
    cores: int
    gpus: float = 0.0


def lay_out(nodes: Sequence[Resources], workers: int = 0, gpus: float = 0.0) -> Layout:
    """The workers that find room on machines with these cores and GPUs: by default one per core or GPU.

    So many `workers` get as many cores each as all of them can have. Raises InputError if there is no room.
    """

    def room(cores: int) -> int:
        return sum(
            int(min(node.get("CPU", 0) // cores, node.get("GPU", 0) // gpus if gpus else float("inf")))
            for node in nodes
        )

    most = room(1)
    wanted = workers or most
    if not most or wanted > most:
        each = "a core" + (f" and {gpus:g} GPUs" if gpus else "")
        raise InputError(
            f"the cluster has room for {most:,} workers with {each} each, and {max(1, wanted):,} are wanted: "
            "ask for fewer, or add machines"
        )
    cores = max(
        cores
        for cores in range(1, 1 + int(max(node.get("CPU", 0) for node in nodes)))
        if room(cores) >= wanted
    )
    return Layout(wanted, cores, gpus)


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """The module `ray`, connected to the cluster at an address: `host:port`, `ray://host:port` or `auto`.

    Raises MissingError without Ray, InputError if nobody answers, MismatchError for a Ray of another version.
    """
    # Ray reads these once, when it is imported.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    ray = require("ray", "ray", "work on a cluster")
    if ray.is_initialized():  # by whoever calls this
        yield ray
        return
    with _own_signal_handlers():
        _join(ray, address)
    try:
        yield ray
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _own_signal_handlers() -> Iterator[None]:
    """Keep the handlers that this program has for the signals that stop it: Ray sets its own."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    if threading.current_thread() is threading.main_thread():
        for number, handler in handlers.items():
            if callable(handler):
                signal.signal(number, handler)


def _join(ray: Any, address: str) -> None:
    options = {"log_to_driver": False, "logging_level": "ERROR"}
    place = _running_cluster() if address == AUTO else address
    if place is None or (address == AUTO and not _answers(place)):
        _start(ray, options)
        return
    if not _answers(place):
        raise InputError(
            f"nobody answers at {place}: start a cluster there with ray start --head, or give the address "
            "that it printed"
        )
    try:
        ray.init(address=place, **options)
    except RuntimeError as error:
        if "ersion mismatch" in str(error):
            raise MismatchError(
                f"the cluster at {place} runs another version of Ray or Python than this machine, which has "
                f"Ray {ray.__version__}: install the same versions everywhere"
            ) from error
        raise _refused(place, error) from error
    except (ConnectionError, ValueError, ray.exceptions.RayError) as error:
        raise _refused(place, error) from error


def _refused(place: str, error: Exception) -> GeniusError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return GeniusError(f"the cluster at {place} can't be joined: {reason[0]}")


def _start(ray: Any, options: Mapping[str, Any]) -> None:
    """Start a cluster of this machine alone: nobody else can reach it, and it ends with this process."""
    os.environ["RAY_AUTH_MODE"] = "token"
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    ray.init(address="local", include_dashboard=False, _node_ip_address="127.0.0.1", **options)


def _running_cluster() -> str | None:
    """The address of the cluster that was started last on this machine, if Ray knows of one."""
    from ray._private import services

    try:
        address: str | None = services.get_ray_address_from_environment(AUTO, None)
    except ConnectionError:  # there is none
        return None
    return None if address == "local" else address


def _answers(address: str) -> bool:
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdigit():
        raise InputError(f"{address!r} is no address of a cluster: expected HOST:PORT, or auto")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_SECONDS):
            return True
    except OSError:
        return False


def node_resources(ray: Any) -> list[Resources]:
    """What each machine of the cluster has."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]
