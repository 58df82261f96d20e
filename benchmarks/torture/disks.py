"""Faulty disks: each write, sync, change of names and open of a commit fails once, with each error."""

from __future__ import annotations

import errno
import random
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from genius.data.records import Item
from genius.encode.feature_cache import FeatureCache
from genius.errors import GeniusError
from tests.faults.planned_changes import Content, after, content_of, item, make, plan
from tests.index.made_up_index import MadeUpIndex, open_made_up
from torture import shim
from torture.kills_of_artifacts import BLOCKS, block, version_of, write_version
from torture.scenario import Outcome, Scenario, Trial, scratch
from torture.specimens import CACHE_WIDTH

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EINTR)


@dataclass(frozen=True)
class Fault:
    """What fails.

    Attributes:
        work: the name of what is done meanwhile.
        at: the number of the call, from 1 on.
        number: the error number.
        sticky: whether all later calls fail, too.
    """

    work: str
    at: int
    number: int
    sticky: bool

    def __str__(self) -> str:
        later = " and all later ones" if self.sticky else ""
        return f"{self.work}: {errno.errorcode[self.number]} at call {self.at}{later}"

    def happening(self) -> AbstractContextManager[None]:
        """Within, it fails."""
        return shim.failing(self.at, self.number, sticky=self.sticky)


def changes_of(content: Content) -> dict[str, tuple[str, list[Any]]]:
    """A change of each kind, by name."""
    dice, ids = random.Random(5), sorted(content)
    return {
        "add one": ("add", [item(dice, "new")]),
        "add and replace": ("add", [item(dice, f"new {n}") for n in range(9)] + [item(dice, ids[0])]),
        "update metadata": ("update", [{"id": ids[0], "metadata": {"n": 1}}]),
        "update a text": ("update", [{"id": ids[1], "text": "another"}]),
        "remove": ("remove", ids[:3]),
        "compact": ("compact", []),
    }


def prepare(folder: Path) -> Trial:
    """All faults of all kinds of work, in an order of their own."""
    base = folder / "base"
    make(base, [*plan(0, []), *plan(1, [])], lambda: None)
    before = content_of(base)
    changes = changes_of(before)
    shim.watch(folder)
    calls = {name: _calls(folder, partial(_change_copy, base, change)) for name, change in changes.items()}
    calls["features"] = _calls(folder, _fill_cache)
    calls["artifact"] = _calls(folder, _replace)
    faults = [
        Fault(name, at, number, sticky)
        for name, count in calls.items()
        for at in range(1, count + 1)
        for number in ERRORS
        for sticky in (False, True)
        if not (sticky and number == errno.EINTR)
    ]
    random.Random(0).shuffle(faults)

    def trial(seed: int) -> Outcome:
        fault, outcome = faults[seed % len(faults)], Outcome(1)
        place = scratch(folder)
        if fault.work in changes:
            shutil.copytree(base, place / "index")
            _check_change(outcome, fault, place / "index", before, changes[fault.work])
        elif fault.work == "features":
            _check_features(outcome, fault, place)
        else:
            _check_artifact(outcome, fault, place)
        return outcome

    return trial


def _calls(folder: Path, work: Callable[[Path], Callable[[], object]]) -> int:
    """How many calls some work takes."""
    return shim.count_calls(work(scratch(folder)))


def _change_copy(base: Path, change: tuple[str, list[Any]], place: Path) -> Callable[[], object]:
    shutil.copytree(base, place / "index")
    index = open_made_up(place / "index")
    return partial(_change, index, change)


def _change(index: MadeUpIndex, change: tuple[str, list[Any]]) -> None:
    kind, changed = change
    getattr(index, kind)(*([] if kind == "compact" else [changed]))


def _check_change(
    outcome: Outcome, fault: Fault, path: Path, before: Content, change: tuple[str, list[Any]]
) -> None:
    expected = after(before, change)
    with open_made_up(path) as index:
        refused = _refused(outcome, fault, partial(_change, index, change))
        found = content_of(path)
        allowed = (before, expected) if refused else (expected,)
        outcome.expect(found in allowed, f"{fault}: neither the old state nor the new one")
        _later(outcome, fault, lambda: index.add([Item("later", "text")]))
        outcome.expect("later" in index, f"{fault}: nothing can be added afterwards")
    outcome.expect("later" in content_of(path), f"{fault}: what was added afterwards is gone")


def _refused(outcome: Outcome, fault: Fault, work: Callable[[], object]) -> bool:
    """Whether some work was refused, which must be in one sentence of ours."""
    try:
        with fault.happening():
            work()
    except GeniusError as error:
        outcome.seen[f"{errno.errorcode[fault.number]} is told in a sentence"] += 1
        said = str(error)
        outcome.expect("\n" not in said and len(said) < 600, f"{fault}: no sentence: {said}")
        return True
    except Exception as error:
        outcome.failures.append(f"{fault}: {type(error).__name__} instead of a sentence: {error}")
        return True
    outcome.seen[f"{errno.errorcode[fault.number]} does no harm"] += 1
    return False


def _later(outcome: Outcome, fault: Fault, work: Callable[[], object]) -> None:
    try:
        work()
    except Exception as error:
        outcome.failures.append(f"{fault}: afterwards, {type(error).__name__}: {error}")


# --- features and artifacts


def _fill_cache(place: Path) -> Callable[[], object]:
    def fill() -> None:
        with FeatureCache(place / "cache", CACHE_WIDTH) as cache:
            for number in range(BLOCKS):
                cache.add(*block(number))

    return fill


def _check_features(outcome: Outcome, fault: Fault, place: Path) -> None:
    refused = _refused(outcome, fault, _fill_cache(place))
    with FeatureCache(place / "cache", CACHE_WIDTH) as cache:
        for number in range(BLOCKS):
            keys, rows = block(number)
            missing = cache.missing(keys)
            outcome.expect(refused or not missing, f"{fault}: features were lost without a word")
            if missing:
                cache.add([keys[place] for place in missing], rows[missing])
            same = bool((cache.rows(keys) == rows).all())
            outcome.expect(same, f"{fault}: features of block {number} are altered")


def _replace(place: Path) -> Callable[[], object]:
    write_version(place / "artifact", 0)
    return partial(write_version, place / "artifact", 1)


def _check_artifact(outcome: Outcome, fault: Fault, place: Path) -> None:
    refused = _refused(outcome, fault, _replace(place))
    found = version_of(place / "artifact")
    outcome.expect(found in ((0, 1) if refused else (1,)), f"{fault}: version {found}")
    write_version(place / "artifact", 2)
    left = [path.name for path in place.iterdir()]
    outcome.expect(left == ["artifact"], f"{fault}: what was left behind stays: {left}")


SCENARIO = Scenario(
    name="faulty-disks",
    promise="ENOSPC, EIO, EACCES, EROFS and EINTR at every write, sync, rename and open of a commit, once "
    "and for good: one sentence, the old state or the new one, and the next change works.",
    unit="failed calls",
    goal=5_000,
    field="SQLite fails every call in turn; Qdrant lost changes on transient I/O errors (#7801)",
    prepare=prepare,
    seconds=20,
    shim=True,
    share=20,
)
