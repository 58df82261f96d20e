"""Damage: a flipped bit, a truncation or a garbage header in any file of any kind of artifact."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

from genius.errors import GeniusError
from torture.scenario import Outcome, Scenario, Trial, seeded
from torture.specimens import Specimen, altered_rows, specimen, write_all, write_cache

HEADER = 512
"""Bytes at the start of a file that a garbage header overwrites, at the most."""

Harm = Callable[[random.Random, bytes], tuple[str, bytes]]
"""Says what it does to a file's content, and does it."""


def flip(dice: random.Random, content: bytes) -> tuple[str, bytes]:
    """Flip one bit."""
    bit = dice.randrange(8 * len(content))
    changed = bytearray(content)
    changed[bit // 8] ^= 1 << bit % 8
    return f"bit {bit} flipped", bytes(changed)


def cut_or_scribble(dice: random.Random, content: bytes) -> tuple[str, bytes]:
    """Cut a file short, overwrite its beginning, or append garbage."""
    kind = dice.choice(["cut", "header", "more", "zeros"])
    if kind == "cut":
        size = dice.randrange(len(content))
        return f"cut to {size} bytes", content[:size]
    if kind == "more":
        size = dice.randint(1, 5000)
        return f"{size} bytes appended", content + dice.randbytes(size)
    size = dice.randint(1, min(HEADER, len(content)))
    if kind == "zeros":
        start = dice.randrange(len(content) - size + 1)
        return f"{size} zeros at {start}", content[:start] + bytes(size) + content[start + size :]
    return f"garbage in {size} bytes at the start", dice.randbytes(size) + content[size:]


def prepare(folder: Path, harm: Harm) -> Trial:
    """Specimens of each kind; a trial damages a copy of one."""
    whole = {kind: specimen(kind, path) for kind, path in write_all(folder / "whole")}
    copies = {kind: Copy(specimen(kind, one.copy(folder / "copies"))) for kind, one in whole.items()}
    contents = {kind: copy.specimen.read() for kind, copy in copies.items() if kind.startswith("index")}
    held = write_cache(folder / "cache")
    cache_files = {file: file.read_bytes() for file in folder.glob("cache*") if file.stat().st_size}

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        kind = dice.choices([*copies, "feature cache"], [4, 3, 2, 1, 2])[0]
        if kind == "feature cache":
            for left in folder.glob("cache*"):
                left.unlink()
            for file, content in cache_files.items():
                file.write_bytes(content)
            file = dice.choice(list(cache_files))
            what, damaged = harm(dice, cache_files[file])
            file.write_bytes(damaged)
            outcome.count = int(damaged != cache_files[file])
            _check_cache(outcome, folder / "cache", held, f"{file.name}, {what}")
            return
        copy = copies[kind]
        copy.restore()
        file = copy.draw(dice)
        before = file.read_bytes()
        what, damaged = harm(dice, before)
        if damaged == before:
            return
        outcome.count = 1
        file.write_bytes(damaged)
        name = file.relative_to(copy.specimen.path)
        outcome.seen[f"in {name.name}"] += 1
        if kind.startswith("index"):
            of_segment = "segments" in name.parts
            _check_index(outcome, copy.specimen, contents[kind], of_segment, f"{kind}, {name}, {what}")
        else:
            _check_artifact(outcome, copy.specimen, f"{kind}, {name}, {what}")

    return trial


class Copy:
    """A copy of a specimen that is damaged again and again."""

    def __init__(self, specimen: Specimen) -> None:
        self.specimen = specimen
        self._contents = {file: file.read_bytes() for file in specimen.files()}
        self._drawn: Path | None = None
        self._lively = [file for file in self._contents if file.name.startswith("catalogue")]

    def draw(self, dice: random.Random) -> Path:
        """A file to damage: every other time one of the catalogue, if there is one."""
        lively = self._lively and dice.random() < 0.5
        self._drawn = dice.choice(self._lively if lively else list(self._contents))
        return self._drawn

    def restore(self) -> None:
        """Put back what was damaged, and what SQLite has changed."""
        for file in self.specimen.path.glob("catalogue*"):
            file.unlink()
        for file in {*self._lively, *([self._drawn] if self._drawn else [])}:
            file.unlink(missing_ok=True)  # whoever has the damaged one mapped keeps it
            file.write_bytes(self._contents[file])


def _check_artifact(outcome: Outcome, copy: Specimen, label: str) -> None:
    """Whether opening refuses it, and verifying names it."""
    outcome.expect(refuses(copy.verify), f"{label}: not named by verifying")
    outcome.expect(refuses(copy.read), f"{label}: opened as if it were whole")
    outcome.seen["refused at open"] += 1


def _check_index(outcome: Outcome, copy: Specimen, content: object, of_segment: bool, label: str) -> None:
    """Whether verifying names it unless it changes nothing; segments are refused when they are opened."""
    if of_segment:
        outcome.expect(refuses(copy.read), f"{label}: opened as if it were whole")
    named = refuses(copy.verify)
    if named:
        outcome.seen["refused at open" if of_segment else "named by verifying"] += 1
        refuses(copy.read)  # gives an error, or what is left: it does not crash
        return
    try:
        same = copy.read() == content
    except GeniusError as error:
        outcome.expect(False, f"{label}: not named by verifying, but: {error}")
        return
    outcome.expect(same, f"{label}: not named by verifying, and something else is read")
    outcome.seen["in unused bytes, changes nothing"] += 1


def _check_cache(outcome: Outcome, path: Path, held: dict[bytes, bytes], what: str) -> None:
    try:
        altered = altered_rows(path, held)
    except GeniusError:
        outcome.seen["refused at open"] += 1
        return
    outcome.expect(not altered, f"feature cache, {what}: {altered} altered features are given")
    outcome.seen["damaged features count as missing"] += 1


def refuses(work: Callable[[], object]) -> bool:
    """Whether some work ends with an error of ours."""
    try:
        work()
    except GeniusError:
        return True
    return False


def _scenario(name: str, unit: str, harm: Harm, promise: str, field: str) -> Scenario:
    prepared = partial(prepare, harm=harm)
    return Scenario(name, promise, unit, 10_000, field, prepared, seconds=5, share=60)


FLIPS = _scenario(
    "flipped-bits",
    "flipped bits",
    flip,
    "One flipped bit in any file of an index, a model, features or the feature cache is named by verifying, "
    "and refused when a checked file is opened.",
    "Lance 14: 147 of 150 flips returned altered data without an error (measured)",
)
CUTS = _scenario(
    "damaged-files",
    "damaged files",
    cut_or_scribble,
    "A truncated file, a garbage header, zeros or an appended tail is named; nothing crashes or hangs.",
    "usearch: 8 of 60 damaged files end the process; faiss IVF-PQ accepts 28 of 60 (measured)",
)
