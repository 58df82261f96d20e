from __future__ import annotations

import signal
import socket
import subprocess
import sys
from typing import Any

import pytest

from genius.cluster import connection
from genius.cluster.connection import Layout, connected, lay_out
from genius.errors import GeniusError, InputError, MismatchError, MissingError

NODES = [{"CPU": 8.0, "GPU": 2.0}, {"CPU": 4.0}, {"CPU": 4.0, "GPU": 1.0}]


def test_workers_get_as_many_cores_as_all_can_have() -> None:
    assert lay_out(NODES) == Layout(16, 1)
    assert lay_out(NODES, 4) == Layout(4, 4)
    assert lay_out(NODES, 5) == Layout(5, 2)
    assert lay_out(NODES, 3) == Layout(3, 4)
    assert lay_out(NODES, 1) == Layout(1, 8)
    assert lay_out(NODES, gpus=1.0) == Layout(3, 4, 1.0)
    assert lay_out(NODES, 6, gpus=0.5) == Layout(6, 2, 0.5)


def test_too_many_workers_are_refused() -> None:
    with pytest.raises(InputError, match="room for 16 workers with a core each, and 17 are wanted"):
        lay_out(NODES, 17)
    with pytest.raises(InputError, match="room for 0 workers with a core and 4 GPUs each, and 1 are wanted"):
        lay_out(NODES, gpus=4.0)


def fresh(script: str) -> str:
    """What a process prints that has never heard of a cluster."""
    lines = [
        "from genius.cluster.connection import connected",
        "from genius.errors import GeniusError",
        script,
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def test_an_address_that_nobody_answers_at_is_an_error_at_once() -> None:
    pytest.importorskip("ray")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        shown = fresh(
            f"try:\n    with connected({address!r}): pass\n"
            "except GeniusError as error: print(type(error).__name__, error)"
        )
    assert shown.startswith(f"InputError nobody answers at {address}: start a cluster there")


class FakeRay:
    """A module that raises something when it is to join a cluster."""

    __version__ = "2.60.0"

    class exceptions:
        RayError = KeyError

    def __init__(self, error: Exception) -> None:
        self._error = error

    def is_initialized(self) -> bool:
        return False

    def init(self, **options: Any) -> None:
        raise self._error


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (
            RuntimeError("Version mismatch: The cluster was started with:"),
            MismatchError,
            "another version of Ray",
        ),
        (RuntimeError("odd\nthings"), GeniusError, "the cluster at h:1 can't be joined: odd"),
        (ConnectionError(""), GeniusError, "can't be joined: ConnectionError"),
    ],
)
def test_a_cluster_that_can_not_be_entered_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, error: Exception, kind: type[Exception], message: str
) -> None:
    monkeypatch.setattr(connection, "require", lambda *names: FakeRay(error))
    monkeypatch.setattr(connection, "_answers", lambda address: True)
    with pytest.raises(kind, match=message), connected("h:1"):
        pass


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises((MissingError, ModuleNotFoundError), match="ray"), connected("auto"):
        pass
    with pytest.raises(InputError, match="'nowhere' is no address of a cluster"):
        connection._answers("nowhere")


def test_a_machine_without_a_cluster_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    services = pytest.importorskip("ray._private.services")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(services, "find_gcs_addresses", set)
    monkeypatch.setattr(services, "find_bootstrap_address", lambda folder: None)
    assert connection._running_cluster() is None


def test_handlers_of_signals_stay_when_a_program_connects(monkeypatch: pytest.MonkeyPatch) -> None:
    class Connecting(FakeRay):
        def init(self, **options: Any) -> None:
            signal.signal(signal.SIGTERM, lambda number, frame: None)

        def shutdown(self) -> None:
            pass

    monkeypatch.setattr(connection, "require", lambda *names: Connecting(ValueError()))
    monkeypatch.setattr(connection, "_answers", lambda address: True)
    before = signal.getsignal(signal.SIGTERM)

    def own(number: int, frame: object) -> None:
        pass

    try:
        signal.signal(signal.SIGTERM, own)
        with connected("h:1"):
            assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)


@pytest.mark.long
def test_auto_starts_a_cluster_of_this_machine_that_nobody_else_reaches() -> None:
    pytest.importorskip("ray")
    script = (
        "import os\n"
        "for name in ('ADDRESS', 'AUTH_MODE', 'AUTH_TOKEN', 'ENABLE_WINDOWS_OR_OSX_CLUSTER'):\n"
        "    os.environ.pop('RAY_' + name, None)\n"
        "from genius.cluster import connection\nconnection._running_cluster = lambda: None\n"
        "with connected('auto') as ray:\n    print([node['NodeManagerAddress'] for node in ray.nodes()])"
    )
    assert fresh(script) == "['127.0.0.1']"
