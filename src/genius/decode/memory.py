"""A decoder that remembers where often asked-for items were asked from.

Geometry treats all codes alike. But of some codes training has shown many queries, and a new query that is
very like these most likely asks for the same. So some vectors stand for the queries of each such code, and
where a query is nearer to one of them than its floor s₀, every code on the way becomes likelier than the
decoder alone would have it:

    p(t_k = j | q, t_<k)  ∝  p_decoder(j) · exp(b),   b = gain · (s − s₀) on the way, else 0

Where items are re-ranked by likeness, one gains by each code that it shares with what its query is reminded
of, 2 · (s − s₀) if that is all of them.

The floor is the nearness of the nearest training query that asked for something else (train/remembering.py):
where others have asked from, nothing is remembered, so an item that training never asked for hardly loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius.decode.decoding import Decoder, Decoding
from genius.errors import InputError

FILE = "memory.safetensors"
MOST = 8
"""How many codes a query is reminded of at most."""
LIKENESS = 2.0
"""How much nearness beyond the floor adds to the likeness of an item with the whole code."""


@dataclass(frozen=True, eq=False)
class Memory:
    """Vectors of queries, and the codes that were their answers, in the order of these codes.

    Attributes:
        vectors: of unit length, float32 [entries, width].
        codes: the answers, int64 [entries, levels].
        floors: the nearness from which an entry counts, float32 [entries].
        gain: how much nearness beyond the floor adds to the log-odds.
    """

    vectors: np.ndarray
    codes: np.ndarray
    floors: np.ndarray
    gain: float

    def __post_init__(self) -> None:
        shapes = self.vectors.shape, self.codes.shape, self.floors.shape
        if [len(shape) for shape in shapes] != [2, 2, 1] or len({shape[0] for shape in shapes}) != 1:
            raise InputError(f"each entry of a memory needs a vector, a code and a floor, not {shapes}")

    def __len__(self) -> int:
        return len(self.vectors)

    @classmethod
    def open(cls, path: Path, gain: float) -> Memory:
        """The memory in a file."""
        from safetensors.numpy import load_file

        arrays = load_file(path)
        return cls(arrays["vectors"], arrays["codes"].astype(np.int64), arrays["floors"], gain)

    def write(self, path: Path) -> None:
        """Write all but the gain to a file."""
        from safetensors.numpy import save_file

        codes = self.codes.astype(np.uint16)
        save_file({"vectors": self.vectors, "codes": codes, "floors": self.floors}, path)


@dataclass(frozen=True, eq=False)
class Reminders:
    """What queries are reminded of.

    Attributes:
        codes: int64 [queries, reminders, levels], -1 where there is none.
        beyond: nearness beyond the floor, float32 [queries, reminders], 0 where there is none.
    """

    codes: np.ndarray
    beyond: np.ndarray

    def __getitem__(self, queries: np.ndarray) -> Reminders:
        """Those of some queries, by number."""
        return Reminders(self.codes[queries], self.beyond[queries])

    def likeness(self, query: int, codes: np.ndarray) -> np.ndarray:
        """What items with these codes [n, levels] gain by what a query is reminded of: float32 [n]."""
        shared = self.codes[query][:, None, :] == codes
        added = np.where(shared, self.beyond[query][:, None, None], np.float32(0)).max(axis=0, initial=0)
        return np.asarray(added.sum(axis=1) * np.float32(LIKENESS / codes.shape[1]))

    def tables(self, codes: int) -> np.ndarray:
        """The same as what each code of each level adds: float32 [queries, levels, codes]."""
        count, _, levels = self.codes.shape
        tables = np.zeros((count, levels, codes), np.float32)
        queries, which = np.nonzero(self.beyond > 0)
        added = self.beyond[queries, which] * np.float32(LIKENESS / levels)
        for level in range(levels):
            np.maximum.at(tables[:, level], (queries, self.codes[queries, which, level]), added)
        return tables


class Remembering:
    """A decoder with a memory.

    Args:
        decoder: what scores codes otherwise.
        memory: of codes of the same levels.
    """

    def __init__(self, decoder: Decoder, memory: Memory) -> None:
        sizes = np.array(decoder.sizes)
        if memory.codes.shape[1] != len(sizes) or (memory.codes >= sizes).any():
            raise InputError("a memory's codes should be codes of its decoder")
        self.decoder, self.memory = decoder, memory
        self._bounds: list[int] = np.searchsorted(memory.codes[:, 0], np.arange(sizes[0] + 1)).tolist()
        new = (memory.codes[1:] != memory.codes[:-1]).any(axis=1)
        self._answers = np.cumsum(np.concatenate([np.zeros(min(len(memory), 1), bool), new]))

    @property
    def sizes(self) -> Sequence[int]:
        """How many codes each level has."""
        return self.decoder.sizes

    def begin(self, vectors: np.ndarray, first: np.ndarray | None = None) -> Decoding:
        """Start with one row for each query vector [n, width], behind its first code if that is given."""
        decoding = self.decoder.begin(vectors, first)
        reminders = self.remind(vectors, first)
        if not reminders.beyond.any():
            return decoding
        return RememberingDecoding(decoding, reminders, self.memory.gain, level=0 if first is None else 1)

    def remind(self, vectors: np.ndarray, first: np.ndarray | None = None) -> Reminders:
        """What each query [n, width] is reminded of, the strongest first; by `first` [n] only of codes that
        begin so, -1 for any."""
        wanted = [-1] * len(vectors) if first is None else first.tolist()
        found = [
            self._recall(vector, code)
            for vector, code in zip(vectors.astype(np.float32, copy=False), wanted, strict=True)
        ]
        most = max((len(entries) for entries, _ in found), default=0)
        codes = np.full((len(vectors), most, self.memory.codes.shape[1]), -1, np.int64)
        beyond = np.zeros((len(vectors), most), np.float32)
        for number, (entries, near) in enumerate(found):
            codes[number, : len(entries)] = self.memory.codes[entries]
            beyond[number, : len(entries)] = near
        return Reminders(codes, beyond)

    def _recall(self, vector: np.ndarray, first: int) -> tuple[np.ndarray, np.ndarray]:
        """The entries that a query is reminded of, one for each answer, and how far beyond their floors.

        Each query is multiplied by itself: a matrix product would round differently in other company.
        """
        memory = self.memory
        start, end = (0, len(memory)) if first < 0 else self._bounds[first : first + 2]
        beyond = memory.vectors[start:end] @ vector - memory.floors[start:end]
        entries = np.flatnonzero(beyond > 0)
        entries = entries[np.argsort(-beyond[entries], kind="stable")]
        _, strongest = np.unique(self._answers[start + entries], return_index=True)
        entries = entries[np.sort(strongest)[:MOST]]
        return start + entries, beyond[entries]


class RememberingDecoding:
    """One search: for each row, which of its query's reminders still lie ahead of it."""

    def __init__(self, decoding: Decoding, reminders: Reminders, gain: float, level: int) -> None:
        self._decoding, self._codes, self._level = decoding, reminders.codes, level
        self._strengths = reminders.beyond * np.float32(gain)
        self._queries = np.arange(len(reminders.codes))
        self._ahead = reminders.beyond > 0

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level]."""
        scores = self._decoding.scores()
        reminded = np.flatnonzero(self._ahead.any(axis=1))
        if not len(reminded):
            return scores
        places, which = np.nonzero(self._ahead[reminded])
        queries = self._queries[reminded[places]]
        ahead = places, self._codes[queries, which, self._level]
        more = np.zeros((len(reminded), scores.shape[1]), np.float32)
        np.maximum.at(more, ahead, self._strengths[queries, which])
        gained = np.exp(scores[reminded]) * np.expm1(more)
        scores[reminded] += more - np.log1p(gained.sum(axis=1, keepdims=True))
        return scores

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code."""
        self._decoding.advance(rows, codes)
        self._queries = self._queries[rows]
        taken = self._codes[self._queries, :, self._level] == np.asarray(codes)[:, None]
        self._ahead = self._ahead[rows] & taken
        self._level += 1
