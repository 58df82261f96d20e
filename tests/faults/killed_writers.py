"""Replaces an artifact again and again in children that are killed; test_kills runs it in its own process.

Each child is killed (SIGKILL) at a random one of the calls that the work takes, inside genius or below it:
every other child somewhere in all of it, the rest around the swap at its end. Every file of version n holds
n, so a mixture would show. No clock is involved.

Prints a line per kill: was the child killed, is the artifact intact, is it the old one, is it the new one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from genius import storage


def content(version: int) -> bytes:
    return str(version).encode() * 20_000


def write(path: Path, version: int) -> None:
    with storage.create(path, kind="test", format=1) as draft:
        for name in ("a", "b", "c"):
            (draft.folder / name).write_bytes(content(version))
        draft.counts["version"] = version


def watch_calls(report: Callable[[int], Any], from_swap: bool) -> None:
    """From now on, report the number of calls since the start, or since the swap began, at every call."""
    calls, counted = 0, not from_swap

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls, counted
        counted = counted or frame.f_code.co_name == "replace_folder"
        calls += counted
        report(calls)

    sys.setprofile(count)


def kill_at_call(moment: int, from_swap: bool) -> None:
    """Kill this process when it reaches a call, counted as by `watch_calls`."""

    def kill(calls: int) -> None:
        if calls == moment:
            os.kill(os.getpid(), signal.SIGKILL)

    watch_calls(kill, from_swap)


def calls_of_a_write(path: Path, from_swap: bool) -> int:
    seen: list[int] = []
    watch_calls(seen.append, from_swap)
    write(path, 0)
    sys.setprofile(None)
    return seen[-1]


def killed_write(path: Path, version: int, from_swap: bool, moment: int) -> bool:
    child = os.fork()
    if child == 0:
        kill_at_call(moment, from_swap)
        write(path, version)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def main(path: Path, kills: int) -> None:
    write(path, 0)
    total = {from_swap: calls_of_a_write(path, from_swap) for from_swap in (False, True)}
    moments = random.Random(0)
    for version in range(1, kills + 1):
        before = storage.read_manifest(path).counts["version"]
        from_swap = bool(version % 2)
        killed = killed_write(path, version, from_swap, moments.randint(1, total[from_swap]))
        artifact = storage.open(path, verify=True)
        after = artifact.manifest.counts["version"]
        intact = {artifact.file(name).read_bytes() for name in ("a", "b", "c")} == {content(after)}
        print(json.dumps([killed, intact, after == before, after == version]))


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
