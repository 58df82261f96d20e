"""Emoji as a set of things that differ by a few attributes: what a family is, and what can change within it.

Every emoji belongs to a *concept* (a runner, whatever the skin tone, gender and direction), within which
one emoji is another with some attributes changed, and to a *family* (all clock faces, all runners), the unit
that the corpus is split by.
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
"""What an emoji without the attribute is, where that can be said."""

_ADULTS = {"1f468": "man", "1f469": "woman", "1f9d1": "person"}
_SIGNS = {"2640": "woman", "2642": "man"}
_ARROW = "27a1"
_HAIRS = {"1f9b0", "1f9b1", "1f9b2", "1f9b3"}
_COMPONENTS = (32, 33)  # emojibase's numbers of the subgroups skin-tone and hair-style: parts, not emoji
_COUPLES = 30
_ANIMALS = 3  # emojibase's number of a group

# The neutral or first form, and those that have code points of their own for historical reasons.
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

# Sets whose members are drawn or called so alike that seeing one in training would tell about another.
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

# The first of "split 0", "split 1", ... that puts every kind of change into all splits (hair, which only one
# family has, into training) and the large groups of flags and lettered buttons into training.
_SPLIT_SALT = "split 98"

# Pictures that some vendor draws exactly as another emoji's: nobody could tell them apart.
_LOOK_ALIKES = re.compile(
    r"^family$|^family: .*\b(man|woman)\b|^snowboarder: |^woman: medium-light skin tone, blond hair$"
    r"|^flag: (Heard & McDonald Islands|Bouvet Island|Svalbard & Jan Mayen|Clipperton Island|St\. Martin|Sark"
    r"|Diego Garcia|Ceuta & Melilla|U\.S\. Outlying Islands)$"
)


@dataclass(frozen=True, slots=True)
class Emoji:
    """One emoji: its picture's key, its name, what it is tagged with, and where it stands among its like."""

    key: str
    character: str
    name: str
    row: str
    words: frozenset[str]
    concept: str
    family: str
    attributes: Mapping[str, str]

    def value(self, kind: str) -> str | None:
        """The attribute of that kind, given or understood."""
        return self.attributes.get(kind, DEFAULTS.get(kind))


def picture_key(name: str) -> str:
    """The name that vendors' files and emojibase's codes share: lower case, without variation selectors.

    >>> picture_key("1F3C3-200D-27A1-FE0F")
    '1f3c3-200d-27a1'
    """
    return name.lower().replace("-fe0f", "")


def read_emoji(rows: Iterable[Mapping[str, Any]], drawn: Container[str]) -> list[Emoji]:
    """The emoji of emojibase's `data.json` whose keys are among `drawn`, in its order.

    Left out: parts of emoji, couples of two different skin tones, and what a vendor draws like another.
    """
    rows = [row for row in rows if row.get("subgroup") not in (None, *_COMPONENTS)]
    names = {row["label"] for row in rows}
    found = []
    for row in rows:
        concept, attributes = _concept(row, names)
        family = _family(row, concept)
        words = frozenset(word.lower() for word in (*row.get("tags", ()), *name_words(row["label"])))
        for form in (row, *row.get("skins", ())):
            tone = form.get("tone")
            key = picture_key(form["hexcode"])
            if isinstance(tone, list) or key not in drawn or _LOOK_ALIKES.search(form["label"]):
                continue
            own = attributes if tone is None else {**attributes, "tone": TONES[tone - 1]}
            found.append(
                Emoji(key, form["emoji"], form["label"], row["hexcode"], words, concept, family, own)
            )
    return found


def split_of(family: str) -> Split:
    """The split that a family belongs to: 70 % train, 10 % val, 20 % test, by a hash of its name."""
    place = stable_number(_SPLIT_SALT, family) % 100
    return "train" if place < 70 else "val" if place < 80 else "test"


def stable_number(*parts: str) -> int:
    """A number that depends on the parts only, the same everywhere: for choices that can be repeated."""
    digest = hashlib.blake2b("\0".join(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big")


def changes(emoji: Sequence[Emoji]) -> list[tuple[Emoji, Emoji, dict[str, str]]]:
    """Every (from, to, what to ask for) within a concept: one attribute changed, or two."""
    concepts: dict[str, list[Emoji]] = {}
    for one in emoji:
        concepts.setdefault(one.concept, []).append(one)
    found = []
    for members in concepts.values():
        for source in members:
            for target in members:
                asked = difference(source, target)
                if asked is not None and 1 <= len(asked) <= 2:
                    found.append((source, target, asked))
    return found


def difference(source: Emoji, target: Emoji) -> dict[str, str] | None:
    """The attributes of `target` that `source` has otherwise; None if one of them can't be put in words."""
    asked = {}
    for kind in sorted(source.attributes.keys() | target.attributes.keys()):
        value = target.value(kind)
        if source.value(kind) != value:
            if value is None:
                return None
            asked[kind] = value
    return asked


def _concept(row: Mapping[str, Any], names: Container[str]) -> tuple[str, dict[str, str]]:
    """What a row is apart from its attributes, and these; the skin tone is its forms' own matter."""
    name: str = row["label"]
    if row["subgroup"] == _COUPLES:
        return picture_key(row["hexcode"]), {}  # two people have no single gender to change
    if coloured := _COLOURED.match(name):
        size, colour, large, thing = coloured.groups()
        return f"{size}coloured {large}{thing}", {"colour": colour}
    if view := _view(row, names):
        return view
    if len(_TURNED.findall(name)) == 1 and ":" not in name:
        return _TURNED.sub("*", name), {"turn": str(_TURNED.findall(name)[0][0])}
    return _person_concept(row)


def _view(row: Mapping[str, Any], names: Container[str]) -> tuple[str, dict[str, str]] | None:
    """An animal or only its face, a vehicle from the side or from the front."""
    name: str = row["label"]
    animal, vehicle = name.removesuffix(" face"), name.removeprefix("oncoming ")
    if row.get("group") == _ANIMALS and animal in names:
        return animal, {"view": "face"} if animal != name else {}
    if vehicle != name and vehicle in names:
        return vehicle, {"view": "front"}
    return (name, {"view": "side"}) if f"oncoming {name}" in names else None


def _person_concept(row: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    attributes: dict[str, str] = {}
    parts: list[str] = []
    for part in picture_key(row["hexcode"]).split("-200d-"):
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
        attributes["gender"] = row["label"].partition(" ")[0]
    if hair := _HAIR.match(row["label"]):
        attributes["hair"] = hair[1]
    return concept, attributes


def _family(row: Mapping[str, Any], concept: str) -> str:
    if row["subgroup"] in _FLAG_SUBGROUPS:
        return "flags"
    for pattern, family in _GROUPED_NAMES:
        if pattern.search(row["label"]):
            return family
    if row["subgroup"] in _GROUPED_SUBGROUPS:
        return _GROUPED_SUBGROUPS[row["subgroup"]]
    if row["subgroup"] == _COUPLES:
        concept = "-".join("1f9d1" if part in _ADULTS else part for part in concept.split("-200d-"))
    return _COUPLE_FAMILIES.get(concept, concept)


def name_words(name: str) -> list[str]:
    """The words of a name.

    >>> name_words("person running: facing right")
    ['person', 'running', 'facing', 'right']
    """
    return re.findall(r"[\w’'-]+", name)
