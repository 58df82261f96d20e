"""Texts that ask for an emoji by its tags, and all the emoji that fit them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from genius.demo.emoji import Emoji, name_words, stable_number
from genius.demo.wording import choose

TAGS_TOGETHER = (2, 3)
TEXTS_PER_ROW = 6
MOST_ROWS = 6
"""A concept's genders and directions, each a row of emojibase; words that fit more rows are too vague."""

_FILLERS = frozenset(
    ("a", "an", "and", "at", "for", "from", "in", "not", "of", "on", "or", "the", "to", "with", "you")
)

Rows = Mapping[str, Sequence[Emoji]]
"""The forms (skin tones) of each row of emojibase."""


def tag_texts(emoji: Sequence[Emoji]) -> list[tuple[str, list[Emoji]]]:
    """Texts of a few tags, each with all the emoji that fit; only texts that fit one family, and closely."""
    rows: dict[str, list[Emoji]] = defaultdict(list)
    tagged: dict[str, set[str]] = defaultdict(set)
    for one in emoji:
        rows[one.row].append(one)
        for word in one.words:
            tagged[word].add(one.row)
    found: dict[str, list[Emoji]] = {}
    for row in rows:
        for words, fitting_rows in _telling_words(row, rows, tagged):
            fitting = [one for other in rows if other in fitting_rows for one in rows[other]]
            text, chosen = _with_tone(", ".join(words), fitting)
            found.setdefault(text, chosen)
    return list(found.items())


def _telling_words(
    row: str, rows: Rows, tagged: Mapping[str, set[str]]
) -> list[tuple[tuple[str, ...], set[str]]]:
    """A few sets of a row's words that single out its family, with the rows that fit.

    Words that are not in the name come first: finding a name by its own words would be no feat.
    """
    one = rows[row][0]
    named = {word.lower() for word in name_words(one.name)}
    usable = sorted(word for word in one.words if word not in _FILLERS)
    options = [words for size in TAGS_TOGETHER for words in itertools.combinations(usable, size)]
    options.sort(key=lambda words: (len(named.intersection(words)), stable_number(row, *words)))
    found: list[tuple[tuple[str, ...], set[str]]] = []
    for words in options:
        fitting = set.intersection(*(tagged[word] for word in words))
        if len(fitting) <= MOST_ROWS and all(rows[other][0].family == one.family for other in fitting):
            found.append((words, fitting))
            if len(found) == TEXTS_PER_ROW:
                break
    return found


def _with_tone(text: str, fitting: list[Emoji]) -> tuple[str, list[Emoji]]:
    """Every third text that fits people of all skin tones asks for one of them."""
    tones = sorted({one.attributes["tone"] for one in fitting if "tone" in one.attributes})
    if not tones or stable_number("tone", text) % 3:
        return text, fitting
    tone = choose(tones, "tone", text)
    return f"{text}, {tone} skin tone", [one for one in fitting if one.attributes.get("tone") == tone]
