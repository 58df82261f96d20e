"""Builds an index again and again in children that are killed; test_index_kills runs it in its own process.

Each child goes on where the one before was killed (SIGKILL), at a random one of the calls that the work
takes, and acknowledges every block that it has committed. When all items are added, the next child starts a
new index.

Prints a line per kill: was the child killed, how many items were acknowledged before, how many in all, how
many the index holds, and whether it is intact and holds what was added.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from genius.index import ingest, writer
from genius.index.catalogue import Catalogue
from genius.index.ingest import Ingest
from genius.index.inspect import describe
from genius.index.locks import only_writer
from genius.index.snapshot import create_index_folder
from genius.index.writer import SegmentWriter
from tests.faults.killed_writers import kill_at_call, watch_calls
from tests.index.made_up import GIVEN, made_up_codes, made_up_items

ITEMS = made_up_items(24)
ingest.CHUNK, writer.FULL_BLOCK = 3, 6


def make(path: Path) -> None:
    create_index_folder(path, {"model": {"path": "", "fingerprint": ""}, "codes": asdict(GIVEN)})


class AcknowledgingCatalogue(Catalogue):
    """Writes how many items there are to a pipe after every commit."""

    pipe: int

    def commit(self, *args: Any, **more: Any) -> None:
        super().commit(*args, **more)
        os.write(self.pipe, f"{len(self)}\n".encode())


def add(path: Path, pipe: int) -> None:
    catalogue = AcknowledgingCatalogue(path)
    catalogue.pipe = pipe
    with only_writer(path):
        segment_writer = SegmentWriter(path, catalogue, GIVEN, "model")
        Ingest(catalogue, segment_writer, made_up_codes, strict=True).add(ITEMS)
    catalogue.close()


def killed_add(path: Path, moment: int) -> tuple[bool, int]:
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        kill_at_call(moment, from_swap=False)
        if not path.exists():
            make(path)
        add(path, write_end)
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as lines:
        acknowledged = [int(line) for line in lines]
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return killed, max(acknowledged, default=0)


def stored(path: Path) -> tuple[int, bool]:
    """How many items the index holds, and whether it is intact and they are the first ones of all."""
    if not path.exists():
        return 0, True
    count = describe(path, verify=True)["items"]
    catalogue = Catalogue(path)
    ids = [entry.id for _, entry in catalogue.walk()]
    catalogue.close()
    return count, ids == [item.id for item in ITEMS[:count]]


def main(folder: Path, kills: int) -> None:
    seen: list[int] = []
    watch_calls(seen.append, from_swap=False)
    make(folder / "measured")
    add(folder / "measured", os.open(os.devnull, os.O_WRONLY))
    sys.setprofile(None)
    moments, number, before = random.Random(0), 0, 0
    for _ in range(kills):
        path = folder / f"index-{number}"
        killed, acknowledged = killed_add(path, moments.randint(1, seen[-1]))
        count, intact = stored(path)
        print(json.dumps([killed, before, max(before, acknowledged), count, intact]))
        before = count
        if not killed:
            number, before = number + 1, 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
