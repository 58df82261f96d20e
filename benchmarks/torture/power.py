"""Power loss: writes and syncs are recorded, and what a disk may then hold is opened and checked.

One trial takes one moment of a recorded series of changes: everything up to there is on the disk, or what was
synced and some of the rest.
"""

from __future__ import annotations

import bisect
import random
from dataclasses import dataclass
from pathlib import Path

from genius import storage
from genius.encode.feature_cache import FeatureCache
from tests.faults.planned_changes import Content, after, make, plan
from torture import shim
from torture.disk_image import Call, Disk, read_record, write_image
from torture.kills import check_index
from torture.kills_of_artifacts import BLOCKS, block, check_cache, version_of, write_version
from torture.scenario import Outcome, Scenario, Trial, scratch, seeded
from torture.specimens import CACHE_WIDTH

SERIES = 12
"""Recorded series of changes of an index."""
VERSIONS = 4


@dataclass
class Recorded:
    """A series of changes.

    Attributes:
        root: the folder that it took place in, which was empty before.
        calls: what it did to the disk.
        states: what was there after each change that was acknowledged; index series alone.
        kind: what was changed.
    """

    root: Path
    calls: list[Call]
    states: list[Content]
    kind: str

    def check(self) -> Recorded:
        """Itself, if replaying all calls gives what is really there."""
        expected = {
            str(path.relative_to(self.root)): path.read_bytes()
            for path in self.root.rglob("*")
            if path.is_file() and not path.name.endswith("-shm")
        }
        replayed = self.disk_at(len(self.calls)).image(None)
        found = {path: content for path, content in replayed if content is not None}
        if found != expected:
            differ = sorted(
                path for path in found.keys() | expected.keys() if found.get(path) != expected.get(path)
            )
            raise AssertionError(f"replaying {self.kind} gives other files than there are: {differ}")
        return self

    def disk_at(self, moment: int) -> Disk:
        """The disk after so many calls."""
        disk = Disk(self.root)
        for call in self.calls[:moment]:
            disk.replay(call)
        return disk


def prepare(folder: Path) -> Trial:
    """Record the series; a trial draws one of them, and a moment."""
    recorded = [record_changes(folder, number) for number in range(SERIES)]
    recorded += [record_versions(folder), record_features(folder)]
    ends = [sum(len(series.calls) for series in recorded[: n + 1]) for n in range(len(recorded))]

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        outcome.count = 1
        at = dice.randrange(ends[-1])
        number = bisect.bisect_right(ends, at)
        series = recorded[number]
        moment = at - (ends[number] - len(series.calls)) + 1
        disk = series.disk_at(moment)
        ordered = dice.random() < 0.2
        outcome.seen["all that happened" if ordered else "some of what was not synced"] += 1
        outcome.seen[f"of {series.kind}"] += 1
        place = scratch(folder)
        write_image(disk, place, None if ordered else dice)
        how = "in order" if ordered else "reordered"
        label = (
            f"{series.kind} {number}, {how}, after {moment} of {len(series.calls)} calls, {disk.mark} done"
        )
        check = {"an index": _check_index, "an artifact": _check_version, "features": _check_features}
        check[series.kind](outcome, place, series, disk.mark, label)

    return trial


def record_changes(folder: Path, number: int) -> Recorded:
    """An index that is made and changed."""
    root = folder / f"series-{number}"
    root.mkdir()
    changes = [*plan(2 * number, []), *plan(2 * number + 1, [])]
    states: list[Content] = [{}]
    for change in changes:
        states.append(after(states[-1], change))
    done = 0

    def acknowledge() -> None:
        nonlocal done
        done += 1
        shim.mark(done)

    shim.watch(root)
    with shim.recording(folder / "record"):
        make(root / "index", changes, acknowledge)
    return Recorded(root, read_record(folder / "record"), states, "an index").check()


def _check_index(outcome: Outcome, place: Path, series: Recorded, done: int, label: str) -> None:
    path = place / "index"
    if not path.exists() and not done:
        return
    check_index(outcome, path, series.states[done : done + 2], label)


def record_versions(folder: Path) -> Recorded:
    """An artifact that is made and replaced."""
    root = folder / "versions"
    root.mkdir()
    shim.watch(root)
    with shim.recording(folder / "record"):
        for version in range(VERSIONS):
            write_version(root / "artifact", version)
            shim.mark(version + 1)
    return Recorded(root, read_record(folder / "record"), [], "an artifact").check()


def _check_version(outcome: Outcome, place: Path, series: Recorded, done: int, label: str) -> None:
    if not done and not storage.is_artifact(place / "artifact"):
        return
    found = version_of(place / "artifact")
    outcome.expect(found in (done - 1, done), f"{label}: version {found}")


def record_features(folder: Path) -> Recorded:
    """A feature cache that grows."""
    root = folder / "features"
    root.mkdir()
    shim.watch(root)
    with shim.recording(folder / "record"), FeatureCache(root / "cache", CACHE_WIDTH) as cache:
        for number in range(BLOCKS):
            cache.add(*block(number))
            shim.mark(number + 1)
    return Recorded(root, read_record(folder / "record"), [], "features").check()


def _check_features(outcome: Outcome, place: Path, series: Recorded, done: int, label: str) -> None:
    if (place / "cache").exists() or done:
        check_cache(outcome, place / "cache", set(range(done)), BLOCKS, label)


SCENARIO = Scenario(
    name="power-loss",
    promise="After a loss of power at any call, with all or some of what was not synced on the disk in any "
    "order: it opens, and every acknowledged change is there.",
    unit="disk images",
    goal=5_000,
    field="only SQLite tests it; Lance, faiss, usearch and safetensors sync nothing (measured)",
    prepare=prepare,
    seconds=20,
    shim=True,
    share=30,
)
