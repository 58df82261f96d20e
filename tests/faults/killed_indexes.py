"""Builds an index again and again in children that are killed; test_index_kills runs it in its own process.

Each child goes on where the one before was killed (SIGKILL), at a random one of the calls that the work
takes, and tells every block that it has committed. When all items are in, the next child starts a new index.

Prints a line per kill: was the child killed, how many items were told before, how many were told in all, how
many are there, and is all that is there whole and what was added.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from pathlib import Path
from typing import Any

from genius.index import ingest as build
from genius.index import writer as committing
from genius.index.catalogue import Catalogue
from genius.index.ingest import Builder, only_writer
from genius.index.inspect import describe
from genius.index.snapshot import make_folder
from genius.index.writer import Committer
from tests.faults.killed_writers import watch_calls
from tests.index.made_up import CODING, made_up_codes, made_up_items

ITEMS = made_up_items(24)
build.CHUNK, committing.BLOCK = 3, 6


def make(path: Path) -> None:
    make_folder(path, {"model": {"path": "", "fingerprint": ""}, "coding": vars(CODING)})


class Telling(Catalogue):
    """Writes how many items there are after every commit that it has acknowledged."""

    told: int

    def commit(self, *args: Any, **more: Any) -> None:
        super().commit(*args, **more)
        os.write(self.told, f"{len(self)}\n".encode())


def add(path: Path, told: int) -> None:
    catalogue = Telling(path)
    catalogue.told = told
    with only_writer(path):
        committer = Committer(path, catalogue, CODING, "model")
        Builder(catalogue, committer, made_up_codes, strict=True).add(ITEMS)
    catalogue.close()


def killed_add(path: Path, moment: int) -> tuple[bool, int]:
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        watch_calls(lambda calls: calls == moment and os.kill(os.getpid(), signal.SIGKILL), from_swap=False)
        if not path.exists():
            make(path)
        add(path, writer)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as lines:
        told = [int(line) for line in lines]
    killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    return killed, max(told, default=0)


def there(path: Path) -> tuple[int, bool]:
    """How many items there are, and whether these are the first ones of all and everything is whole."""
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
        killed, told = killed_add(path, moments.randint(1, seen[-1]))
        count, whole = there(path)
        print(json.dumps([killed, before, max(before, told), count, whole]))
        before = count
        if not killed:
            number, before = number + 1, 0


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
