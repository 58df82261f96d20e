"""Shards served by a Ray cluster: answers while replicas are killed, and latency beside one index.

    python benchmarks/shard_serving.py kills [--seconds 120] [--clients 8] [--every 10]
    python benchmarks/shard_serving.py latency [--queries 300]

Both start a cluster of three nodes on this machine and serve an index of made-up vectors, three shards of two
replicas each. `kills` has clients search by HTTP, in the mode `scan`, whose answers must be equal to those of
the index, while now and then a random replica is killed, of a shard that has both of its; a request that is
refused (503) is sent again, up to `--tries` times. Then a shard is taken away: answers must be partial and
say so. Exits 1 if an answer is wrong, partial too early or too late, or lost. `latency` searches one query
after another: in one index, in the sharded one, and through the cluster.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from figures import print_figures, verdict_line
from options import add_json, script_parser

from genius.client.client import Client
from genius.data.records import Item
from genius.errors import GeniusError
from genius.index.index import Index
from genius.model import Model

WIDTH, SHARDS, REPLICAS, K = 64, 3, 2, 10
NODE: dict[str, Any] = {"num_cpus": 1, "object_store_memory": 80 << 20}
HEAD: dict[str, Any] = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}


@dataclass
class Answers:
    """What became of the requests: how long each took, and how many ended how."""

    seconds: list[float] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)


def write_index(folder: Path, items: int, shards: int | None) -> Path:
    """An index of made-up vectors, the same ones every time."""
    numbers, path = np.random.default_rng(0), folder / f"index-{shards}"
    vectors = numbers.normal(size=(items, WIDTH)).astype(np.float32)
    listed = [Item(str(row), f"text {row}", vector=vector) for row, vector in enumerate(vectors)]
    if not (folder / "model").exists():
        Model.fit(listed[:5000], encoder="precomputed", out=folder / "model")
    with Index.create(path, folder / "model", shards=shards) as index:
        index.add(listed, cache=folder / "cache")
        index.compact()
    return path


@contextlib.contextmanager
def local_cluster() -> Iterator[Any]:
    """A cluster of three nodes on this machine: its address, and `ray`, connected to it."""
    from ray.cluster_utils import Cluster

    from genius.cluster.connection import connected

    cluster = Cluster()
    try:
        for number in range(3):
            cluster.add_node(**NODE, **({} if number else HEAD))
        with connected(cluster.address) as ray:
            yield cluster.address, ray
    finally:
        cluster.shutdown()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def service(index: Path, address: str) -> Iterator[str]:
    """Runs `genius serve --ray` on a free port; its address."""
    command = [sys.executable, "-m", "genius", "serve", str(index), "--port", "0", "--ray", address]
    with subprocess.Popen(
        [*command, "--replicas", str(REPLICAS)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        if " at http" not in line:
            raise SystemExit("the service did not start")
        try:
            yield line.split(" at ")[1].split()[0]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait()


def search_on(
    url: str, queries: np.ndarray, expected: list[Any], until: threading.Event, tries: int, seed: int
) -> Answers:
    """One client, which searches until it is to stop, and compares what comes."""
    client, dice, answers = Client(url, timeout=120), random.Random(seed), Answers()
    while not until.is_set():
        number, begun = dice.randrange(len(queries)), time.perf_counter()
        for attempt in range(tries):
            try:
                hits = client.search(vector=queries[number], k=K, mode="scan")
            except GeniusError as error:
                answers.errors[str(error).replace(url, "URL")] += 1
                answers.counts["lost" if attempt + 1 == tries else "sent again"] += 1
                time.sleep(1.0)
                continue
            answers.counts[kind_of(hits, expected[number])] += 1
            break
        answers.seconds.append(time.perf_counter() - begun)
    return answers


def kind_of(hits: Any, expected: list[tuple[str, float]]) -> str:
    """Whether an answer is the expected one."""
    if hits.partial:
        return f"partial without {', '.join(hits.missing_shards)}"
    same = [hit.item.id for hit in hits] == [id for id, _ in expected] and np.allclose(
        [hit.score for hit in hits], [score for _, score in expected], atol=1e-5
    )
    return "right" if same else "wrong"


def under_load(
    url: str, queries: np.ndarray, expected: list[Any], options: argparse.Namespace, work: Any
) -> Answers:
    """What clients get while something is done."""
    until, together = threading.Event(), Answers()

    def client(seed: int) -> None:
        own = search_on(url, queries, expected, until, options.tries, seed)
        together.seconds.extend(own.seconds)
        together.counts.update(own.counts)
        together.errors.update(own.errors)

    threads = [threading.Thread(target=client, args=(seed,)) for seed in range(options.clients)]
    for thread in threads:
        thread.start()
    work()
    until.set()
    for thread in threads:
        thread.join()
    return together


def kill_replicas(ray: Any, seconds: float, every: float) -> int:
    """Now and then kill a random replica of a shard that has all of its; how many were killed."""
    from ray.serve.context import _get_global_client

    dice, killed, end = random.Random(0), 0, time.monotonic() + seconds
    while time.monotonic() + every < end:
        time.sleep(every)
        client = _get_global_client()
        assert client is not None
        details = client.get_serve_details()
        deployments = [
            deployment["replicas"]
            for application in details["applications"].values()
            for deployment in application["deployments"].values()
        ]
        whole = [
            replicas
            for replicas in deployments
            if [replica["state"] for replica in replicas] == ["RUNNING"] * REPLICAS
        ]
        if whole:
            chosen = dice.choice(dice.choice(whole))
            ray.kill(ray.get_actor(chosen["actor_name"], namespace="serve"))
            killed += 1
    time.sleep(max(0.0, end - time.monotonic()))
    return killed


def kills(folder: Path, options: argparse.Namespace) -> bool:
    """Measure under kills, and then without a shard; whether all went well."""
    from ray import serve

    from genius.cluster.ray_shards import application_name

    path = write_index(folder, options.items, SHARDS)
    queries = np.random.default_rng(1).normal(size=(200, WIDTH)).astype(np.float32)
    with Index.open(path) as index:
        found_here = [index.search(vector=query, k=K, mode="scan") for query in queries]
    expected = [[(hit.item.id, hit.score) for hit in hits] for hits in found_here]
    killed: list[int] = []
    with local_cluster() as (address, ray), service(path, address) as url:
        before = under_load(url, queries, expected, options, lambda: time.sleep(10))
        during = under_load(
            url,
            queries,
            expected,
            options,
            lambda: killed.append(kill_replicas(ray, options.seconds, options.every)),
        )
        serve.delete(application_name(sorted(path.glob("shard-*"))[1]))
        without = under_load(url, queries, expected, options, lambda: time.sleep(10))
    print(f"{killed[0]} replicas killed in {options.seconds:g} s, {options.clients} clients")
    for name, answers in (("before", before), ("during", during), ("without a shard", without)):
        p50, p99, worst = (1000 * float(np.quantile(answers.seconds, part)) for part in (0.5, 0.99, 1.0))
        print(
            f"{name:16} {len(answers.seconds):7,} requests   p50 {p50:6.1f} ms   p99 {p99:7.1f} ms   "
            f"slowest {worst:7.1f} ms   {dict(answers.counts)}"
        )
        for error, count in answers.errors.most_common(5):
            print(f"    {count} × {error}")
    whole = {"right", "sent again"}
    sound = before.counts.keys() <= whole and during.counts.keys() <= whole
    said = without.counts.keys() == {"partial without shard-01"}
    print(verdict_line("no wrong, partial or lost answer while replicas are killed", sound))
    print(verdict_line("every answer without a shard says so", said))
    return sound and said


def latency(folder: Path, options: argparse.Namespace) -> None:
    """Milliseconds of one search after another."""
    from genius.cluster.ray_serve import ShardService, open_routed
    from genius.cluster.ray_shards import applications
    from genius.serve.config import Settings

    paths = [write_index(folder, options.items, shards) for shards in (None, SHARDS)]
    queries = np.random.default_rng(1).normal(size=(options.queries, WIDTH)).astype(np.float32)
    with contextlib.ExitStack() as opened:
        address, ray = opened.enter_context(local_cluster())
        whole, sharded = (opened.enter_context(Index.open(path)) for path in paths)
        opened.enter_context(applications(ray, sharded.shard_folders, str(folder / "model"), REPLICAS))
        routed = opened.enter_context(open_routed(ShardService(address), Settings(paths[1])))
        places = {"one index": whole, "the sharded index": sharded, "through the cluster": routed}
        times: dict[str, list[float]] = {name: [] for name in places}
        for number, query in enumerate([*queries[:20], *queries]):
            for name, index in places.items():
                begun = time.perf_counter()
                index.search(vector=query, k=K)
                if number >= 20:
                    times[name].append(1000 * (time.perf_counter() - begun))
    figures = {}
    for name, values in times.items():
        figures[f"{name}, p50 ms"], figures[f"{name}, p99 ms"] = np.quantile(values, [0.5, 0.99]).tolist()
    print_figures(figures, as_json=options.json)


def main() -> None:
    """Parse the command line and measure."""
    parser = script_parser(__doc__)
    parser.add_argument("what", choices=["kills", "latency"])
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--seconds", type=float, default=120)
    parser.add_argument("--every", type=float, default=10)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--tries", type=int, default=3)
    parser.add_argument("--queries", type=int, default=300)
    add_json(parser)
    options = parser.parse_args()
    # Ray reads these when it is imported: nodes on the loopback device alone, and who may talk to them.
    os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
    os.environ.setdefault("RAY_AUTH_MODE", "token")
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))
    with tempfile.TemporaryDirectory() as name:
        if options.what == "latency":
            latency(Path(name), options)
            return
        sys.exit(not kills(Path(name), options))


if __name__ == "__main__":
    main()
