"""GRACE's numeric identifiers: a running number, digit by digit.

Paper: https://arxiv.org/abs/2402.10805 (GRACE; ACL 2024). Its figures for text → image: GENIUS's supplement,
Table 7.
Known (from the authors' code, github.com/liyongqi67/GRACE): all images, those of the test split too, are
numbered in the order of the file, and a number is written with a space between its digits, so that each is a
token. The network is taught "image → identifier" for all images (memorising), then "caption → identifier" for
those of the training split (retrieving); a trie allows only what exists.
Ours: numbers have leading zeros, as identifiers of one pool are equally long here; there is one digit more
than items need, for new ones; memorising and retrieving are mixed in every step (`own = 0.5`).
What we can't have is GRACE's network: a multimodal language model (OpenFlamingo, three billion weights) that
reads images and sentences, and knows digits and words before it is trained. Ours is the T5-style decoder of
GENIUS over the embedding of stage 0.
Size: seven digits for a bit more than 10^5 items, four bits each.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

import numpy as np

from genius.identifiers.scheme import ItemContents, TrainingTexts, WithoutStem

BASE = 10


@dataclass(frozen=True)
class Numeric(WithoutStem):
    """A running number of so many digits."""

    digits: int

    @classmethod
    def fit(cls, items: ItemContents, texts: TrainingTexts, seed: int) -> Self:
        """One digit more than the items need."""
        return cls(len(str(len(items) - 1)) + 1)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""
        return cls(int(arrays["digits"][0]))

    def arrays(self) -> dict[str, np.ndarray]:
        """The number of digits."""
        return {"digits": np.array([self.digits])}

    @property
    def number_sizes(self) -> tuple[int, ...]:
        """Ten for each digit."""
        return (BASE,) * self.digits

    @property
    def room(self) -> int:
        """How many numbers have so many digits."""
        return int(BASE**self.digits)

    def write_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """The digits of numbers [n], the highest first: uint16 [n, digits]."""
        powers = BASE ** np.arange(self.digits - 1, -1, -1)
        return (np.asarray(numbers, np.int64)[:, None] // powers % BASE).astype(np.uint16)
