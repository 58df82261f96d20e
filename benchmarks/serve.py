"""The speed of a service, compared with searches without HTTP; its memory; additions during searches.

    python benchmarks/serve.py INDEX [--workers 2] [--clients 1 8 32 128] [--seconds 10] [--requests 50000]

Text queries, made from texts of the index; encoding is included. The index is copied before items are
added. The load comes from this process, on the same cores, and what it uses itself is discounted: a rate is
per core-second that was left to the service. The service's rate is the one with the most clients: searches
without HTTP run in batches of 32, and two workers fill such batches only if 128 clients wait. Exits 1 if
the service reaches less than 0.8 of the rate without HTTP, if its memory grows, or if an added item takes a
second to be found.
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

from options import script_parser

import genius
from genius.runtime import cores

BATCH = 32
BAR_RATIO = 0.8
BAR_GROWTH = 0.05
BAR_FOUND = 1.0


@dataclass
class Load:
    """A load on the service: seconds in all and of this process, the time of each answer, and refusals."""

    seconds: float = 0.0
    own_seconds: float = 0.0
    times: list[float] = field(default_factory=list)
    refused: int = 0

    @property
    def rate(self) -> float:
        """Answers per second."""
        return len(self.times) / self.seconds

    @property
    def rate_per_core(self) -> float:
        """Answers per core-second that was left to the service."""
        return len(self.times) / (self.seconds * cores() - self.own_seconds)

    def line(self, name: str) -> str:
        """The figures as text."""
        times = sorted(self.times)
        median, slow = (1000 * times[int(share * (len(times) - 1))] for share in (0.5, 0.99))
        return (
            f"{name:24} {self.rate:8.1f} requests/s   p50 {median:7.1f} ms   p99 {slow:7.1f} ms   "
            f"{self.refused} refused"
        )


# --- the service


@contextmanager
def service(index: Path, workers: int, batch: int) -> Iterator[tuple[str, int]]:
    """Runs `genius serve` on a free port: its address, and its process id."""
    command = [sys.executable, "-c", "from genius.cli import main; main()", "serve", str(index)]
    command += ["--port", "0", "--workers", str(workers), "--batch", str(batch)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split(" at ")[1].split()[0]
        for _ in range(20 * workers):  # until each worker has answered; a connection belongs to one worker
            with genius.Client(url) as client:
                client.search("ready", k=1)
        yield url, process.pid
    finally:
        process.terminate()
        process.wait()


def memory(pid: int) -> int:
    """The private memory of a process and its children, in bytes."""
    total = 0
    for process in (pid, *children(pid)):
        for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if line.startswith(("Private_Dirty:", "Private_Clean:")):
                total += 1024 * int(line.split()[1])
    return total


def children(pid: int) -> list[int]:
    """The ids of the processes that a process started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


# --- the load


def request(text: str, k: int) -> bytes:
    """An HTTP request for a search."""
    body = json.dumps({"text": text, "k": k}).encode()
    lines = ("POST /search HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json")
    return "\r\n".join([*lines, f"Content-Length: {len(body)}", "", ""]).encode() + body


async def read_status(reader: asyncio.StreamReader) -> int:
    """Read one answer, and return its status."""
    head = await reader.readuntil(b"\r\n\r\n")
    lower = head.lower()
    start = lower.index(b"content-length:") + 15
    await reader.readexactly(int(lower[start : lower.index(b"\r\n", start)]))
    return int(head[9:12])


async def client(port: int, queries: Iterator[bytes], load: Load, until: float, max_answers: int) -> None:
    """One client: requests one after another on one connection, until a time or a number of answers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while time.perf_counter() < until and len(load.times) < max_answers:
        began = time.perf_counter()
        writer.write(next(queries))
        if await read_status(reader) == 200:
            load.times.append(time.perf_counter() - began)
        else:
            load.refused += 1
    writer.close()
    await writer.wait_closed()


def put_under_load(
    url: str, texts: Sequence[str], clients: int, seconds: float, k: int, max_answers: int = 1 << 60
) -> Load:
    """Several clients at the same time, for `seconds` or until `max_answers`."""
    port = int(url.rpartition(":")[2])
    queries = (request(f"{text} {number}", k) for number, text in enumerate(itertools.cycle(texts)))
    load = Load()

    async def run() -> None:
        until = time.perf_counter() + seconds
        await asyncio.gather(*(client(port, queries, load, until, max_answers) for _ in range(clients)))

    own, began = _own_seconds(), time.perf_counter()
    asyncio.run(run())
    load.seconds, load.own_seconds = time.perf_counter() - began, _own_seconds() - own
    return load


def _own_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


# --- the same without HTTP


def in_process(index: Path, texts: Sequence[str], workers: int, seconds: float, k: int) -> Load:
    """The same searches in as many processes, in batches, without HTTP."""
    context = multiprocessing.get_context("spawn")
    ready, go, counts = context.Barrier(workers + 1), context.Event(), context.SimpleQueue()
    processes = [
        context.Process(
            target=_search_batches, args=(index, texts, workers, worker, seconds, k, ready, go, counts)
        )
        for worker in range(workers)
    ]
    for process in processes:
        process.start()
    ready.wait()
    began = time.perf_counter()
    go.set()
    done = sum(counts.get() for _ in processes)
    load = Load(seconds=time.perf_counter() - began, times=[0.0] * done)
    for process in processes:
        process.join()
    return load


def _search_batches(
    index: Path,
    texts: Sequence[str],
    workers: int,
    worker: int,
    seconds: float,
    k: int,
    ready: Any,
    go: Any,
    counts: Any,
) -> None:
    """Search for `seconds` after `go`, and put the number of searches into `counts`."""
    from genius.serve.server import share_of_cores

    with share_of_cores(workers, worker):
        opened = genius.Index.open(index)
        opened.search("ready", k=1)
    queries = (f"{text} {number}" for number, text in enumerate(itertools.cycle(texts)))
    ready.wait()
    go.wait()
    until, done = time.perf_counter() + seconds, 0
    while time.perf_counter() < until:
        done += len(opened.search_many(list(itertools.islice(queries, BATCH)), k=k))
    counts.put(done)


# --- adding during searches


@dataclass
class Additions:
    """Items added one by one: seconds in all, of each call, and until each item was found."""

    seconds: float = 0.0
    adds: list[float] = field(default_factory=list)
    finds: list[float] = field(default_factory=list)

    def line(self) -> str:
        """The figures as text."""
        (add, slowest_add), (find, slowest_find) = (
            (statistics.median(times), max(times)) for times in (self.adds, self.finds)
        )
        return (
            f"{len(self.finds) / self.seconds:.1f} items a second added one by one while 8 clients search; "
            f"added after {add:.2f} s (slowest {slowest_add:.2f}), found after {find:.2f} s "
            f"(slowest {slowest_find:.2f})"
        )


def add_during_searches(url: str, texts: Sequence[str], seconds: float, k: int) -> Additions:
    """Add items one by one while 8 clients search, and search for each as soon as it is added."""
    context = multiprocessing.get_context("spawn")
    searching = context.Process(target=put_under_load, args=(url, list(texts), 8, seconds + 5, k))
    searching.start()
    measured, began = Additions(), time.perf_counter()
    with genius.Client(url) as service_client:
        while time.perf_counter() < began + seconds:
            number, start = len(measured.adds), time.perf_counter()
            text = texts[number % len(texts)]
            service_client.add([genius.Item(f"added {number}", text, metadata={"added": number})])
            measured.adds.append(time.perf_counter() - start)
            hits = service_client.search(text, k=1, filter={"added": number})
            assert [hit.item.id for hit in hits] == [f"added {number}"]
            measured.finds.append(time.perf_counter() - start)
        measured.seconds = time.perf_counter() - began
    searching.join()
    return measured


# --- all measurements


def main() -> int:
    """Measure and print; the exit code says whether the bars were held."""
    parser = script_parser(__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("--workers", type=int, default=2, help="processes of the service (default: 2)")
    parser.add_argument(
        "--clients", type=int, nargs="+", default=[1, 8, 32, 128], help="at a time (default: 1 8 32 128)"
    )
    parser.add_argument("--seconds", type=float, default=10.0, help="of each load (default: 10)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--requests", type=int, default=50_000, help="after which memory is compared; 0 leaves it out"
    )
    parser.add_argument("-k", type=int, default=10, help="results of a search (default: 10)")
    options = parser.parse_args()
    with genius.Index.open(options.index) as index:
        texts = [item.text for item in itertools.islice(index, 20_000) if item.text][:2000] or ["a picture"]
        print(
            f"{len(index):,} items, {options.workers} workers, {cores()} cores, {time.strftime('%Y-%m-%d')}, "
            f"Python {platform.python_version()}, genius {genius.__version__}"
        )
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder, "index")
        shutil.copytree(options.index, copy)
        return int(not all(measure(copy, texts, options)))


def measure(index: Path, texts: list[str], options: argparse.Namespace) -> list[bool]:
    """All measurements; whether each bar was held."""
    batched, single, without_http = [], [], []
    max_clients = max(options.clients)
    for _ in range(options.rounds):  # in turns, so that other load on the machine affects all alike
        with service(index, options.workers, BATCH) as (url, _):
            for clients in options.clients:
                load = put_under_load(url, texts, clients, options.seconds, options.k)
                print(load.line(f"{clients} clients"))
            batched.append(load)
        with service(index, options.workers, 1) as (url, _):
            single.append(put_under_load(url, texts, max_clients, options.seconds, options.k))
            print(single[-1].line(f"{max_clients} clients, no batches"))
        without_http.append(in_process(index, texts, options.workers, options.seconds, options.k))
        print(f"{'without HTTP':24} {without_http[-1].rate:8.1f} searches/s")
    batched_rate, single_rate, rate_without_http = (
        statistics.median(load.rate_per_core for load in loads) for loads in (batched, single, without_http)
    )
    ratio = batched_rate / rate_without_http
    print(f"batches make it {batched_rate / single_rate:.2f} times as fast")
    print(f"of the throughput without HTTP the service reaches {ratio:.2f} (bar {BAR_RATIO})")
    return [ratio >= BAR_RATIO, *measure_long_run(index, texts, options)]


def measure_long_run(index: Path, texts: list[str], options: argparse.Namespace) -> list[bool]:
    """Memory over many requests, and items added during searches; whether the bars were held."""
    held = []
    with service(index, options.workers, BATCH) as (url, pid):
        if options.requests:
            warm_up = options.requests // 10
            put_under_load(url, texts, 32, 1e9, options.k, warm_up)
            before = memory(pid)
            put_under_load(url, texts, 32, 1e9, options.k, options.requests - warm_up)
            growth = memory(pid) / before - 1
            print(f"memory {before / 1e6:.0f} MB, and {growth:+.1%} after {options.requests:,} requests")
            held.append(growth < BAR_GROWTH)
        additions = add_during_searches(url, texts, options.seconds, options.k)
        print(additions.line())
        held.append(max(additions.finds) < BAR_FOUND)
    return held


if __name__ == "__main__":
    sys.exit(main())
