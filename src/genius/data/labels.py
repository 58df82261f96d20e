"""Labels: a few words that describe a group of texts, frequent in them and rare in all others."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

LETTERS = 3
"""Minimum length of a word; shorter ones say nothing: a, of, is."""
WORDS = 3
"""Number of words in a label."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PRIOR = 0.5


@dataclass
class Background:
    """Document frequencies: in how many of all texts each word occurs."""

    texts: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Count one more text."""
        self.texts += 1
        self.counts.update(words(text))


def words(text: str) -> set[str]:
    """The distinct words of a text in lower case, without short words and numbers.

    >>> sorted(words("A dog's ball, and 2 dogs"))
    ['and', 'ball', "dog's", 'dogs']
    """
    return {word for word in _WORD.findall(text.lower()) if len(word) >= LETTERS}


def label(texts: Iterable[str], background: Background, count: int = WORDS) -> str:
    """The words that set these texts apart from the background, best first, separated by commas.

    Words are ranked by their log-odds ratio over its standard error, so that a word must be both frequent in
    these texts and rare in the rest of the background, which includes them. Empty if no word stands out.
    """
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        counts.update(words(text))
        total += 1
    least = 2 if total > 2 else 1  # a word of a single text does not describe a group
    scores = {
        word: _score(texts_with, total, word, background)
        for word, texts_with in counts.items()
        if texts_with >= least
    }
    chosen: list[str] = []
    for word in sorted(scores, key=lambda word: (-scores[word], word)):
        if len(chosen) == count or scores[word] <= 0:
            break
        if not any(word.startswith(other) or other.startswith(word) for other in chosen):  # dog, dogs
            chosen.append(word)
    return ", ".join(chosen)


def _score(texts_with: int, total: int, word: str, background: Background) -> float:
    """The log-odds ratio of a word, over its standard error: in these texts against the other texts.

    `texts_with` of `total` texts hold the word.
    """
    others_with = max(0, background.counts[word] - texts_with)
    others = max(others_with, background.texts - total)
    ratio = math.log((texts_with + _PRIOR) / (total - texts_with + _PRIOR))
    ratio -= math.log((others_with + _PRIOR) / (others - others_with + _PRIOR))
    return ratio / math.sqrt(1 / (texts_with + _PRIOR) + 1 / (others_with + _PRIOR))
