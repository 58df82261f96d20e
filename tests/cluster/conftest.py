"""A cluster of three nodes on this machine alone, with a token and without a dashboard."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.made_up_build import index_alone, made_up_model, write_source

# Ray reads them when it is imported: nodes that are on the loopback device alone, and who may talk to them.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_agent_register_timeout_ms", "300000")
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

HEAD: dict[str, Any] = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}


PORTS = ("metrics_agent_port", "metrics_export_port", "dashboard_agent_listen_port", "runtime_env_agent_port")


@contextlib.contextmanager
def patience() -> Iterator[None]:
    """Within, a node may take minutes to come up: Ray's thirty seconds are too few on a busy machine."""
    from ray._private import services

    def patient(*given: Any, **more: Any) -> Any:
        for _ in range(100):
            with contextlib.suppress(RuntimeError):
                return real(*given, **more)
            threading.Event().wait(2)
        return real(*given, **more)

    real = services.get_node
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(services, "get_node", patient)
        yield


def add_node(cluster: Any, **options: Any) -> None:
    """Add a node whose ports are known: for those that its parts choose, it waits a few seconds only."""
    with contextlib.ExitStack() as sockets:
        taken = [sockets.enter_context(socket.socket()) for _ in PORTS]
        for each in taken:
            each.bind(("127.0.0.1", 0))
        ports = {name: each.getsockname()[1] for name, each in zip(PORTS, taken, strict=True)}
    with patience():
        cluster.add_node(**NODE, **ports, **options)


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and a source."""
    folder = tmp_path_factory.mktemp("home")
    made_up_model(folder)
    write_source(folder)
    return folder


@pytest.fixture(scope="session")
def alone(home: Path) -> tuple[Path, list[str]]:
    """What one process makes of the source, and what failed."""
    return index_alone(home / "items.jsonl", home / "model", home / "alone")


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """The cluster; whoever removes a node adds another one."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    started = Cluster()
    add_node(started, **HEAD)
    for _ in range(2):
        add_node(started)
    yield started
    started.shutdown()


@pytest.fixture(scope="session")
def ray(cluster: Any) -> Iterator[Any]:
    """The module, connected to the cluster."""
    from genius.cluster.connection import connected

    with connected(cluster.address) as module:
        yield module
