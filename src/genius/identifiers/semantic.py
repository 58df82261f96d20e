"""GRACE's semantic identifiers: words of an image's caption.

Paper: https://arxiv.org/abs/2402.10805 (GRACE; ACL 2024). Its figures for text → image: GENIUS's supplement,
Table 7.
Known (from the authors' code, github.com/liyongqi67/GRACE): the identifier of an image is a caption that
people wrote for it, up to 64 tokens, that of a test image too; memorising and retrieving as with `numeric`.
Ours: an item's text is its own, else the caption of a training query that it answers, else that of the
training query whose embedding is most similar, so that no test caption is used. Of a text the first eight
different keywords count: words of letters and digits, without those in more than a tenth of all texts, of the
4,095 that are in most. Then comes a number that separates items of equal keywords. Every position has its own
embeddings of words, and none of them is known before training.
What we can't have: GRACE's multimodal language model (see `numeric`), which can speak.
Size: 8 levels of 4,096 (12 bits each) and one of up to 65,536: 112 bits at most.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from genius.identifiers.scheme import ItemContents, SingleSymbolNumbers, TrainingTexts, room_for

WORDS = 8
"""Keywords of an identifier."""
VOCABULARY = 4095
"""Words that may be keywords, at most; together with the end symbol they take twelve bits."""
TOO_FREQUENT = 0.1
"""Words that are in a larger share of the texts are no keywords."""
CAPTIONS = 20_000
"""Training captions that new images are compared with, at most."""
END = 0
"""The symbol behind keywords that are fewer."""
BLOCK = 1024
"""Images that are compared with all captions at a time."""


@dataclass(frozen=True, eq=False)
class Semantic(SingleSymbolNumbers):
    """Keywords of an item's text or of the nearest caption.

    Attributes:
        vocabulary: the keywords; the symbol of the first is 1.
        captions: the keywords of training captions, uint16 [captions, WORDS].
        embeddings: of these, float16 [captions, width].
    """

    vocabulary: tuple[str, ...]
    captions: np.ndarray
    embeddings: np.ndarray

    @classmethod
    def fit(cls, items: ItemContents, texts: TrainingTexts, seed: int) -> Self:
        """Choose the keywords among the words of items and captions."""
        vocabulary = choose_vocabulary([text for text in (*items.texts, *texts.captions) if text])
        chosen = np.random.default_rng([seed, 37]).permutation(len(texts.captions))[:CAPTIONS]
        known = cls(
            0,
            vocabulary,
            np.zeros((0, WORDS), np.uint16),
            np.asarray(texts.embeddings, np.float16)[np.sort(chosen)],
        )
        captions = known.keywords([texts.captions[number] for number in np.sort(chosen)])
        fitted = cls(0, vocabulary, captions, known.embeddings)
        return cls(room_for(fitted.stems(items)), vocabulary, captions, known.embeddings)

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """From what `arrays` returned."""
        words = arrays["vocabulary"].tobytes().decode().split()
        return cls(int(arrays["room"][0]), tuple(words), arrays["captions"], arrays["caption_embeddings"])

    def arrays(self) -> dict[str, np.ndarray]:
        """The vocabulary in UTF-8, and the captions."""
        return {
            "room": np.array([self.room]),
            "vocabulary": np.frombuffer(" ".join(self.vocabulary).encode(), np.uint8),
            "captions": self.captions,
            "caption_embeddings": self.embeddings,
        }

    @property
    def stem_sizes(self) -> tuple[int, ...]:
        """The keywords and the end symbol."""
        return (len(self.vocabulary) + 1,) * WORDS

    def stems(self, items: ItemContents) -> np.ndarray:
        """The keywords of items, uint16 [n, WORDS]: of their texts, or of the nearest captions."""
        stems = self.keywords(items.texts)
        wordless = np.flatnonzero([not text for text in items.texts])
        if len(wordless) and len(self.captions):
            stems[wordless] = self.captions[self._nearest_captions(items.inputs.embeddings[wordless])]
        return stems

    def keywords(self, texts: Sequence[str]) -> np.ndarray:
        """The first different keywords of texts, uint16 [n, WORDS], filled up with END."""
        stems = np.full((len(texts), WORDS), END, np.uint16)
        for row, text in enumerate(texts):
            known = (self._symbols[word] for word in words_of(text) if word in self._symbols)
            found_symbols = list(dict.fromkeys(known))[:WORDS]
            stems[row, : len(found_symbols)] = found_symbols
        return stems

    @cached_property
    def _symbols(self) -> dict[str, int]:
        return {word: symbol for symbol, word in enumerate(self.vocabulary, start=1)}

    def _nearest_captions(self, embeddings: np.ndarray) -> np.ndarray:
        """The number [n] of the caption that is most similar to each embedding [n, width]."""
        captions = self.embeddings.astype(np.float32)
        blocks = [np.zeros(0, np.int64)]
        for start in range(0, len(embeddings), BLOCK):
            block = np.asarray(embeddings[start : start + BLOCK], np.float32)
            blocks.append((block @ captions.T).argmax(1))
        return np.concatenate(blocks)


def words_of(text: str) -> Iterator[str]:
    """The words of a text: letters and digits, in lower case."""
    return (match.group() for match in re.finditer(r"[^\W_]+", text.lower()))


def choose_vocabulary(texts: Sequence[str]) -> tuple[str, ...]:
    """The words that are in most texts, without those that are in too many; equally frequent ones by name."""
    counts = Counter(word for text in texts for word in set(words_of(text)))
    kept = [word for word, count in counts.items() if count <= max(1, TOO_FREQUENT * len(texts))]
    return tuple(sorted(kept, key=lambda word: (-counts[word], word))[:VOCABULARY])
