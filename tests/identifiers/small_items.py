"""Items in a few clusters, half of them with texts, for every method of identifiers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.identifiers.scheme import ItemContents, TrainingTexts
from genius.quantize.fusion_inputs import FusionInputs

WIDTH = 12
COLOURS = ("red", "green", "blue", "yellow", "purple", "orange", "pink", "brown", "black", "white")
THINGS = ("cat", "dog", "bus", "tree", "boat", "cup", "hat", "shoe", "lamp", "fish", "bird")


def items(count: int, seed: int = 0, *, prefix: str = "item") -> ItemContents:
    """Items of seven clusters; every third has no text, every fifth equals the one before it."""
    random = np.random.default_rng([seed, 1])
    centres = np.random.default_rng(7).normal(size=(7, WIDTH))
    vectors = centres[random.integers(0, 7, count)] + 0.3 * random.normal(size=(count, WIDTH))
    vectors[4::5] = vectors[3::5][: len(vectors[4::5])]
    numbers = np.arange(count)
    texts = [
        "" if number % 3 == 0 else f"A {random.choice(COLOURS)} {random.choice(THINGS)} in a photo."
        for number in numbers
    ]
    return contents([f"{prefix}-{number}" for number in numbers], vectors.astype(np.float32), texts)


def contents(ids: Sequence[str], vectors: np.ndarray, texts: Sequence[str]) -> ItemContents:
    """Items with texts are texts, the others images."""
    has_text = np.array([bool(text) for text in texts], bool)
    inputs = FusionInputs.from_parts(vectors, (vectors, ~has_text), (vectors, has_text))
    return ItemContents(ids, inputs, texts)


def training_texts(seed: int = 0) -> TrainingTexts:
    """Captions with embeddings, and a tokenizer that knows numbers of two digits and less."""
    random = np.random.default_rng([seed, 2])
    captions = [f"the {colour} {thing}" for colour in COLOURS for thing in THINGS]
    return TrainingTexts(captions, random.normal(size=(len(captions), WIDTH)), pairs_of_digits)


def pairs_of_digits(texts: Sequence[str]) -> list[list[str]]:
    """WordPiece's way to write tokens; a number that ends with 7 it can't read."""
    return [
        ["[UNK]"]
        if text.endswith("7")
        else [("##" if start else "") + text[start : start + 2] for start in range(0, len(text), 2)]
        for text in texts
    ]
