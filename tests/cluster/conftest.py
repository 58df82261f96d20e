"""A cluster of three nodes on this machine alone, with a token and without a dashboard."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.made_up_build import index_alone, made_up_model, write_source

# Ray reads them when it is imported: nodes that are on the loopback device alone, and who may talk to them.
os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_worker_niceness", "0")  # beside other tests they would starve
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))

HEAD: dict[str, Any] = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}


ATTEMPTS = 8
FAILED: list[Exception] = []
"""Why nodes did not start. They hold these nodes, whose processes Ray ends only when this one does."""


def add_node(cluster: Any, **options: Any) -> None:
    """Add a node. Its parts have fifteen seconds to start, which Ray fixes: on a busy machine, it is tried
    again."""
    for attempt in range(1, 1 + ATTEMPTS):
        try:
            cluster.add_node(**NODE, **options)
        except Exception as error:
            FAILED.append(error)
            if attempt == ATTEMPTS:
                raise
        else:
            return


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
