"""A collection cut into chunks, which can be read apart, in any process, and together give all of its items.

A chunk is made of pieces (see `cutters`). It is named by its contents and its range, so that a cut can be
compared with an earlier one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import orjson

from genius.data.collection import Collection, Located, Report
from genius.data.cutters import Cutter, Piece, cutter_of
from genius.data.folder import Folder
from genius.errors import InputError


@dataclass(frozen=True)
class Chunk:
    """Some pieces, one after another."""

    pieces: tuple[Piece, ...]

    @property
    def items(self) -> int:
        """About how many items it holds."""
        return sum(piece.items for piece in self.pieces)

    @cached_property
    def name(self) -> str:
        """What tells it from every other chunk: its contents, and where they are."""
        fields = [[piece.file, piece.start, piece.stop, piece.content] for piece in self.pieces]
        return hashlib.sha256(orjson.dumps(fields)).hexdigest()

    def __str__(self) -> str:
        first, last = self.pieces[0], self.pieces[-1]
        names = first.file if first.file == last.file else f"{first.file} to {last.file}"
        return f"{names} from {first.before or first.start:,} on"


def cut(collection: Collection, size: int) -> Iterator[Chunk]:
    """The chunks of a collection, of about `size` items each; the cut depends on nothing else.

    Raises InputError for a collection that can't be read.
    """
    waiting: list[Piece] = []
    for piece in cutter_of(collection).pieces(size):
        if waiting and sum(before.items for before in waiting) + piece.items > size:
            yield Chunk(tuple(waiting))
            waiting = []
        waiting.append(piece)
    if waiting:
        yield Chunk(tuple(waiting))


def read_chunk(collection: Collection, chunk: Chunk, report: Report) -> Iterator[Located]:
    """The items of a chunk with their places; errors go to `report`.

    Raises InputError if it is not what it was when it was cut, also if that changes meanwhile.
    """
    cutter = cutter_of(collection)
    for piece in chunk.pieces:
        _check(cutter, piece)
        yield from cutter.read(piece, report)
        _check(cutter, piece)


def _check(cutter: Cutter, piece: Piece) -> None:
    try:
        same = cutter.content(piece) == piece.content
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", path=piece.file) from error
    if not same:
        raise InputError(
            "has changed since it was cut into chunks: start again when nobody writes to it", path=piece.file
        )


def shared_errors(collection: Collection, report: Report) -> None:
    """Report what is wrong with a collection as a whole, and with none of its chunks: a folder's captions."""
    if isinstance(collection, Folder):
        files = {str(collection.path / path) for path in collection.item_paths()}
        for _ in collection.without_exif()._located_items(
            lambda error: report(error) if str(error.path) not in files else None
        ):
            pass
