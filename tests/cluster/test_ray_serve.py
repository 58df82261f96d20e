"""`genius serve --ray` on a real cluster of three nodes: the same answers, whatever happens to replicas."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.client.client import Client
from genius.cluster.ray_serve import ShardService, open_routed, serve_on_cluster
from genius.cluster.ray_shards import application_name, applications
from genius.data.read import read
from genius.errors import DamagedError, GeniusError, InputError, ShardError
from genius.index.hits import Hits
from genius.index.index import Index
from genius.serve.config import Settings
from tests.cluster.made_up_build import WIDTH

QUERIES = np.random.default_rng(5).normal(size=(8, WIDTH))
OPTIONS: tuple[dict[str, Any], ...] = (
    {"k": 7},
    {"k": 5, "mode": "scan", "filter": {"number": {"$lt": 300}}},
    {"k": 5, "mode": "safe", "want": "image", "offset": 2},
    {"k": 4, "mode": "exact", "rerank": False, "exclude": ["item 3"]},
)


@dataclass(frozen=True)
class RunningService:
    """The command, as it runs in a process of its own."""

    url: str
    path: Path
    model: Path

    @property
    def folders(self) -> list[Path]:
        return sorted(self.path.glob("shard-*"))


@pytest.fixture(scope="module")
def running(
    cluster: Any, ray: Any, home: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningService]:
    path = tmp_path_factory.mktemp("served") / "index"
    with Index.create(path, home / "model", shards=2) as index:
        index.add(read(home / "items.jsonl"), cache=home / "cache")
    command = [sys.executable, "-m", "genius", "serve", str(path), "--ray", cluster.address, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "1,496 items at http://" in line, line
        try:
            yield RunningService(line.split(" at ")[1].split()[0], path, home / "model")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)
    from ray import serve

    wait_until_none_run(serve)  # they end with the command
    serve.shutdown()


def wait_until_none_run(serve: Any) -> None:
    """Wait until Ray has stopped all applications, which it does in its own time."""
    deadline = time.monotonic() + 60
    while serve.status().applications:
        assert time.monotonic() < deadline, serve.status()
        time.sleep(0.1)


@pytest.fixture
def local(running: RunningService) -> Iterator[Index]:
    """The same index, searched here."""
    with Index.open(running.path) as index:
        yield index


def check(hits: Hits, expected: Hits) -> None:
    """Every hit of the index is here with the same score, or as many that score as high."""
    assert len(hits) == len(expected) and not hits.partial
    scores = {hit.item.id: hit.score for hit in hits}
    for hit in expected:
        as_good = sum(other >= hit.score - 1e-5 for other in scores.values())
        assert abs(scores.get(hit.item.id, -1e9) - hit.score) <= 1e-5 or as_good >= len(expected)


def test_answers_over_http_are_those_of_the_index(running: RunningService, local: Index) -> None:
    client = Client(running.url)
    for options in OPTIONS:
        for vector in QUERIES:
            hits, expected = client.search(vector=vector, **options), local.search(vector=vector, **options)
            check(hits, expected)
            assert hits.notes == expected.notes
            for hit, other in zip(hits, expected, strict=True):
                if hit.item.id == other.item.id:
                    assert hit.confidence == pytest.approx(other.confidence, abs=1e-5)
                    assert hit.prefix_counts == other.prefix_counts
    check(client.search(near="item 7", k=9), local.search(near="item 7", k=9))
    assert client.get("item 7") is not None
    with pytest.raises(InputError, match="nothing can be near it"):
        client.search(near="nothing")
    with pytest.raises(GeniusError, match="only reads"):
        client.remove("item 7")


def replicas_of(ray: Any, folder: Path) -> list[Any]:
    """The actors that serve a shard."""
    return [
        ray.get_actor(actor["name"], namespace=actor["namespace"])
        for actor in ray.util.list_named_actors(all_namespaces=True)
        if f"#{folder.name}#" in actor["name"]
    ]


def test_a_replica_that_dies_costs_time_and_no_answer(
    ray: Any, running: RunningService, local: Index
) -> None:
    service = ShardService(ray.get_runtime_context().gcs_address, seconds=300.0)
    with open_routed(service, Settings(running.path)) as routed:
        check(routed.search(vector=QUERIES[0]), local.search(vector=QUERIES[0]))
        for replica in replicas_of(ray, running.folders[0]):
            ray.kill(replica)
        answers: list[Hits] = []
        threads = [
            threading.Thread(target=lambda vector=vector: answers.append(routed.search(vector=vector, k=1)))
            for vector in QUERIES
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        best = {local.search(vector=vector, k=1)[0].item.id for vector in QUERIES}
        assert {hits[0].item.id for hits in answers} == best and not any(hits.partial for hits in answers)


def test_whoever_joins_leaves_the_shards_to_the_others(ray: Any, running: RunningService) -> None:
    from ray import serve

    with applications(ray, running.folders, str(running.model), 5):
        pass
    assert {application_name(folder) for folder in running.folders} == set(serve.status().applications)


def test_a_shard_that_is_gone_makes_answers_partial_or_an_error(ray: Any, running: RunningService) -> None:
    from ray import serve

    client, query = Client(running.url), {"vector": QUERIES[0], "k": 5, "mode": "scan"}
    service = ShardService(ray.get_runtime_context().gcs_address, on_missing_shard="error")
    with open_routed(service, Settings(running.path)) as strict:
        assert not strict.search(**query).partial
        serve.delete(application_name(running.folders[1]))
        hits = client.search(**query)
        assert hits.partial and hits.missing_shards == ("shard-01",)
        with Index.open(running.folders[0]) as present:
            assert [hit.item.id for hit in hits] == [hit.item.id for hit in present.search(**query)]
        missing = r"1 of 2 shards did not answer \(shard-01\): try again"
        with pytest.raises(ShardError, match=missing):
            strict.search(**query)
        # Whoever searches may choose otherwise than whoever started the service.
        assert strict.search(**query, on_missing_shard="partial").partial
        with pytest.raises(GeniusError, match=missing):
            client.search(**query, on_missing_shard="error")
    with pytest.raises(GeniusError, match="nobody serves the shards of this index"):
        open_routed(service, Settings(running.path))


def test_what_can_not_be_served_is_one_sentence(cluster: Any, ray: Any, home: Path, tmp_path: Path) -> None:
    path = tmp_path / "index"
    Index.create(path, home / "model", shards=2).close()
    for service in ({"replicas": 0}, {"on_missing_shard": "maybe"}, {"address": "ray://h:1"}):
        with pytest.raises(InputError, match=r"at least one replica|partial or an error|over ray://h:1"):
            ShardService(**service)
    with pytest.raises(InputError, match="no room for 1,000 replicas"), applications(ray, [path], "m", 1000):
        pass
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InputError, match="cannot listen"):
        # Nobody answers at this address: the port is tried first.
        serve_on_cluster(Settings(path, port=taken.getsockname()[1]), ShardService("127.0.0.1:1"))
    (path / "shard-01").rename(tmp_path / "aside")
    with pytest.raises(DamagedError, match="shard-01 is gone"):
        serve_on_cluster(Settings(path), ShardService(cluster.address))
    (tmp_path / "aside").rename(path / "shard-01")
    (path / "shards.json").write_text("{")
    with pytest.raises(DamagedError, match="damaged"):
        serve_on_cluster(Settings(path), ShardService(cluster.address))
