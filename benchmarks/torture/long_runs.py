"""Long runs: a writer with four readers, a service under load: memory and open files stay flat."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.faults.changing_writer import states
from tests.index.made_up_index import open_made_up
from torture.orphans import die_with_parent
from torture.scenario import Outcome, Scenario, Trial, seen_together
from torture.service import NEEDS, answer, index_for_services

PERIOD = 20.0
"""Seconds of a trial."""
REST = 0.1
"""Seconds between two steps of a process: hours of it then take minutes of the processor."""
READERS = 4
GROWTH = 32 << 20
"""Bytes that a process may grow by between the first period and a later one, beyond what it first had."""
MAPPED = 100
"""Open files that a process may have more than at first: each mapped array of each segment holds one."""


def resident() -> int:
    """Bytes of memory of this process that are its own; pages of mapped files don't count."""
    fields = Path("/proc/self/statm").read_text().split()
    return (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")


def open_files() -> int:
    """How many files this process has open."""
    return len(list(Path("/proc/self/fd").iterdir()))


EDGE, HOUR = 30, 180
"""Periods of ten minutes, which are begin and end, and of an hour."""
AGE = "largest age of the processes, seconds"


class Flat:
    """Remembers what a process had after its first period, and compares later ones with that."""

    def __init__(self) -> None:
        self._first: tuple[int, int] | None = None

    def check(self, outcome: Outcome, who: str) -> None:
        """Whether memory and open files are what they were."""
        memory, files = resident(), open_files()
        if self._first is None:
            self._first = memory, files
        grown = memory - self._first[0]
        outcome.expect(grown < GROWTH, f"{who} has grown by {grown >> 20} MB")
        outcome.expect(
            files <= self._first[1] + MAPPED, f"{who} has {files} files open, at first {self._first[1]}"
        )
        outcome.seen["largest growth, MB"] = max(outcome.seen["largest growth, MB"], grown >> 20)


class Other:
    """A fork of this process that works for a period whenever it is told to, and reports lines."""

    def __init__(self, work: Callable[[], Callable[[float], list[str]]]) -> None:
        told, self._tell = os.pipe()
        self._report, reported = os.pipe()
        self._pid = os.fork()
        if self._pid == 0:
            try:
                die_with_parent()
                period = work()
                while os.read(told, 1):
                    lines = period(time.monotonic() + PERIOD)
                    os.write(reported, ("\n".join(lines)[:60000] + "\0").encode())
            finally:
                os._exit(1)
        os.close(told)
        os.close(reported)

    def start(self) -> None:
        """Begin a period."""
        os.write(self._tell, b".")

    def result(self) -> list[str]:
        """What a period gave, when it is over."""
        said = b""
        while not said.endswith(b"\0"):
            part = os.read(self._report, 65536)
            if not part:
                return ["failed: the process died"]
            said += part
        return said[:-1].decode().splitlines()

    def stop(self) -> None:
        """End it."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)


def prepare_readers(folder: Path) -> Trial:
    """Processes that live through all trials: a writer that goes through the same states again and again."""
    path, expected = folder / "index", states()
    with open_made_up(path) as index:
        index.search("text", k=1)  # compiles what all use
    writer = Other(lambda: _writing(path, expected))
    readers = [Other(lambda n=number: _reading(path, expected, n)) for number in range(READERS)]  # type: ignore[misc]
    lived = 0

    def trial(seed: int) -> Outcome:
        nonlocal lived
        outcome = Outcome()
        for process in (writer, *readers):
            process.start()
        for name, process in [
            ("writer", writer),
            *((f"reader {n}", reader) for n, reader in enumerate(readers)),
        ]:
            for line in process.result():
                kind, _, rest = line.partition(": ")
                if kind == "failed":
                    outcome.failures.append(f"{name}: {rest}")
                else:
                    outcome.seen = seen_together(outcome.seen, {kind: int(rest)})
        outcome.count = round(PERIOD)  # not what passed: all may have been paused meanwhile
        lived += outcome.count
        outcome.seen[AGE] = lived
        return outcome

    return trial


def _writing(path: Path, expected: list[dict[str, str | None]]) -> Callable[[float], list[str]]:
    from genius.data.records import Item

    flat, index = Flat(), open_made_up(path)

    def period(end: float) -> list[str]:
        outcome, before = Outcome(), {item.id: item.text for item in index}
        while time.monotonic() < end:
            for state in expected[1:]:
                if gone := before.keys() - state.keys():
                    index.remove(gone)
                    index.compact()
                else:
                    index.add([Item(id, text) for id, text in state.items() if before.get(id) != text])
                before = state
                outcome.seen["changes"] += 1
                time.sleep(REST)
            index.remove(list(before))
            before = {}
        flat.check(outcome, "it")
        return _lines(outcome)

    return period


def _reading(path: Path, expected: list[dict[str, str | None]], number: int) -> Callable[[float], list[str]]:
    flat, index, dice = Flat(), open_made_up(path), random.Random(number)

    def period(end: float) -> list[str]:
        outcome = Outcome()
        while time.monotonic() < end and not outcome.failures:
            hits = index.search("text", k=99, filter=dice.choice([None, {"no": None}]))
            state = {hit.item.id: hit.item.text for hit in hits}
            outcome.seen["answers"] += 1
            outcome.expect(state in expected, f"an answer of no version: {state}")
            time.sleep(REST)
        flat.check(outcome, "it")
        return _lines(outcome)

    return period


def _lines(outcome: Outcome) -> list[str]:
    return [
        *(f"failed: {what}" for what in outcome.failures),
        *(f"{k}: {n}" for k, n in outcome.seen.items()),
    ]


READING = Scenario(
    name="readers-and-writer",
    promise="One writer that adds, removes and compacts, four readers in processes of their own: every "
    "answer belongs to one version; memory and open files are flat.",
    unit="seconds",
    goal=7_200,
    field="Qdrant: 50 minutes end to end",
    prepare=prepare_readers,
    seconds=PERIOD + 120,
    share=0,
)


# --- a service

COMMAND = """
from torture.orphans import die_with_parent
die_with_parent()
from runpy import run_module
run_module("genius", run_name="__main__")
"""
"""`genius`, as a program that ends with the process that started it."""


def prepare_service(folder: Path) -> Trial:
    """A service, `genius serve` as it is, which this process asks again and again."""
    command = [sys.executable, "-c", COMMAND, "serve", str(index_for_services(folder)), "--port", "0"]
    service = subprocess.Popen([*command, "--read-only"], stdout=subprocess.PIPE, text=True)
    assert service.stdout is not None
    address = re.search(r"http://[^:]+:(\d+)", service.stdout.readline())
    assert address is not None, "the service did not start"
    port = int(address[1])
    first: list[tuple[int, int, float]] = []

    def trial(seed: int) -> Outcome:
        dice, outcome, times = random.Random(seed), Outcome(), list[float]()
        end = time.monotonic() + PERIOD
        while time.monotonic() < end:
            began = time.monotonic()
            body = b'{"text": "a %d", "k": 5}' % dice.randrange(10**6)
            status, _ = answer(port, "POST", "/search", body, {"Content-Type": "application/json"})
            times.append(time.monotonic() - began)
            outcome.expect(status == 200, f"a search was answered with {status}")
            time.sleep(REST)
        fields = Path(f"/proc/{service.pid}/statm").read_text().split()
        memory = (int(fields[1]) - int(fields[2])) * os.sysconf("SC_PAGE_SIZE")
        files = len(list(Path(f"/proc/{service.pid}/fd").iterdir()))
        p99 = sorted(times)[int(0.99 * len(times))]
        first.append((memory, files, p99))
        grown = memory - first[0][0]
        outcome.count = round(PERIOD)
        outcome.seen["searches"] += len(times)
        outcome.seen[AGE] = outcome.count * len(first)
        for when, within in (("at begin", len(first) <= EDGE), ("at end", len(first) > HOUR - EDGE)):
            if within:
                outcome.seen[f"p99 {when}, ms, summed over periods"] += round(1000 * p99)
                outcome.seen[f"periods {when}"] += 1
        outcome.seen["largest growth, MB"] = max(0, grown >> 20)
        outcome.expect(grown < GROWTH, f"the service has grown by {grown >> 20} MB")
        outcome.expect(
            files <= first[0][1] + MAPPED, f"the service has {files} files open, at first {first[0][1]}"
        )
        return outcome

    return trial


SERVING = Scenario(
    name="service-under-load",
    promise="A service asked again a tenth of a second after each answer: no error, memory and open files "
    "flat.",
    unit="seconds",
    goal=3_600,
    field="none published",
    prepare=prepare_service,
    seconds=PERIOD + 120,
    needs=NEEDS,
    share=0,
)
