"""Random changes to an index, what it holds after each by plain Python, and what it really holds.

Shared by the tests that kill writers and by benchmarks/torture, each in processes of their own.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from genius.data.records import ImageBytes, Item
from genius.index import writer
from genius.index.entries import item_of
from genius.index.inspect import describe
from tests.index.made_up import made_up_rows
from tests.index.made_up_index import MadeUpIndex, open_made_up

STEPS = 4
Change = tuple[str, list[Any]]
Content = dict[str, tuple[Any, ...]]


def use_small_blocks() -> None:
    """Have this process merge segments so early that all ways of merging are taken."""
    writer.FULL_BLOCK, writer.QUICK_MERGE = 16, 6


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
    codes, _ = made_up_rows([item])
    return *_given(item), tuple(codes[0].tolist())


def _given(item: Item) -> tuple[Any, ...]:
    return item.text, item.image and item.image.read().hex(), dict(item.metadata)


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
    with opened_whole(path) as (_, content):
        return content


@contextlib.contextmanager
def opened_whole(path: Path) -> Iterator[tuple[MadeUpIndex, Content]]:
    """The index at `path`, open, with what it holds. Raises if it is not intact."""
    describe(path, verify=True)
    with open_made_up(path) as index:
        content: Content = {}
        with index._reading() as snapshot:
            stored = dict(index._catalogue.walk())
            codes = snapshot.codes(list(stored)).tolist()
            for entry, code in zip(stored.values(), codes, strict=True):
                content[entry.id] = (*_given(item_of(entry, index._catalogue.path)), tuple(code))
        yield index, content
