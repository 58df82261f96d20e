"""What a disk may hold after the power went: a record of calls (`shim`), replayed up to a moment.

The model is strict. What was synced is there. Of a file's contents that were not, each block of 4 KB may be
there or not, whichever was written first; a file's length may be any that it had since. Names belong to their
folder: a folder's changes that were not synced are there up to some moment, or not at all, and a folder that
was itself not synced may be without the names of files whose contents were. Renaming between folders is one
step. This allows more than ext4, XFS or btrfs do.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

BLOCK = 4096
_HEAD = struct.Struct("<c5q")


@dataclass(frozen=True, slots=True)
class Call:
    """A recorded call: its kind, up to three numbers, and up to two byte strings."""

    kind: str
    numbers: tuple[int, int, int]
    first: bytes
    second: bytes


def read_record(path: Path) -> list[Call]:
    """All calls of a record."""
    content, at, calls = path.read_bytes(), 0, []
    while at < len(content):
        kind, *numbers, length, other = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        first, second = content[at : at + length], content[at + length : at + length + other]
        at += length + other
        calls.append(Call(kind.decode(), (numbers[0], numbers[1], numbers[2]), first, second))
    return calls


@dataclass
class _File:
    """A file: what is surely there, and what happened to it since."""

    synced: bytearray = field(default_factory=bytearray)
    later: list[tuple[int, bytes | None]] = field(default_factory=list)
    """Writes at a place; without content, a truncation to this length."""

    def settle(self) -> None:
        """All that happened is there."""
        for at, content in self.later:
            _apply(self.synced, at, content)
        self.later.clear()

    def contents(self, dice: random.Random | None) -> bytes:
        """What may be there: all without dice, otherwise some blocks of it."""
        image = bytearray(self.synced)
        for at, content in self.later:
            if content is None:
                if dice is None or dice.random() < 0.5:
                    _apply(image, at, None)
                continue
            for start in range(0, len(content), BLOCK):
                if dice is None or dice.random() < 0.5:
                    _apply(image, at + start, content[start : start + BLOCK])
        return bytes(image)


def _apply(image: bytearray, at: int, content: bytes | None) -> None:
    if content is None:
        del image[at:]
        image.extend(bytes(at - len(image)))
        return
    image.extend(bytes(max(0, at - len(image))))
    image[at : at + len(content)] = content


Name = tuple[str, str]
"""A folder and a name in it."""
Step = list[tuple[Name, int | None]]
"""Names that one call sets to a node, or removes: all of it or nothing."""


class Disk:
    """Files and names, as far as calls were replayed.

    A node is a file or a folder, by its own number: folders keep theirs when they are renamed.
    """

    def __init__(self, root: Path) -> None:
        self._root = PurePosixPath(root)
        self._files: dict[int, _File] = {}
        self._folders: set[int] = {0}
        self._by_inode: dict[int, int] = {}
        self._names: dict[tuple[int, str], int] = {}
        """As the process sees them: by the number of their folder."""
        self._synced: dict[tuple[int, str], int] = {}
        self._steps: list[list[tuple[int, str, int | None]]] = []
        """Changes of names that are not synced, in order."""
        self._next = 1
        self.mark = 0

    # --- replaying

    def replay(self, call: Call) -> None:
        """What a call did."""
        number, at, _ = call.numbers
        if call.kind == "M":
            self.mark = number
        elif call.kind in "WTS":
            file = self._files.get(self._by_inode.get(number, -1))
            if file is not None and call.kind == "S":
                file.settle()
            elif file is not None:
                file.later.append((at, call.first if call.kind == "W" else None))
        elif call.kind == "A":
            for file in self._files.values():
                file.settle()
            self._settle_names(None)
        else:
            self._replay_names(call.kind, number, call.first.decode(), call.second.decode())

    def _replay_names(self, kind: str, inode: int, first: str, second: str) -> None:
        if kind == "D":
            self._settle_names(self._node(PurePosixPath(first)))
            return
        old = self._place(first)
        if kind == "C":
            node = self._new()
            self._files[node] = _File()
            self._by_inode[inode] = node
            self._change([(*old, node)])
        elif kind == "K":
            node = self._new()
            self._folders.add(node)
            self._change([(*old, node)])
        elif kind in "UQ":
            self._change([(*old, None)])
        elif kind == "R":
            self._change([(*old, None), (*self._place(second), self._names[old])])
        elif kind == "X":
            new = self._place(second)
            self._change([(*old, self._names[new]), (*new, self._names[old])])
        elif kind == "L":
            self._change([(*self._place(second), self._names[old])])

    def _new(self) -> int:
        self._next += 1
        return self._next

    def _node(self, path: PurePosixPath) -> int:
        node = 0
        for part in path.relative_to(self._root).parts:
            node = self._names[node, part]
        return node

    def _place(self, path: str) -> tuple[int, str]:
        whole = PurePosixPath(path)
        return self._node(whole.parent), whole.name

    def _change(self, step: list[tuple[int, str, int | None]]) -> None:
        self._steps.append(step)
        _set_names(self._names, step)

    def _settle_names(self, folder: int | None) -> None:
        """What happened to a folder's names is there; so is the other half of a rename that concerns it."""
        waiting = []
        for step in self._steps:
            if folder is None or any(place == folder for place, _, _ in step):
                _set_names(self._synced, step)
            else:
                waiting.append(step)
        self._steps = waiting

    # --- images

    def image(self, dice: random.Random | None) -> Iterator[tuple[str, bytes | None]]:
        """Paths below the root with contents, None for folders: all that happened, or what dice leave."""
        names = dict(self._synced)
        cut: dict[int, bool] = {}
        for step in self._steps:
            folders = {place for place, _, _ in step}
            # Once a change of a folder is not there, neither are its later ones.
            if any(cut.get(place) for place in folders) or (dice is not None and dice.random() < 0.3):
                cut |= dict.fromkeys(folders, True)
            else:
                _set_names(names, step)
        yield from self._below(0, "", names, dice)

    def _below(
        self, folder: int, path: str, names: dict[tuple[int, str], int], dice: random.Random | None
    ) -> Iterator[tuple[str, bytes | None]]:
        for (place, name), node in sorted(names.items()):
            if place != folder:
                continue
            inner = f"{path}/{name}" if path else name
            if node in self._folders:
                yield inner, None
                yield from self._below(node, inner, names, dice)
            else:
                yield inner, self._files[node].contents(dice)


def _set_names(names: dict[tuple[int, str], int], step: list[tuple[int, str, int | None]]) -> None:
    for folder, name, node in step:
        if node is None:
            names.pop((folder, name), None)
        else:
            names[folder, name] = node


def write_image(disk: Disk, folder: Path, dice: random.Random | None) -> None:
    """Write what a disk may hold into an empty folder."""
    for path, content in disk.image(dice):
        if content is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(content)
