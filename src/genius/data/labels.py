"""A few words for what some items have in common: frequent in their texts, and rare in all the others."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

LETTERS = 3
"""Shorter words say nothing: a, of, is."""
WORDS = 3
"""Words of a label."""
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PRIOR = 0.5


@dataclass
class Background:
    """In how many of all texts each word occurs."""

    texts: int = 0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, text: str) -> None:
        """Count one more text."""
        self.texts += 1
        self.counts.update(words(text))


def words(text: str) -> set[str]:
    """The different words of a text, in small letters, without short ones and numbers.

    >>> sorted(words("A dog's ball, and 2 dogs"))
    ['and', 'ball', "dog's", 'dogs']
    """
    return {word for word in _WORD.findall(text.lower()) if len(word) >= LETTERS}


def label(texts: Iterable[str], background: Background, count: int = WORDS) -> str:
    """The words that set these texts apart from the background, of which they are a part, best first.

    Words are ranked by the logarithm of how much likelier they are here than elsewhere, over its standard
    error, so that a word must be both frequent here and rare elsewhere. Empty where nothing stands out.
    """
    here: Counter[str] = Counter()
    total = 0
    for text in texts:
        here.update(words(text))
        total += 1
    least = 2 if total > 2 else 1  # what a single text says is not what many have in common
    scores = {word: _score(found, total, word, background) for word, found in here.items() if found >= least}
    chosen: list[str] = []
    for word in sorted(scores, key=lambda word: (-scores[word], word)):
        if len(chosen) == count or scores[word] <= 0:
            break
        if not any(word.startswith(other) or other.startswith(word) for other in chosen):  # dog, dogs
            chosen.append(word)
    return ", ".join(chosen)


def _score(found: int, total: int, word: str, background: Background) -> float:
    """The log-odds ratio of a word here and elsewhere, over its standard error."""
    elsewhere = max(0, background.counts[word] - found)
    others = max(elsewhere, background.texts - total)
    ratio = math.log((found + _PRIOR) / (total - found + _PRIOR))
    ratio -= math.log((elsewhere + _PRIOR) / (others - elsewhere + _PRIOR))
    return ratio / math.sqrt(1 / (found + _PRIOR) + 1 / (elsewhere + _PRIOR))
