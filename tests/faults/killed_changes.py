"""Changes an index again and again in children that are killed; test_change_kills runs it in its own process.

Each child goes on with the index that the one before left, and adds, updates, removes and compacts as a
random plan says, acknowledging every change that it has made. Every other child is killed (SIGKILL) at a
random one of the calls that the work takes, in Python or just before a call into C; the others by the clock
(SIGALRM, which is not handled), in the midst of whatever they are doing: those moments differ from run to
run.

Goes on until enough children were really killed. Prints a line per child: was it killed, was that by the
clock, what it was doing, and whether the index is intact and holds what it held after the last change that
was acknowledged, or after the next one.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from genius.data.records import ImageBytes, Item
from genius.index import writer
from genius.index.entries import item_of
from genius.index.inspect import describe
from tests.faults.killed_writers import kill_at_call, watch_calls
from tests.index.made_up_index import encode, open_made_up

STEPS = 4
CHILDREN = 10
"""How many children there are for each kill, at the most."""
writer.FULL_BLOCK, writer.QUICK_MERGE = 16, 6  # so that all ways of merging are taken

Change = tuple[str, list[Any]]
Content = dict[str, tuple[Any, ...]]


def plan(seed: int, known: list[str]) -> list[Change]:
    """What a child does."""
    dice = random.Random(seed)
    changes: list[Change] = []
    for step in range(STEPS):
        kind = dice.choice(["add", "add", "update", "remove", "compact"])
        if kind == "add":
            count = dice.choice([1, 1, 2, 9])
            added = [item(dice, f"{seed}-{step}-{n}") for n in range(count)]
            added += [item(dice, id) for id in dice.sample(known, min(1, len(known)))]
            known = list(dict.fromkeys([*known, *(new.id for new in added)]))
            changes.append((kind, added))
        elif kind == "update":
            ids = dice.sample(known, min(2, len(known)))
            updates: list[dict[str, Any]] = [{"id": id, "metadata": {"n": dice.random()}} for id in ids[:1]]
            updates += [{"id": id, "text": f"text {dice.random()}"} for id in ids[1:]]
            changes.append((kind, updates))
        elif kind == "remove":
            removed = dice.sample(known, len(known) // 3)
            known = [id for id in known if id not in removed]
            changes.append((kind, removed))
        else:
            changes.append((kind, []))
    return changes


def item(dice: random.Random, id: str) -> Item:
    image = ImageBytes(dice.randbytes(9), "p.png") if dice.random() < 0.5 else None
    return Item(id, f"text {dice.random()}", image, {"n": dice.random()})


def fields(item: Item) -> tuple[Any, ...]:
    code = tuple(encode([item]).codes[0].tolist())
    return item.text, item.image and item.image.read().hex(), dict(item.metadata), code


def after(content: Content, change: Change) -> Content:
    """What an index holds after a change, by plain Python."""
    kind, changed = change
    if kind == "add":
        return {**content, **{added.id: fields(added) for added in changed}}
    if kind == "remove":
        return {id: kept for id, kept in content.items() if id not in changed}
    if kind == "update":
        content = dict(content)
        for update in changed:
            text, image_hex, metadata, _ = content[update["id"]]
            image = None if image_hex is None else ImageBytes(bytes.fromhex(image_hex), "p.png")
            text, metadata = update.get("text", text), {**metadata, **update.get("metadata", {})}
            content[update["id"]] = fields(Item(update["id"], text, image, metadata))
    return content


def make(path: Path, changes: list[Change], acknowledge: Callable[[], Any]) -> None:
    index = open_made_up(path)
    for kind, changed in changes:
        getattr(index, kind)(*([] if kind == "compact" else [changed]))
        acknowledge()
    index.close()


def content_of(path: Path) -> Content:
    """What an index holds: items from its catalogue, codes from its segments. Raises if it is not intact."""
    describe(path, verify=True)
    index = open_made_up(path)
    content: Content = {}
    with index._reading() as snapshot:
        for key, entry in index._catalogue.walk():
            kept = fields(item_of(entry, index._catalogue.path))
            content[entry.id] = (*kept[:-1], tuple(snapshot.stored(key).code.tolist()))
    index.close()
    return content


def by_the_clock(seconds: float) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, seconds)


def killed(path: Path, changes: list[Change], prepare: Callable[[], None]) -> tuple[bool, int]:
    """Whether the child was killed, and how many changes it had acknowledged by then."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        prepare()
        make(path, changes, lambda: os.write(write_end, b"."))
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end, "rb") as dots:
        count = len(dots.read())
    ended = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert ended in (0, -signal.SIGKILL, -signal.SIGALRM), ended
    return ended != 0, count


def measured(folder: Path) -> tuple[int, float]:
    """How many calls a usual plan takes, and how many seconds."""
    changes: list[Change] = [("add", [item(random.Random(n), str(n))]) for n in range(STEPS)]
    seen: list[int] = []
    watch_calls(seen.append, from_swap=False)
    make(folder / "watched", changes, lambda: None)
    sys.setprofile(None)
    began = time.perf_counter()
    make(folder / "measured", changes, lambda: None)
    return seen[-1], time.perf_counter() - began


def main(folder: Path, kills: int) -> None:
    (calls, seconds), path = measured(folder), folder / "index"
    open_made_up(path).close()
    content: Content = {}
    moments = random.Random(1)
    for number in range(CHILDREN * kills):
        changes, clock = plan(number, sorted(content)), bool(number % 2)
        moment = moments.uniform(0, seconds) if clock else moments.randint(1, calls)
        at_call = partial(kill_at_call, int(moment), from_swap=False)
        prepare = partial(by_the_clock, max(moment, 1e-6)) if clock else at_call
        dead, acknowledged = killed(path, changes, prepare)
        kills -= dead
        states = [content]
        for change in changes:
            states.append(after(states[-1], change))
        content = content_of(path)
        fits = content in states[acknowledged : acknowledged + 2]
        doing = changes[acknowledged][0] if acknowledged < len(changes) else "end"
        print(json.dumps([dead, clock, doing, fits]))
        if not kills:
            return


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
