"""Merges indexes and exports them, in children that are killed; test_merge_kills runs it in its own process.

Each child is killed (SIGKILL) at a random one of the calls that the work takes, every other one around the
move into place at its end. The next one starts with what that left.

Prints a line per kill: was the child killed, and what is there: of the index 0 (nothing), 1 (all of it) or 2
(something else), then the same of the table.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from genius.data.read import read
from genius.index.catalogue import Catalogue
from genius.index.export import export_index
from genius.index.ingest import Ingest
from genius.index.inspect import describe
from genius.index.locks import only_writer
from genius.index.merge import merge
from genius.index.snapshot import create_index_folder
from genius.index.writer import SegmentWriter
from tests.faults.killed_writers import kill_at_call, watch_calls
from tests.index.made_up import GIVEN, made_up_codes, made_up_items

ITEMS = made_up_items(12)


def make(path: Path, first: int, last: int) -> Path:
    create_index_folder(path, {"model": {"path": "", "fingerprint": ""}, "codes": asdict(GIVEN)})
    catalogue = Catalogue(path)
    with only_writer(path):
        writer = SegmentWriter(path, catalogue, GIVEN, "model")
        Ingest(catalogue, writer, made_up_codes, strict=True).add(ITEMS[first:last])
    catalogue.close()
    return path


def work(folder: Path, out: Path) -> None:
    """What was done already is not done again."""
    if not (out / "index").exists():
        merge([folder / "a", folder / "b"], out / "index")
    export_index(out / "index", out / "items.jsonl", codes=True, images=out / "images")


def state(out: Path) -> tuple[int, int]:
    index = table = 0
    if (out / "index").exists():
        index = 1 if describe(out / "index", verify=True)["items"] == len(ITEMS) else 2
    if (out / "items.jsonl").exists():
        contents = [
            (item.id, item.text, item.image and item.image.read()) for item in read(out / "items.jsonl")
        ]
        expected = [(item.id, item.text, item.image and item.image.read()) for item in ITEMS]
        table = 1 if contents == expected else 2
    return index, table


def calls_of(folder: Path, *, from_swap: bool) -> int:
    seen: list[int] = []
    watch_calls(seen.append, from_swap)
    work(folder, folder / f"measured {from_swap}")
    sys.setprofile(None)
    return seen[-1]


def main(folder: Path, kills: int) -> None:
    make(folder / "a", 0, 5)
    make(folder / "b", 5, 12)
    total = {from_swap: calls_of(folder, from_swap=from_swap) for from_swap in (False, True)}
    moments, out = random.Random(0), folder / "out"
    for number in range(kills):
        from_swap = bool(number % 2)
        child = os.fork()
        if child == 0:
            kill_at_call(moments.randint(1, total[from_swap]), from_swap)
            work(folder, out)
            os._exit(0)
        moments.random()
        killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        index, table = state(out)
        print(json.dumps([killed, index, table]))
        if table or number % 3 == 0:
            shutil.rmtree(out, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
