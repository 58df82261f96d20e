"""Queries by tags: texts of a few tags, and all emoji that fit them."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence

from genius.demo.emoji import Emoji, name_words, stable_number
from genius.demo.wording import choose

TAGS_TOGETHER = (2, 3)
TEXTS_PER_ENTRY = 6
MOST_ENTRIES = 6
"""As many entries of emojibase as a concept has genders and directions; words that fit more are too vague."""

_FILLERS = frozenset(
    ("a", "an", "and", "at", "for", "from", "in", "not", "of", "on", "or", "the", "to", "with", "you")
)

Entries = Mapping[str, Sequence[Emoji]]
"""The forms (skin tones) of each entry of emojibase, by its code."""


def tag_texts(emojis: Sequence[Emoji]) -> list[tuple[str, list[Emoji]]]:
    """Texts of a few tags, each with all emoji that fit; these are few, and of one family."""
    entries: dict[str, list[Emoji]] = defaultdict(list)
    tagged: dict[str, set[str]] = defaultdict(set)
    for emoji in emojis:
        entries[emoji.entry].append(emoji)
        for word in emoji.words:
            tagged[word].add(emoji.entry)
    texts: dict[str, list[Emoji]] = {}
    for entry in entries:
        for words, fitting_entries in _distinctive_words(entry, entries, tagged):
            fitting = [form for other in entries if other in fitting_entries for form in entries[other]]
            text, chosen = _with_tone(", ".join(words), fitting)
            texts.setdefault(text, chosen)
    return list(texts.items())


def _distinctive_words(
    entry: str, entries: Entries, tagged: Mapping[str, set[str]]
) -> list[tuple[tuple[str, ...], set[str]]]:
    """A few sets of an entry's words that only its family has, with the entries that fit.

    Words that are not in the name come first: finding a name by its own words would be too easy.
    """
    emoji = entries[entry][0]
    named = {word.lower() for word in name_words(emoji.name)}
    usable = sorted(word for word in emoji.words if word not in _FILLERS)
    options = [words for size in TAGS_TOGETHER for words in itertools.combinations(usable, size)]
    options.sort(key=lambda words: (len(named.intersection(words)), stable_number(entry, *words)))
    chosen: list[tuple[tuple[str, ...], set[str]]] = []
    for words in options:
        fitting = set.intersection(*(tagged[word] for word in words))
        if len(fitting) <= MOST_ENTRIES and all(
            entries[other][0].family == emoji.family for other in fitting
        ):
            chosen.append((words, fitting))
            if len(chosen) == TEXTS_PER_ENTRY:
                break
    return chosen


def _with_tone(text: str, fitting: list[Emoji]) -> tuple[str, list[Emoji]]:
    """The text and its emoji; every third text that fits people of all skin tones asks for one of them."""
    tones = sorted({emoji.attributes["tone"] for emoji in fitting if "tone" in emoji.attributes})
    if not tones or stable_number("tone", text) % 3:
        return text, fitting
    tone = choose(tones, "tone", text)
    return f"{text}, {tone} skin tone", [emoji for emoji in fitting if emoji.attributes.get("tone") == tone]
