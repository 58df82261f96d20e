"""GRACE's string identifiers: a running number as a string, in the tokens of a language model.

Paper: https://arxiv.org/abs/2402.10805 (GRACE; ACL 2024). Its figures for text → image: GENIUS's supplement,
Table 7.
Known (from the authors' code, github.com/liyongqi67/GRACE): the same running number as in numeric
identifiers, but written without spaces, so that the tokenizer of the language model cuts it, mostly into
groups of digits. It says nothing of the image, which is why both find next to nothing on COCO.
Ours: the tokenizer is the one of the built-in text tower (WordPiece). A number that it can't spell is cut
into digits. Identifiers are filled up with an end token to one length, and every position has its own
embeddings. There are twice as many strings as items, for new ones.
What we can't have: GRACE's multimodal language model (see `numeric`).
Size: two to four tokens, of about a thousand at a position.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from genius.errors import MissingError
from genius.identifiers.scheme import ItemContents, TrainingTexts, WithoutStem

SPARE = 2
"""How many times as many strings as items there are."""
CONTINUED = "##"
"""How WordPiece marks a token that continues a word."""


@dataclass(frozen=True, eq=False)
class String(WithoutStem):
    """The symbols of every string, uint16 [strings, levels]; 0 is the end token."""

    strings: np.ndarray

    @classmethod
    def fit(cls, items: ItemContents, texts: TrainingTexts, seed: int) -> Self:
        """Cut the strings of all numbers that may be given. Raises MissingError without a tokenizer."""
        if texts.tokenize is None:
            raise MissingError(
                "string identifiers are written in tokens of the built-in text tower, and this model has "
                'another encoder: say towers = "lite" in [encoder], or identifiers = "numeric"'
            )
        tokens = spell([str(number) for number in range(SPARE * len(items))], texts.tokenize)
        strings = np.zeros((len(tokens), max(map(len, tokens))), np.uint16)
        for level in range(strings.shape[1]):
            symbols: dict[str, int] = {}
            for number, spelled in enumerate(tokens):
                if level < len(spelled):
                    strings[number, level] = symbols.setdefault(spelled[level], len(symbols) + 1)
        return cls(strings)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""
        return cls(arrays["strings"])

    def arrays(self) -> dict[str, np.ndarray]:
        """The strings."""
        return {"strings": self.strings}

    @property
    def number_sizes(self) -> tuple[int, ...]:
        """The tokens that occur at each position, and the end token."""
        return tuple((self.strings.max(axis=0).astype(int) + 1).tolist())

    @property
    def room(self) -> int:
        """How many strings there are."""
        return len(self.strings)

    def write_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """The strings of numbers [n], uint16 [n, levels]."""
        return np.asarray(self.strings[numbers])


def spell(numbers: Sequence[str], tokenize: Callable[[Sequence[str]], list[list[str]]]) -> list[list[str]]:
    """The tokens of each number as a string, or its digits if the tokens don't spell it."""
    cut = tokenize(numbers)
    spelled = ["".join(token.removeprefix(CONTINUED) for token in tokens) for tokens in cut]
    return [
        tokens if text == number else list(number)
        for number, tokens, text in zip(numbers, cut, spelled, strict=True)
    ]
