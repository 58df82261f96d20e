"""Words of other languages in Latin letters, by which a text that is not English is noticed.

Two kinds are known: the most frequent words, and everyday words by what they mean (`foreign_words.txt`). None
of them is an English word, a usual name or a loan: what is English must not be called foreign, so "chat" and
"hut" are left out, and a text of other words alone is not noticed.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

_FREQUENT_WORDS = {
    "German": "der und ein eine einen einem einer mit auf dem das ist nicht für beim zum zur über von vor",
    "French": "le les des une du avec dans sur est pour aux",
    "Spanish": "el los las una para por del",
    "Italian": "il gli della nel nella nei che sulla",
    "Portuguese": "uma com não dos na",
    "Dutch": "een het naar bij voor",
}
FREQUENT_WORDS = frozenset(word for words in _FREQUENT_WORDS.values() for word in words.split())
"""What stands beside such a word is hardly English either."""
_LINES = resources.files("genius.encode").joinpath("foreign_words.txt").read_text("utf-8").splitlines()
ENGLISH_FOR: Mapping[str, str] = {
    word: english for english, words in (line.split(": ") for line in _LINES) for word in words.split()
}
"""Everyday words of other languages, in lower case, and what they mean."""
