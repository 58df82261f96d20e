"""Names for groups of items, as a person would give them.

A group is named by its texts if enough of its items have one: by the word or the phrase that many of them
share and that is rare in other groups. So one stray text names nothing. Items without texts are named by the
words of a vocabulary that their embeddings are nearest to, nearer than the rest of the collection is.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from genius.collection.vocabulary import BROADER, FURTHER, GENERIC, ONE_PERSON
from genius.data.records import Item

PHRASE = 3
"""A phrase has at most so many words."""
TITLES = ("title", "name", "caption", "description")
"""Metadata that tell what an item is."""
MIN_TEXTS, MIN_SHARE = 3, 0.25
"""A group is named by its texts if it has so many of them, and this share of its items has one."""
MIN_COVERAGE = 0.15
"""A name stands in this share of a group's texts."""
CLEAR = 0.6
"""A name that stands in this share needs no second one."""
LONGER = 0.55
"""A longer phrase is taken instead of a word if it stands in this share of the word's texts."""
TOGETHER = 0.3
"""Two words are one phrase if they follow each other in this share of the rarer one's texts."""
CLOSE = 0.92
"""A second word of the vocabulary is named if it is so near, compared with the first."""
NEAR, TIED, MIN_TIED, COMMON = 0.82, 6, 3, 0.66
"""Words that are so near, compared with the first, are as near, up to so many; if there are at least so many,
and this share of them has a broader name, that is taken."""
STEADY = 0.3
"""Spreads are added so much of their mean, as those of few items are uncertain."""
ALIKE = 0.45
"""Words whose embeddings are so near each other, as dogs and puppies, are not named together."""
NAMES, CANDIDATES = 4, 12
"""So many words are names of a group, and so many are considered."""
_PRIOR = 0.5
_PIECE = re.compile(r"[.,;:!?()\[\]\"“”/|\n\t]+|\s[-–—]\s")
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_NOT_NAMES = """
a an the this that these those some any each every all both few many several other another such no not
only own same so than too very one two three four five six seven eight nine ten first second last i you
he she it we they me him her us them my your his its our their who whom which what whose and or but nor
if then else when while where why how as because until although though of in on at by for with about
against between into through during before after above below to from up down out off over under again
further near next beside behind front around along across toward towards inside outside onto upon within
without top bottom side left right middle back is are was were be been being am do does did doing done
have has had having can could will would shall should may might must there here just also more most less
least much lot lots bunch couple group set pair piece kind sort different various really quite get gets
getting got make makes making made take takes taking taken go goes going gone come comes coming stand
stands standing sit sits sitting lie lies lying lay lays laying hold holds holding wear wears wearing
look looks looking show shows showing shown seen see sees use uses using used put puts placed filled
covered small large big little tall long short old new young nice good great beautiful photo photos
photograph picture pictures image images shot view closeup img dsc jpg jpeg png
"""
_STOP_WORDS = frozenset(_NOT_NAMES.split())
"""Words that no name begins or ends with."""


@dataclass
class PhraseCounts:
    """In how many texts each phrase occurs, by its key; and how it was written."""

    texts: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    written: dict[str, Counter[str]] = field(default_factory=dict)

    def add(self, text: str) -> None:
        """Count one more text."""
        self.texts += 1
        known = phrases(text)
        self.counts.update(known.keys())
        for key, written in known.items():
            self.written.setdefault(key, Counter())[written] += 1


def counted(texts: Iterable[str]) -> PhraseCounts:
    """The phrases of some texts."""
    counts = PhraseCounts()
    for text in texts:
        counts.add(text)
    return counts


def phrases(text: str) -> dict[str, str]:
    """The words and phrases of a text, by a key that singular and plural share.

    >>> phrases("Two red apples, and an apple")
    {'red': 'red', 'apple': 'apples', 'red apple': 'red apples'}
    """
    known: dict[str, str] = {}
    for piece in _PIECE.split(text):
        words = [word.lower() for word in _WORD.findall(piece)]
        useful = [len(word) > 1 and word not in _STOP_WORDS for word in words]
        for length in range(1, PHRASE + 1):
            for start in range(len(words) - length + 1):
                # Words in between, as in "glass of wine", may be any; at the ends they mean something.
                if useful[start] and useful[start + length - 1] and (length < 3 or not useful[start + 1]):
                    written = " ".join(words[start : start + length])
                    known.setdefault(" ".join(map(singular, words[start : start + length])), written)
    return known


def singular(word: str) -> str:
    """A key for a word and its plural; it need not be a word.

    >>> [singular(word) for word in ("berries", "boxes", "dogs", "glass", "bus")]
    ['berry', 'box', 'dog', 'glass', 'bus']
    """
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "sses", "xes")):
        return word[:-2]
    if word.endswith("s") and not word.endswith(("ss", "us", "is")) and len(word) > 3:
        return word[:-1]
    return word


def naming_text(item: Item) -> str | None:
    """What tells what an item is: its text, or a title among its metadata."""
    titles = (item.metadata.get(key) for key in TITLES)
    return item.text or next((title for title in titles if isinstance(title, str) and title), None)


def names_by_texts(texts: Sequence[str], size: int, background: PhraseCounts) -> list[str]:
    """Names for a group of `size` items of which these texts are known, the best first; none if they name
    nothing.

    `background` counts the phrases of all groups, this one among them.
    """
    if len(texts) < min(MIN_TEXTS, size) or len(texts) < MIN_SHARE * size:
        return []
    own = counted(texts)
    least = max(min(2, len(texts)), MIN_COVERAGE * len(texts))
    scores = {
        key: _log_odds(count, own.texts, background.counts[key], background.texts) * math.sqrt(count)
        for key, count in own.counts.items()
        if count >= least
    }
    ranked = sorted((key for key in scores if scores[key] > 0), key=lambda key: (-scores[key], key))
    chosen: list[str] = []
    for key in ranked:
        phrase = _longer(key, ranked, own)
        if not any(set(phrase.split()) & set(other.split()) for other in chosen):
            chosen.append(phrase)
    chosen = _phrase_of_two(chosen, own)
    written = [own.written[key].most_common(1)[0][0] for key in chosen[:NAMES]]
    clear = bool(chosen) and own.counts[chosen[0]] >= CLEAR * own.texts
    return _combined(written, clear=clear)


def _phrase_of_two(chosen: list[str], own: PhraseCounts) -> list[str]:
    """The chosen phrases; if the first two often follow each other, as brown and bear, they are one."""
    for key in chosen[1:3]:
        for phrase in (f"{chosen[0]} {key}", f"{key} {chosen[0]}"):
            if own.counts[phrase] >= TOGETHER * min(own.counts[chosen[0]], own.counts[key]):
                return [phrase, *(other for other in chosen[1:] if other != key)]
    return chosen


def _combined(words: Sequence[str], *, clear: bool) -> list[str]:
    """Names of one or two of the words, the best first: the first word alone if it is `clear`."""
    singles, pairs = [titled([word]) for word in words], [titled([words[0], word]) for word in words[1:]]
    return [*singles[:1], *pairs, *singles[1:]] if clear else [*pairs[:1], *singles, *pairs[1:]]


def distinct(names: Iterable[Sequence[str]], within: str = "") -> list[str]:
    """One of its names for each group, so that no two have the same; empty for a group without names.

    They are groups `within` one of this name: if that is a broad one, none of them has it again.
    """
    taken: set[str] = {within} if within.lower() in BROADER else set()
    chosen = []
    for options in names:
        name = next((option for option in options if option not in taken), "")
        if not name and options:
            number = next(
                number for number in range(2, len(taken) + 3) if f"{options[0]} {number}" not in taken
            )
            name = f"{options[0]} {number}"
        taken.add(name)
        chosen.append(name)
    return chosen


def _longer(key: str, ranked: Sequence[str], own: PhraseCounts) -> str:
    """A phrase that holds this one and stands in most of its texts, or this one."""
    parts = set(key.split())
    longer = [
        other
        for other in ranked
        if parts < set(other.split()) and own.counts[other] >= LONGER * own.counts[key]
    ]
    return max(longer, key=lambda other: (own.counts[other], other), default=key)


def _log_odds(count: int, texts: int, all_count: int, all_texts: int) -> float:
    """How much more often a phrase occurs in these texts than in the others, as a logarithm of odds."""
    others_with = max(0, all_count - count)
    others = max(others_with, all_texts - texts)
    ratio = math.log((count + _PRIOR) / (texts - count + _PRIOR))
    if not others:
        return ratio + 2  # there is nothing to compare with: what most texts say
    return ratio - math.log((others_with + _PRIOR) / (others - others_with + _PRIOR))


def titled(words: Iterable[str]) -> str:
    """Words as a title.

    >>> titled(["red apples", "pies"])
    'Red apples and pies'
    """
    text = " and ".join(words)
    return text[:1].upper() + text[1:]


def names_by_words(
    groups: np.ndarray,
    everything: np.ndarray,
    spreads: np.ndarray,
    words: np.ndarray,
    vocabulary: Sequence[str],
) -> list[list[str]]:
    """Names for each group, the best first: words that it is nearer to than the whole collection is.

    Where several words are as near, what they have in common is the name, if there is a word for it.

    Args:
        groups: the mean embedding of each group [groups, width].
        everything: the mean embedding of the collection [width]; a group that is all of it is compared with
            the words' own mean.
        spreads: by how much items differ in what they score for each word (`word_spreads`) [words].
        words: the embeddings of the words [words, width].
        vocabulary: the words.
    """
    centred = words - words.mean(0)
    centred /= np.maximum(np.linalg.norm(centred, axis=1, keepdims=True), 1e-12)
    all_scores = (groups - everything) @ words.T / spreads
    whole = np.linalg.norm(groups - everything, axis=1) < 1e-6 * np.linalg.norm(everything)
    all_scores[whole] = groups[whole] @ (words - words.mean(0)).T
    named = []
    for scores in all_scores:
        order = np.argsort(-scores, kind="stable").tolist()
        chosen: list[int] = []
        for place in order[:CANDIDATES]:
            says_more = not chosen or vocabulary[place] not in GENERIC
            if says_more and all(centred[place] @ centred[other] < ALIKE for other in chosen):
                chosen.append(place)
        clear = len(chosen) < 2 or bool(scores[chosen[1]] < CLOSE * scores[chosen[0]])
        by_themselves = _combined([vocabulary[place] for place in chosen[:NAMES]], clear=clear)
        tied = [vocabulary[place] for place in order[:TIED] if scores[place] >= NEAR * scores[order[0]]]
        stands_out = len(order) < 2 or bool(scores[order[1]] < CLOSE * scores[order[0]])
        named.append([*([] if stands_out and tied[0] not in ONE_PERSON else _broader(tied)), *by_themselves])
    return named


def word_spreads(items: np.ndarray, words: np.ndarray) -> np.ndarray:
    """By how much items [n, width] differ in what they score for each word: so that a word for which all of
    them score much alike counts for as much as others. Float [words]."""
    spreads = ((items - items.mean(0)) @ words.T).std(0)
    return np.asarray(spreads + max(STEADY * float(spreads.mean()), 1e-12))


def _broader(tied: Sequence[str]) -> list[str]:
    """What words that are as near as each other have in common, by the narrowest name for it, and then the
    first two of them; nothing if there is no name."""
    fitting = [
        name
        for name, words in BROADER.items()
        if tied[0] in words and sum(word in words for word in tied) >= COMMON * len(tied)
    ]
    if not fitting or (len(tied) < MIN_TIED and tied[0] not in ONE_PERSON):
        return []
    name = min(fitting, key=lambda name: len(BROADER[name]))
    further = [FURTHER[name]] if name in FURTHER else []
    two = [tied[0], *(word for word in tied[1:] if word not in GENERIC)][:2]
    return [titled([name]), *map(titled, ([word] for word in further)), titled(two)]
