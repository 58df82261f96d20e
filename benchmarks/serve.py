"""A service beside the same searches without HTTP: throughput, times, batches, memory, and adding meanwhile.

    python benchmarks/serve.py INDEX [--workers 2] [--clients 1 8 32 128] [--seconds 10] [--requests 50000]

Text queries, encoder included, made from texts of the index. The index is copied before items are added. The
load comes from this process, on the same cores; what it uses itself is discounted: a rate is per core-second
that was left to the service. Its throughput is that of the most clients: the searches alone are in batches of
32, and those of two workers are only if 128 clients wait, half of them while others are searched. Exits 1 if
the service reaches less than 0.8 of what its searches reach alone, if its memory grows, or if an item takes
a second to be found.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import multiprocessing
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import genius
from genius.runtime import cores

BATCH = 32
BAR_RATIO = 0.8
BAR_GROWTH = 0.05
BAR_FOUND = 1.0


@dataclass
class Load:
    """What a load measured."""

    seconds: float = 0.0
    own_seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    refused: int = 0

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.times) / self.seconds

    @property
    def rate_of_a_core(self) -> float:
        """Answers a core-second that was left to the service."""
        return len(self.times) / (self.seconds * cores() - self.own_seconds)

    def line(self, name: str) -> str:
        """For people."""
        times = sorted(self.times)
        half, most = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
        return (
            f"{name:24} {self.rate:8.1f} requests/s   p50 {half:7.1f} ms   p99 {most:7.1f} ms   "
            f"{self.refused} refused"
        )


# --- the service


@contextmanager
def service(index: Path, workers: int, batch: int) -> Iterator[tuple[str, int]]:
    """`genius serve` on a free port: its address, and its process."""
    command = [sys.executable, "-c", "from genius.cli import main; main()", "serve", str(index)]
    command += ["--port", "0", "--workers", str(workers), "--batch", str(batch)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split(" at ")[1].split()[0]
        for _ in range(20 * workers):  # each worker should have answered; a connection is one worker's
            with genius.Client(url) as client:
                client.search("ready", k=1)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def memory(pid: int) -> int:
    """Bytes that a process and its children have for themselves."""
    total = 0
    for one in (pid, *children(pid)):
        for line in Path(f"/proc/{one}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_Dirty:", "Private_Clean:")):
                total += 1024 * int(line.split()[1])
    return total


def children(pid: int) -> list[int]:
    """The processes that a process started."""
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# --- the load


def request(text: str, k: int) -> bytes:
    """A search as it goes over the wire."""
    body = json.dumps({"text": text, "k": k}).encode()
    lines = ("POST /search HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json")
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def answer(reader: asyncio.StreamReader) -> int:
    """Read one answer; its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    start = lower.index(b"content-length:") + 15
    await reader.readexactly(int(lower[start : lower.index(b"\r\n", start)]))
    return int(head[9:12])


async def client(port: int, queries: Iterator[bytes], load: Load, until: float, most: int) -> None:
    """One client: a request after the other on one connection."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until and len(load.times) < most:
        began = time.perf_counter()
        writer.write(next(queries))
        if await answer(reader) == 200:
            load.times.append(time.perf_counter() - began)
        else:
            load.refused += 1
    writer.close()
    await writer.wait_closed()


def put_under_load(
    url: str, texts: Sequence[str], clients: int, seconds: float, k: int, most: int = 1 << 60
) -> Load:
    """Some clients at the same time, for so long or so many requests."""
    port = int(url.rpartition(":")[2])
    queries = (request(f"{text} {number}", k) for number, text in enumerate(itertools.cycle(texts)))
    load = Load()

    async def run() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(client(port, queries, load, until, most) for _ in range(clients)))

    own, began = _own_seconds(), time.perf_counter()
    asyncio.run(run())
    load.seconds, load.own_seconds = time.perf_counter() - began, _own_seconds() - own
    return load


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- the same without HTTP


def in_process(index: Path, texts: Sequence[str], workers: int, seconds: float, k: int) -> Load:
    """The same searches in as many processes, in batches, without a service."""
    context = multiprocessing.get_context("spawn")
    ready, go, found = context.Barrier(workers + 1), context.Event(), context.SimpleQueue()
    processes = [
        context.Process(
            target=_search_alone, args=(index, texts, workers, place, seconds, k, ready, go, found)
        )
        for place in range(workers)
    ]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    go.set()
    done = sum(found.get() for _ in processes)
    load = Load(seconds=time.perf_counter() - began, times=[0.0] * done)
    for process in processes:
        process.join()
    return load


def _search_alone(
    index: Path,
    texts: Sequence[str],
    workers: int,
    place: int,
    seconds: float,
    k: int,
    ready: Any,
    go: Any,
    found: Any,
) -> None:
    from genius.serve.server import share_of_cores

    with share_of_cores(workers, place):
        opened = genius.Index.open(index)
        opened.search("ready", k=1)
    queries = (f"{text} {number}" for number, text in enumerate(itertools.cycle(texts)))
    ready.wait()
    go.wait()
    until, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        done += len(opened.search_many(list(itertools.islice(queries, BATCH)), k=k))
    found.put(done)


# --- adding meanwhile


@dataclass
class Adding:
    """What adding items one by one measured: the seconds of each call, and those until its item was found."""

    seconds: float = 0.0
    adds: list[float] = field(default_factory=list)
    finds: list[float] = field(default_factory=list)

    def line(self) -> str:
        """For people."""
        (add, slowest_add), (find, slowest_find) = (
            (statistics.median(times), max(times)) for times in (self.adds, self.finds)
        )
        return (
            f"{len(self.finds) / self.seconds:.1f} items a second added one by one while 8 clients search; "
            f"added after {add:.2f} s (slowest {slowest_add:.2f}), found after {find:.2f} s "
            f"(slowest {slowest_find:.2f})"
        )


def add_meanwhile(url: str, texts: Sequence[str], seconds: float, k: int) -> Adding:
    """Items added one by one while 8 clients search, each looked for as soon as it is added."""
    context = multiprocessing.get_context("spawn")
    searching = context.Process(target=put_under_load, args=(url, list(texts), 8, seconds + 5, k))
    searching.start()
    measured, began = Adding(), time.perf_counter()
    with genius.Client(url) as added:
        while time.perf_counter() < began + seconds:
            number, start = len(measured.adds), time.perf_counter()
            added.add(
                [genius.Item(f"added {number}", texts[number % len(texts)], metadata={"added": number})]
            )
            measured.adds.append(time.perf_counter() - start)
            found = added.search(texts[number % len(texts)], k=1, filter={"added": number})
            assert [hit.item.id for hit in found] == [f"added {number}"]
            measured.finds.append(time.perf_counter() - start)
        measured.seconds = time.perf_counter() - began
    searching.join()
    return measured


def main() -> int:
    """Measure, print, and say by the exit code whether the bars hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("index", type=Path)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 8, 32, 128])
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=50_000, help="for the memory; 0 leaves it out")
    parser.add_argument("-k", type=int, default=10)
    asked = parser.parse_args()
    with genius.Index.open(asked.index) as index:
        texts = [item.text for item in itertools.islice(index, 20_000) if item.text][:2000] or ["a picture"]
        print(
            f"{len(index):,} items, {asked.workers} workers, {cores()} cores, {time.strftime('%Y-%m-%d')}, "
            f"Python {platform.python_version()}, genius {genius.__version__}"
        )
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "index")
        shutil.copytree(asked.index, copy)
        return int(not all(measure(copy, texts, asked)))


def measure(index: Path, texts: list[str], asked: argparse.Namespace) -> list[bool]:
    """All measurements; whether each bar holds."""
    most = max(asked.clients)
    batched, single, alone = [], [], []
    for _ in range(asked.rounds):  # by turns, so that what else runs here meets all of them
        with service(index, asked.workers, BATCH) as (url, _):
            for clients in asked.clients:
                load = put_under_load(url, texts, clients, asked.seconds, asked.k)
                print(load.line(f"{clients} clients"))
            batched.append(load)
        with service(index, asked.workers, 1) as (url, _):
            single.append(put_under_load(url, texts, most, asked.seconds, asked.k))
            print(single[-1].line(f"{most} clients, no batches"))
        alone.append(in_process(index, texts, asked.workers, asked.seconds, asked.k))
        print(f"{'without HTTP':24} {alone[-1].rate:8.1f} searches/s")
    middle = {
        name: statistics.median(load.rate_of_a_core for load in loads)
        for name, loads in (("batched", batched), ("single", single), ("alone", alone))
    }
    ratio = middle["batched"] / middle["alone"]
    print(f"batches make it {middle['batched'] / middle['single']:.2f} times as fast")
    print(f"of the throughput without HTTP the service reaches {ratio:.2f} (bar {BAR_RATIO})")
    return [ratio >= BAR_RATIO, *hold(index, texts, asked)]


def hold(index: Path, texts: list[str], asked: argparse.Namespace) -> list[bool]:
    """Memory over many requests, and items added meanwhile; whether the bars hold."""
    held = []
    with service(index, asked.workers, BATCH) as (url, pid):
        if asked.requests:
            put_under_load(url, texts, 32, 1e9, asked.k, asked.requests // 10)
            before = memory(pid)
            put_under_load(url, texts, 32, 1e9, asked.k, asked.requests - asked.requests // 10)
            growth = memory(pid) / before - 1
            print(f"memory {before / 1e6:.0f} MB, and {growth:+.1%} after {asked.requests:,} requests")
            held.append(growth < BAR_GROWTH)
        adding = add_meanwhile(url, texts, asked.seconds, asked.k)
        print(adding.line())
        held.append(max(adding.finds) < BAR_FOUND)
    return held


if __name__ == "__main__":
    sys.exit(main())
