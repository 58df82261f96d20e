"""The texts of the demo corpus: prompts of its tasks, and requests to change an emoji."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from genius.demo.emoji import TONES, stable_number

VENDORS = {"noto": "Noto", "twemoji": "Twemoji", "fluent": "Fluent"}
"""The names of the vendors in requests and records."""

_LEADS = ("the same, {}", "this one, but {}", "now {}", "{} please", "I want it {}", "change it: {}")
_PHRASES: dict[str, tuple[str, ...]] = {
    "tone": ("with {}",),
    "gender": ("as {}",),
    "direction": ("facing {}", "looking to the {}"),
    "turn": ("turned {}", "pointing {}"),
    "hair": ("with {}",),
    "colour": ("in {}", "coloured {}"),
    "view": ("{}",),
    "style": ("in the style of {}", "as {} draws it", "in a drawing by {}"),
}
_WORDS: dict[tuple[str, str], str] = {
    ("tone", "default"): "the default yellow skin",
    **{("tone", tone): f"{tone} skin tone" for tone in TONES},
    **{("gender", gender): f"a {gender}" for gender in ("man", "woman", "person", "boy", "girl", "child")},
    ("hair", "bald"): "a bald head",
    ("hair", "beard"): "a beard",
    ("view", "face"): "with only the face",
    ("view", "whole"): "with the whole animal",
    ("view", "front"): "seen from the front",
    ("view", "side"): "seen from the side",
}
_ORDER = ("gender", "tone", "hair", "direction", "turn", "colour", "view", "style")


def request(change: Mapping[str, str], salt: str) -> str:
    """A change of attributes in words, in one of several wordings, chosen by `salt`.

    >>> request({"tone": "dark", "gender": "woman"}, "1")
    'as a woman with dark skin tone please'
    """
    phrases = []
    for kind in sorted(change, key=_ORDER.index):
        phrase = choose(_PHRASES[kind], salt, kind)
        phrases.append(phrase.format(_WORDS.get((kind, change[kind]), change[kind])))
    return choose(_LEADS, salt, "lead").format(_join(phrases))


def _join(phrases: Sequence[str]) -> str:
    """Join phrases to one; `with a beard` after another `with` becomes `and a beard`."""
    text = phrases[0]
    for phrase in phrases[1:]:
        if phrase.startswith("with ") and text.startswith("with "):
            text += f" and {phrase.removeprefix('with ')}"
        else:
            text += f" {phrase}" if phrase.startswith("with ") else f", {phrase}"
    return text


def choose(options: Sequence[str], *salt: str) -> str:
    """One of the options, chosen by the salt."""
    return options[stable_number(*salt) % len(options)]


PROMPTS: dict[int, tuple[str, str, str, str]] = {
    0: (
        "Find an emoji picture that fits these words.",
        "Show me the emoji that people tag like this.",
        "Which emoji drawing do these keywords describe?",
        "I am looking for a picture of the emoji with these tags.",
    ),
    1: (
        "Find the name of the emoji that fits these words.",
        "What is the emoji called that people tag like this?",
        "Give the emoji's name that these keywords describe.",
        "Which emoji name belongs to these tags?",
    ),
    2: (
        "Find an emoji picture together with its name that fits these words.",
        "Show me the emoji and what it is called, given its tags.",
        "Which entry of the emoji list, picture and name, do these keywords describe?",
        "I am looking for an emoji and its name by these tags.",
    ),
    3: (
        "What is this emoji called?",
        "Find the name of the emoji in the picture.",
        "Name this emoji, with its skin tone if it has one.",
        "Which name belongs to this emoji picture?",
    ),
    4: (
        "Find the same emoji as another vendor draws it.",
        "Show me this very emoji in another style.",
        "Which picture is another drawing of this emoji?",
        "Find the counterpart of this emoji in another set.",
    ),
    6: (
        "What is the emoji called that this one becomes with the change?",
        "Find the name of the emoji in the picture after this change.",
        "Name the emoji that differs from this one as asked.",
        "Which name belongs to this emoji, changed like this?",
    ),
    7: (
        "Find the emoji picture that differs from this one as asked.",
        "Show me this emoji with the change.",
        "Which picture is this emoji, changed like this?",
        "Find what this emoji becomes after the change, in a picture.",
    ),
    8: (
        "Find the emoji picture and its name after this change.",
        "Show me this emoji with the change, and what it is then called.",
        "Which entry of the emoji list, picture and name, is this one changed as asked?",
        "Find the picture with its name that differs from this emoji as asked.",
    ),
}
"""Four prompts for each of M-BEIR's task numbers."""

_DRAWN_BY = {"emoji": "Drawn by Noto or Twemoji.", "fluent": "Drawn by Fluent."}


def prompts(dataset: str, task: int) -> tuple[str, ...]:
    """A task's prompts. Where any style would do they name the vendors, as the union pool holds all three."""
    if task in (0, 2):
        return tuple(f"{prompt} {_DRAWN_BY[dataset]}" for prompt in PROMPTS[task])
    if task == 4:
        return tuple(f"{prompt} {_DRAWN_BY['emoji']}" for prompt in PROMPTS[task])
    return PROMPTS[task]
