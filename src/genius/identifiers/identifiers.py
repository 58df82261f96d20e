"""The identifiers of a model: a method, and the items that it was learned on with what they were given.

Items that training saw are known again by their id and keep their identifier; a new item gets its method's
stem and the next free number behind it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NoReturn

import numpy as np

from genius.errors import InputError, MissingError
from genius.identifiers.dsi import Dsi
from genius.identifiers.irgen import IrGen
from genius.identifiers.numeric import Numeric
from genius.identifiers.scheme import ItemContents, RivalName, Scheme, TrainingTexts
from genius.identifiers.semantic import Semantic
from genius.identifiers.string import String
from genius.identifiers.structured import Structured
from genius.identifiers.tiger import Tiger
from genius.tensors import read_tensors, write_tensors

SCHEMES: dict[RivalName, type[Scheme]] = {
    "numeric": Numeric,
    "string": String,
    "semantic": Semantic,
    "structured": Structured,
    "irgen": IrGen,
    "tiger": Tiger,
    "dsi": Dsi,
}
_KNOWN = ("known.digests", "known.stems", "known.numbers")


class Identifiers:
    """Gives items their identifiers; to a search, these are codes without code vectors.

    Args:
        name: of the method.
        scheme: the method, as it was fitted.
        width: of embeddings.
        digests: of the ids of known items, rising, uint64 [n].
        stems: their stems, uint16 [n, levels].
        numbers: their numbers, uint32 [n].
    """

    modality_code = "none"
    semantic = 0
    codebooks: None = None

    def __init__(
        self,
        name: RivalName,
        scheme: Scheme,
        width: int,
        digests: np.ndarray,
        stems: np.ndarray,
        numbers: np.ndarray,
    ) -> None:
        self.name, self.scheme, self.width = name, scheme, width
        self._digests, self._stems, self._numbers = digests, stems, numbers

    @classmethod
    def fit(cls, name: RivalName, items: ItemContents, texts: TrainingTexts, *, seed: int) -> Identifiers:
        """Fit a method to items, and give each of them its identifier.

        Raises InputError if there are no items.
        """
        if not len(items):
            raise InputError("identifiers are given to items, and there are none")
        scheme = SCHEMES[name].fit(items, texts, seed)
        stems = scheme.stems(items)
        numbers = _count_within(stems) if scheme.number_sizes else np.zeros(len(items), np.int64)
        if scheme.number_sizes and numbers.max() >= scheme.room:
            raise used_up(name, scheme.room)
        digests = _digests(items.ids)
        order = np.argsort(digests, kind="stable")
        width = items.inputs.width
        return cls(name, scheme, width, digests[order], stems[order], numbers[order].astype(np.uint32))

    @classmethod
    def open(cls, path: Path, name: RivalName, width: int) -> Identifiers:
        """What `write` wrote to a file."""
        arrays = read_tensors(path)
        known = [arrays.pop(key) for key in _KNOWN]
        return cls(name, SCHEMES[name].from_arrays(arrays), width, *known)

    def write(self, path: Path) -> None:
        """Write the method, and what known items were given."""
        known = dict(zip(_KNOWN, (self._digests, self._stems, self._numbers), strict=True))
        write_tensors(path, self.scheme.arrays() | known)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many symbols each level has."""
        return self.scheme.stem_sizes + self.scheme.number_sizes

    @property
    def num_known(self) -> int:
        """How many items were given an identifier when the method was fitted."""
        return len(self._digests)

    def codes(self, items: ItemContents) -> np.ndarray:
        """The identifiers of items, uint16 [n, levels]; see `Numbering.codes`."""
        return self.numbering().codes(items)

    def numbering(self, taken: np.ndarray | None = None) -> Numbering:
        """What gives identifiers to items one batch after the other, none of which is `taken` [n, levels]
        already."""
        return Numbering(self, () if taken is None else map(bytes, np.asarray(taken, np.uint16)))

    def known(self, ids: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Which of these ids are known, bool [n], and the identifiers uint16 [known, levels] of those."""
        digests = _digests(ids)
        places = np.minimum(np.searchsorted(self._digests, digests), len(self._digests) - 1)
        is_known = self._digests[places] == digests
        return is_known, self._written(self._stems[places[is_known]], self._numbers[places[is_known]])

    def next_numbers(self) -> dict[bytes, int]:
        """By stem, the first number that no known item has."""
        following: dict[bytes, int] = {}
        for stem, number in zip(map(bytes, self._stems), self._numbers.tolist(), strict=True):
            following[stem] = max(following.get(stem, 0), number + 1)
        return following

    def half_sq_norms(self, codes: np.ndarray) -> np.ndarray:
        """Zeros float32 [n]: there are no code vectors to sum up."""
        return np.zeros(len(codes), np.float32)

    def reconstruct(self, codes: np.ndarray, levels: int | None = None) -> NoReturn:
        """Raise MissingError: a quantized vector is a sum of code vectors."""
        raise MissingError(no_code_vectors(self.name))

    def units(self, codes: np.ndarray) -> NoReturn:
        """Raise MissingError, too."""
        raise MissingError(no_code_vectors(self.name))

    def _written(self, stems: np.ndarray, numbers: np.ndarray) -> np.ndarray:
        if not self.scheme.number_sizes:
            return stems
        return np.concatenate([stems, self.scheme.write_numbers(numbers)], axis=1)


class Numbering:
    """Gives identifiers, and remembers which numbers it has given."""

    def __init__(self, identifiers: Identifiers, taken: Iterable[bytes]) -> None:
        self._identifiers, self._taken = identifiers, set(taken)
        self._next = identifiers.next_numbers() if identifiers.scheme.number_sizes else {}

    def codes(self, items: ItemContents) -> np.ndarray:
        """The identifiers of items, uint16 [n, levels]: those of known items, and for new ones the stem and
        the next number that is free.

        Raises InputError where the numbers behind a stem are used up.
        """
        identifiers, scheme = self._identifiers, self._identifiers.scheme
        codes = np.zeros((len(items), len(identifiers.sizes)), np.uint16)
        is_known, known_codes = identifiers.known(items.ids)
        codes[is_known] = known_codes
        new, depth = np.flatnonzero(~is_known), len(scheme.stem_sizes)
        if len(new):
            codes[new, :depth] = scheme.stems(items.select(new))
        if scheme.number_sizes:
            for place in new:
                codes[place, depth:] = self._free_number(codes[place, :depth])
        return codes

    def _free_number(self, stem: np.ndarray) -> np.ndarray:
        """The next number behind a stem in symbols, which is taken from now on."""
        scheme, key = self._identifiers.scheme, bytes(stem)
        for number in range(self._next.get(key, 0), scheme.room):
            written: np.ndarray = scheme.write_numbers(np.array([number]))[0]
            if key + bytes(written) not in self._taken:
                self._next[key] = number + 1
                return written
        raise used_up(self._identifiers.name, scheme.room)


def no_code_vectors(name: str) -> str:
    """Why a model with these identifiers has neither geometry nor quantized vectors."""
    return (
        f"{name} identifiers have no code vectors: a model with them searches by its learned decoder only "
        "(the mode paper, the decoder learned)"
    )


def used_up(name: str, room: int) -> InputError:
    """That there are no more numbers behind a stem."""
    return InputError(
        f"more than {room:,} items have {name} identifiers that begin alike, and these have no more numbers: "
        "train the identifiers again on all items"
    )


def _count_within(stems: np.ndarray) -> np.ndarray:
    """For each row, how many equal rows are before it, int64 [n]."""
    if not stems.shape[1]:
        return np.arange(len(stems))
    groups = np.unique(stems, axis=0, return_inverse=True)[1].reshape(-1)
    order = np.argsort(groups, kind="stable")
    starts = np.searchsorted(groups[order], groups[order])
    counts = np.empty(len(stems), np.int64)
    counts[order] = np.arange(len(stems)) - starts
    return counts


def _digests(ids: Sequence[str]) -> np.ndarray:
    """A number for each id, uint64 [n]; of billions of ids hardly two have the same."""
    content = b"".join(hashlib.blake2b(id.encode(), digest_size=8).digest() for id in ids)
    return np.frombuffer(content, np.uint64)
