"""Entries as emojibase has them, made up."""

from __future__ import annotations

from typing import Any

TONE_CODES = ("1F3FB", "1F3FC", "1F3FD", "1F3FE", "1F3FF")
TONE_NAMES = ("light", "medium-light", "medium", "medium-dark", "dark")


class Everything:
    """Vendors draw all emoji."""

    def __contains__(self, key: object) -> bool:
        return True


def entry(
    hexcode: str, label: str, *tags: str, subgroup: int = 27, group: int = 1, tones: bool = False
) -> dict[str, Any]:
    first, _, rest = hexcode.partition("-200D-")
    skins = [
        {
            "hexcode": f"{first}-{code}" + (f"-200D-{rest}" if rest else ""),
            "label": f"{label}: {name} skin tone",
            "emoji": "x",
            "tone": number,
        }
        for number, (code, name) in enumerate(zip(TONE_CODES, TONE_NAMES, strict=True), start=1)
    ]
    common = {"hexcode": hexcode, "label": label, "emoji": "x", "tags": list(tags)}
    return {**common, "group": group, "subgroup": subgroup, "skins": skins if tones else []}


RUNNERS = [
    entry("1F3C3", "person running", "race", "run", tones=True),
    entry("1F3C3-200D-2642-FE0F", "man running", "man", "race", "run", tones=True),
    entry("1F3C3-200D-2640-FE0F", "woman running", "race", "run", "woman", tones=True),
    entry("1F3C3-200D-27A1-FE0F", "person running: facing right", "race", "run", tones=True),
    entry("1F3C3-200D-2640-FE0F-200D-27A1-FE0F", "woman running: facing right", "race", "run", tones=True),
]
