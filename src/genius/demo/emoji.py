"""Emoji with their attributes, concepts and families, from the entries of emojibase.

Emoji of one *concept* (runners of any skin tone, gender and direction) differ in a few attributes only, so
one becomes another by changing some of them. A *family* (all clock faces, all runners) is the unit by which
the corpus is split.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from genius.data.mbeir import Split

TONES = ("light", "medium-light", "medium", "medium-dark", "dark")
DEFAULTS = {"tone": "default", "gender": "person", "direction": "left", "view": "whole"}
"""The value of an attribute that an emoji does not have, where there is a word for it."""

_ADULTS = {"1f468": "man", "1f469": "woman", "1f9d1": "person"}
_SIGNS = {"2640": "woman", "2642": "man"}
_ARROW = "27a1"
_HAIRS = {"1f9b0", "1f9b1", "1f9b2", "1f9b3"}
_COMPONENTS = (32, 33)  # emojibase's subgroups skin-tone and hair-style: parts, not emoji
_COUPLES = 30
_ANIMALS = 3  # a group of emojibase

# Genders that have code points of their own for historical reasons, by their neutral or first form.
_IRREGULAR = {
    "1f9d2": {"1f9d2": "child", "1f466": "boy", "1f467": "girl"},
    "1f9d3": {"1f9d3": "person", "1f474": "man", "1f475": "woman"},
    "1f483": {"1f57a": "man", "1f483": "woman"},
    "1fac5": {"1fac5": "person", "1f934": "man", "1f478": "woman"},
    "1f9d1-1f384": {"1f385": "man", "1f936": "woman"},
    "1fac4": {"1fac4": "person", "1fac3": "man", "1f930": "woman"},
}
_IRREGULAR_FORMS = {
    form: (key, gender) for key, forms in _IRREGULAR.items() for form, gender in forms.items()
}
_PAIRS = ("1f46f", "1f93c")  # bunny ears and wrestlers: people, men, women
_HAIR_FORMS = {"1f471": "1f9d1", "1f9d4": "1f9d1"}  # blond hair and beard, drawn on a person
_COUPLE_FAMILIES = {
    "1f46b": "1f9d1-1f91d-1f9d1",
    "1f46c": "1f9d1-1f91d-1f9d1",
    "1f46d": "1f9d1-1f91d-1f9d1",
    "1f48f": "1f9d1-2764-1f48b-1f9d1",
    "1f491": "1f9d1-2764-1f9d1",
    "1f931": "1f9d1-1f37c",
}

# Sets whose members look or sound so alike that seeing one in training gives away another: one family each.
_GROUPED_SUBGROUPS = {
    85: "arrows",
    87: "zodiac",
    88: "player buttons",
    94: "keycaps",
    95: "buttons with letters",
    96: "shapes",
}
_FLAG_SUBGROUPS = (98, 99)
_COLOURS = "red|pink|orange|yellow|green|light blue|blue|purple|brown|black|grey|white"
_GROUPED_NAMES = (
    (re.compile(r"(o’clock|-thirty)$"), "clock faces"),
    (re.compile(r"\bmoon( face)?$"), "moons"),
    (re.compile(rf"^({_COLOURS}) heart$"), "coloured hearts"),
    (re.compile(r"^family"), "families"),
    (re.compile(r"^globe showing"), "globes"),
    (re.compile(r"\bmailbox\b"), "mailboxes"),
    (re.compile(r" place medal$"), "medals"),
    (re.compile(r" banknote$"), "banknotes"),
    (re.compile(r"^(muted speaker|speaker .* volume)$"), "speakers"),
    (re.compile(r"-no-evil monkey$"), "monkeys"),
    (re.compile(r"^(green|blue|orange|closed) book$"), "books"),
    (re.compile(r"^sun behind"), "suns behind clouds"),
    (re.compile(r" suit$"), "card suits"),
    (re.compile(r"\bumbrella\b"), "umbrellas"),
    (re.compile(r"^hourglass"), "hourglasses"),
    (re.compile(r"^(un)?locked"), "locks"),
    (re.compile(r"(question|exclamation) mark$"), "punctuation marks"),
    (re.compile(r"^(check|cross) (mark|box)"), "check marks"),
    (re.compile(r"\bpushpin$"), "pushpins"),
    (re.compile(r"^chart "), "charts"),
)
_COLOURED = re.compile(
    rf"^((?:large |small )?)({_COLOURS}) ((?:large )?)(heart|circle|square|book|apple|diamond)$"
)
_TURNED = re.compile(r"(?<![\w-])(left|right|up|down)(wards|-facing)?(?![\w-])")
_HAIR = re.compile(r"^(?:person|man|woman): (.* hair|bald|beard)$")

# The first of "split 0", "split 1", … with which every kind of change occurs in all splits (but hair, which
# only one family has, in training), and the large families of flags and lettered buttons are in training.
_SPLIT_SALT = "split 98"

# Names of emoji that some vendor draws exactly like another emoji: nobody could tell them apart.
_LOOK_ALIKES = re.compile(
    r"^family$|^family: .*\b(man|woman)\b|^snowboarder: |^woman: medium-light skin tone, blond hair$"
    r"|^flag: (Heard & McDonald Islands|Bouvet Island|Svalbard & Jan Mayen|Clipperton Island|St\. Martin|Sark"
    r"|Diego Garcia|Ceuta & Melilla|U\.S\. Outlying Islands)$"
)


Change = dict[str, str]
"""The new values of some attributes, by their kinds."""


@dataclass(frozen=True, slots=True)
class Emoji:
    """An emoji.

    `key` is the key of its images, `entry` the code of its entry in emojibase (shared by all skin tones), and
    `words` are the words of that entry's name and tags.
    """

    key: str
    character: str
    name: str
    entry: str
    words: frozenset[str]
    concept: str
    family: str
    attributes: Mapping[str, str]

    def value(self, kind: str) -> str | None:
        """The attribute of that kind, or its default; None without either."""
        return self.attributes.get(kind, DEFAULTS.get(kind))


def image_key(name: str) -> str:
    """The key of an image, by the name of a vendor's file or by emojibase's code.

    It is in lower case and has no variation selectors, on which vendors differ.

    >>> image_key("1F3C3-200D-27A1-FE0F")
    '1f3c3-200d-27a1'
    """
    return name.lower().replace("-fe0f", "")


def read_emoji(entries: Iterable[Mapping[str, Any]], drawn: Container[str]) -> list[Emoji]:
    """The emoji of emojibase's `data.json` whose keys are in `drawn`, in its order.

    Parts of emoji, couples of two different skin tones, and emoji that a vendor draws exactly like another
    are left out.
    """
    entries = [entry for entry in entries if entry.get("subgroup") not in (None, *_COMPONENTS)]
    names = {entry["label"] for entry in entries}
    emojis = []
    for entry in entries:
        concept, attributes = _concept(entry, names)
        family = _family(entry, concept)
        words = frozenset(word.lower() for word in (*entry.get("tags", ()), *name_words(entry["label"])))
        for form in (entry, *entry.get("skins", ())):
            tone = form.get("tone")
            key = image_key(form["hexcode"])
            if isinstance(tone, list) or key not in drawn or _LOOK_ALIKES.search(form["label"]):
                continue
            own = attributes if tone is None else {**attributes, "tone": TONES[tone - 1]}
            emojis.append(
                Emoji(key, form["emoji"], form["label"], entry["hexcode"], words, concept, family, own)
            )
    return emojis


def split_of(family: str) -> Split:
    """The split of a family, by a hash of its name: 70 % train, 10 % val, 20 % test."""
    place = stable_number(_SPLIT_SALT, family) % 100
    return "train" if place < 70 else "val" if place < 80 else "test"


def stable_number(*parts: str) -> int:
    """A hash of the parts that is the same on every machine, for reproducible choices."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def changes(emojis: Sequence[Emoji]) -> list[tuple[Emoji, Emoji, Change]]:
    """All pairs of emoji of one concept that differ in one attribute or two: (source, target, change)."""
    concepts: dict[str, list[Emoji]] = {}
    for emoji in emojis:
        concepts.setdefault(emoji.concept, []).append(emoji)
    pairs = []
    for members in concepts.values():
        for source in members:
            for target in members:
                change = difference(source, target)
                if change is not None and 1 <= len(change) <= 2:
                    pairs.append((source, target, change))
    return pairs


def difference(source: Emoji, target: Emoji) -> Change | None:
    """The change from `source` to `target`; None if there is no word for one of the new values."""
    change = {}
    for kind in sorted(source.attributes.keys() | target.attributes.keys()):
        value = target.value(kind)
        if source.value(kind) != value:
            if value is None:
                return None
            change[kind] = value
    return change


def name_words(name: str) -> list[str]:
    """The words of a name.

    >>> name_words("person running: facing right")
    ['person', 'running', 'facing', 'right']
    """
    return re.findall(r"[\w’'-]+", name)


def _concept(entry: Mapping[str, Any], names: Container[str]) -> tuple[str, dict[str, str]]:
    """The concept and the attributes of an entry, without the skin tone, in which its forms differ."""
    name: str = entry["label"]
    if entry["subgroup"] == _COUPLES:
        return image_key(entry["hexcode"]), {}  # two people have no single gender to change
    if coloured := _COLOURED.match(name):
        size, colour, large, thing = coloured.groups()
        return f"{size}coloured {large}{thing}", {"colour": colour}
    if view := _view(entry, names):
        return view
    if len(_TURNED.findall(name)) == 1 and ":" not in name:
        return _TURNED.sub("*", name), {"turn": str(_TURNED.findall(name)[0][0])}
    return _person_concept(entry)


def _view(entry: Mapping[str, Any], names: Container[str]) -> tuple[str, dict[str, str]] | None:
    """The concept and view of an animal (whole or face) or of a vehicle (side or front); None of others."""
    name: str = entry["label"]
    animal, vehicle = name.removesuffix(" face"), name.removeprefix("oncoming ")
    if entry.get("group") == _ANIMALS and animal in names:
        return animal, {"view": "face"} if animal != name else {}
    if vehicle != name and vehicle in names:
        return vehicle, {"view": "front"}
    return (name, {"view": "side"}) if f"oncoming {name}" in names else None


def _person_concept(entry: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    attributes: dict[str, str] = {}
    parts: list[str] = []
    for part in image_key(entry["hexcode"]).split("-200d-"):
        if parts and part == _ARROW:
            attributes["direction"] = "right"
        elif parts and part in _SIGNS:
            attributes["gender"] = _SIGNS[part]
        elif not (parts and part in _HAIRS):
            if part in _ADULTS:
                attributes["gender"] = _ADULTS[part]
            parts.append("1f9d1" if part in _ADULTS else _HAIR_FORMS.get(part, part))
    concept = "-".join(parts)
    if concept in _IRREGULAR_FORMS:
        concept, attributes["gender"] = _IRREGULAR_FORMS[concept]
    if concept in _PAIRS:
        attributes["gender"] = entry["label"].partition(" ")[0]
    if hair := _HAIR.match(entry["label"]):
        attributes["hair"] = hair[1]
    return concept, attributes


def _family(entry: Mapping[str, Any], concept: str) -> str:
    if entry["subgroup"] in _FLAG_SUBGROUPS:
        return "flags"
    for pattern, family in _GROUPED_NAMES:
        if pattern.search(entry["label"]):
            return family
    if entry["subgroup"] in _GROUPED_SUBGROUPS:
        return _GROUPED_SUBGROUPS[entry["subgroup"]]
    if entry["subgroup"] == _COUPLES:
        concept = "-".join("1f9d1" if part in _ADULTS else part for part in concept.split("-200d-"))
    return _COUPLE_FAMILIES.get(concept, concept)
