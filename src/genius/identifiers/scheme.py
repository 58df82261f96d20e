"""What a method of identifiers is: how an identifier begins, and how items that begin alike are numbered."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Protocol, Self, get_args

import numpy as np

from genius.quantize.fusion_inputs import FusionInputs

RivalName = Literal["numeric", "string", "semantic", "structured", "irgen", "tiger", "dsi"]
IdentifierName = Literal["codes", RivalName]
"""What items are known by: codes of a trained quantizer, or the identifiers of another method."""
RIVALS: tuple[RivalName, ...] = get_args(RivalName)
_GRACE = ("numeric", "string", "semantic", "structured")

ROOM = 256
"""Numbers that items of one beginning can have, at least."""
GROWTH = 4
"""How many times as many items as at first can begin alike, at least."""
MAX_ROOM = 1 << 16
"""A number that is one symbol is kept as uint16."""


def row_name(name: RivalName) -> str:
    """The row of a table that holds this method: "-like", as it rests on choices of ours."""
    return f"grace-{name}-like" if name in _GRACE else f"{name}-like"


@dataclass(frozen=True, eq=False)
class ItemContents:
    """What identifiers are made from.

    Attributes:
        ids: of the items [n].
        inputs: their embeddings, as a whole and by modality.
        texts: their texts [n], empty for items without.
    """

    ids: Sequence[str]
    inputs: FusionInputs
    texts: Sequence[str]

    def __len__(self) -> int:
        return len(self.ids)

    def select(self, rows: np.ndarray) -> ItemContents:
        """Some of the items, by their numbers."""
        parts = self.inputs[rows]
        inputs = FusionInputs.from_parts(
            parts["embeddings"], (parts["image"], parts["has_image"]), (parts["text"], parts["has_text"])
        )
        numbers = rows.tolist()
        return ItemContents([self.ids[row] for row in numbers], inputs, [self.texts[row] for row in numbers])


@dataclass(frozen=True, eq=False)
class TrainingTexts:
    """What training knows beside the items.

    Attributes:
        captions: texts of training queries [n].
        embeddings: of these queries, [n, width].
        tokenize: the tokens of texts, by the tokenizer of the text tower; None if that is not ours.
    """

    captions: Sequence[str]
    embeddings: np.ndarray
    tokenize: Callable[[Sequence[str]], list[list[str]]] | None = None


class Scheme(Protocol):
    """A method: an identifier is a *stem*, which the item's content decides, and then a *number*, which
    separates items of the same stem."""

    reads_instructions: ClassVar[bool]
    """Whether the decoder may read a query's instruction; a method that has none searches without it."""

    @classmethod
    def fit(cls, items: ItemContents, texts: TrainingTexts, seed: int) -> Self:
        """Learn what the method needs of all items that training may see."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""

    def arrays(self) -> dict[str, np.ndarray]:
        """What has to be kept, by name."""

    @property
    def stem_sizes(self) -> tuple[int, ...]:
        """How many symbols each level of a stem has."""

    def stems(self, items: ItemContents) -> np.ndarray:
        """The stems of items, uint16 [n, levels of a stem]; batch-invariant."""

    @property
    def number_sizes(self) -> tuple[int, ...]:
        """How many symbols each level of a number has; empty if items of one stem share their identifier."""

    @property
    def room(self) -> int:
        """How many numbers there are."""

    def write_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """Numbers [n] below `room` in symbols, uint16 [n, levels of a number]; no two alike."""


def room_for(stems: np.ndarray) -> int:
    """How many numbers items of one stem should have, given the stems [n, levels] of all items at first."""
    if not len(stems) or not stems.shape[1]:
        largest = len(stems)
    else:
        largest = int(np.unique(stems, axis=0, return_counts=True)[1].max())
    return min(max(ROOM, GROWTH * largest), MAX_ROOM)


@dataclass(frozen=True)
class SingleSymbolNumbers:
    """Numbers that are one symbol each, as most methods have them."""

    reads_instructions: ClassVar[bool] = True

    room: int

    @property
    def number_sizes(self) -> tuple[int, ...]:
        """One level."""
        return (self.room,)

    def write_numbers(self, numbers: np.ndarray) -> np.ndarray:
        """The numbers [n] themselves, uint16 [n, 1]."""
        return np.asarray(numbers, np.uint16)[:, None]


class WithoutStem:
    """Of a method that counts items: nothing of their content is in an identifier."""

    reads_instructions: ClassVar[bool] = True

    @property
    def stem_sizes(self) -> tuple[int, ...]:
        """None."""
        return ()

    def stems(self, items: ItemContents) -> np.ndarray:
        """Empty, uint16 [n, 0]."""
        return np.zeros((len(items), 0), np.uint16)
