"""Kills: writers of an index that die at any step of a commit; all that was acknowledged is there."""

from __future__ import annotations

import random
import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from genius.data.read import read
from genius.data.records import Item
from genius.data.tables import write_items
from genius.index import ingest
from genius.index.inspect import describe
from tests.faults.planned_changes import Content, after, content_of, make, opened_whole, plan
from tests.index.made_up import made_up_items
from tests.index.made_up_index import open_made_up, scores_for_text
from torture.killing import CLOCK, STEPS, Acknowledge, Killer
from torture.scenario import Outcome, Scenario, Trial, scratch, seeded

IN_A_ROW = 3
"""Writers that are killed one after another over one index: each finds what the last one left."""


def prepare_changes(folder: Path) -> Trial:
    """Indexes after random changes; writers change them further, and are killed."""
    bases: list[tuple[Path, Content]] = []
    for number in range(4):
        path = folder / f"base-{number}"
        make(path, plan(number, []), lambda: None)
        bases.append((path, content_of(path)))
    killer = Killer(folder)

    def usual(name: str) -> None:
        path = folder / f"measured {name}"
        shutil.copytree(bases[0][0], path)
        make(path, plan(99, sorted(bases[0][1])), lambda: None)

    killer.measure(usual)

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        base, content = dice.choice(bases)
        path = scratch(folder) / "index"
        shutil.copytree(base, path)
        for round in range(IN_A_ROW):
            changes = plan(dice.getrandbits(32), sorted(content))
            how, acknowledged = killer.kill(partial(make, path, changes), dice, outcome)
            states = [content]
            for change in changes:
                states.append(after(states[-1], change))
            doing = changes[acknowledged][0] if acknowledged < len(changes) else "end"
            outcome.seen[f"during {doing}"] += bool(how)
            content = check_index(
                outcome, path, states[acknowledged : acknowledged + 2], f"{how}, {doing}, writer {round}"
            )

    return trial


def _differs(content: Content, expected: Content) -> str:
    gone, more = expected.keys() - content.keys(), content.keys() - expected.keys()
    other = [id for id in expected.keys() & content.keys() if expected[id] != content[id]]
    return f"lost {sorted(gone)}, brought back {sorted(more)}, altered {other}"


def check_index(outcome: Outcome, path: Path, allowed: Sequence[Content], label: str) -> Content:
    """What an index holds: whether it is allowed, and a search finds all of it, by the formula's scores."""
    with opened_whole(path) as (index, content):
        outcome.expect(content in allowed, f"{label}: {_differs(content, allowed[0])}")
        items = {item.id: item for item in index}
        hits = index.search("a dog", k=max(1, len(items)), mode="scan")
        expected = scores_for_text(items, "a dog") if items else {}
        outcome.expect({hit.item.id for hit in hits} == content.keys(), f"{label}: a search misses items")
        wrong = [hit.item.id for hit in hits if abs(hit.score - expected[hit.item.id]) > 1e-3]
        outcome.expect(not wrong, f"{label}: scores of {wrong} are not the formula's")
    return content


# --- imports

IMPORTED = 40
BLOCK = 16


def prepare_imports(folder: Path) -> Trial:
    """A table of items that is read into an index, again and again until all of it is in."""
    ingest.CHUNK = 4
    items = [Item(item.id, item.text or "text", None, item.metadata) for item in made_up_items(IMPORTED)]
    table = folder / "items.jsonl"
    write_items(table, items)
    killer = Killer(folder)
    killer.measure(lambda name: _import(folder / name.replace(" ", "-"), table, lambda: None))

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        path = scratch(folder) / "index"

        def held(how: str) -> int:
            ids = list(content_of(path)) if path.exists() else []
            in_order = ids == [item.id for item in items[: len(ids)]]
            outcome.expect(in_order, f"{how}: {len(ids)} items, not in order")
            return len(ids)

        killer.complete(partial(_import, path, table), dice, outcome, held, IMPORTED)

    return trial


def _import(path: Path, table: Path, acknowledge: Acknowledge) -> None:
    with open_made_up(path) as index:
        index.add(read(table))
    acknowledge()


# --- folders

NAMES = [
    f"{folder}{name}.{kind}"
    for folder in ("", "trip/", "notes/")
    for name in "abcd"
    for kind in ("jpg", "md")
]


def prepare_sync(folder: Path) -> Trial:
    """A folder that changes, and an index that is brought in step with it."""
    killer = Killer(folder)

    def usual(name: str) -> None:
        home = folder / name.replace(" ", "-")
        (home / "photos").mkdir(parents=True)
        dice = random.Random(1)
        change_folder(home / "photos", dice, 12)
        _sync(home, lambda: None)
        change_folder(home / "photos", dice, 6)

    for name in (*STEPS, CLOCK):
        usual(name)
    killer.measure(lambda name: _sync(folder / name.replace(" ", "-"), lambda: None))

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        home = scratch(folder)
        (home / "photos").mkdir()
        change_folder(home / "photos", dice, 12)
        _sync(home, lambda: None)
        for _ in range(2):
            before = _contents(home)
            change_folder(home / "photos", dice, 6)
            now = _files(home / "photos")
            how, _ = killer.kill(partial(_sync, home), dice, outcome, "in step")
            _check_between(outcome, how, before, now, _contents(home))
            _sync(home, lambda: None)
            outcome.expect(_contents(home) == now, f"{how}: the next sync leaves it out of step")

    return trial


def change_folder(folder: Path, dice: random.Random, count: int) -> None:
    """Write, alter, move and delete files."""
    for _ in range(count):
        path, there = folder / dice.choice(NAMES), sorted(p for p in folder.rglob("*") if p.is_file())
        kind = dice.choice(["write", "write", "move", "delete"])
        if kind == "write" or not there:
            path.parent.mkdir(exist_ok=True)
            path.write_text(f"content {dice.random()}")
        elif kind == "delete":
            dice.choice(there).unlink()
        elif not path.exists():
            moved = dice.choice(there)
            path = path.with_suffix(moved.suffix)
            path.parent.mkdir(exist_ok=True)
            if not path.exists():
                moved.rename(path)


def _sync(home: Path, acknowledge: Acknowledge) -> None:
    with open_made_up(home / "index") as index:
        index.sync(home / "photos", remove=True, all_gone=True)
    acknowledge()


def _files(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def _contents(home: Path) -> dict[str, str]:
    """What an index holds of a folder, by hashes where images are gone or changed."""
    describe(home / "index", verify=True)
    with open_made_up(home / "index") as index:
        values = {}
        for item in index:
            try:
                values[item.id] = item.text or "" if item.image is None else item.image.read().decode()
            except Exception:
                values[item.id] = "(gone)"
        return values


def _check_between(
    outcome: Outcome, how: str, before: dict[str, str], now: dict[str, str], found: dict[str, str]
) -> None:
    """Whether each item is what it was, or what it is to be."""
    for id, value in found.items():
        allowed = {before.get(id), now.get(id), "(gone)"}
        outcome.expect(value in allowed, f"{how}: {id} is neither what it was nor what it is to be")
    lost = [id for id in before.keys() & now.keys() if before[id] == now[id] and id not in found]
    outcome.expect(not lost, f"{how}: unchanged files {lost} were lost")


def kill_scenario(
    name: str, promise: str, goal: int, prepare: Any, share: int, seconds: float = 60
) -> Scenario:
    """A scenario that counts kills."""
    return Scenario(
        name=name,
        promise=promise,
        unit="kills",
        goal=goal,
        field=FIELD,
        prepare=prepare,
        seconds=seconds,
        shim=True,
        share=share,
    )


FIELD = "lix: 3,072 kills; Weaviate: one import of 600,000 objects, killed every 0 to 60 s"
CHANGES = kill_scenario(
    "kill-changes",
    "After adding, updating, removing, compacting and merging segments: it opens, every acknowledged change "
    "is there, nothing removed comes back, searches equal the formula.",
    6_000,
    prepare_changes,
    6,
)
IMPORTS = kill_scenario(
    "kill-imports",
    "An import that is killed keeps whole blocks, and goes on where it was.",
    1_000,
    prepare_imports,
    2,
)
SYNC = kill_scenario(
    "kill-sync",
    "A folder's sync leaves each item as it was or as it is to be, and the next one completes it.",
    1_000,
    prepare_sync,
    2,
)
