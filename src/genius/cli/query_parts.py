"""Parts of a query on the command line: what is added, what is taken away, and how much each counts.

`--weight` belongs to the part before it, or to the query's own text and image if no part is before it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from genius.errors import InputError

if TYPE_CHECKING:
    from genius.data.records import QueryPart

PARTS = ("--plus", "--plus-image", "--minus", "--minus-image")
WHOLE = ("", 0)
"""Stands for the query's own text and image."""
PartName = tuple[str, int]
"""An option, and how many of the same name come before it."""


def read_parts(
    weighted: Sequence[PartName],
    contents: Mapping[str, Sequence[Any] | None],
    weights: Sequence[float] | None,
) -> tuple[float, list[QueryPart]]:
    """The weight of the query's own text and image, and its parts, by option; `weighted` are the parts that
    weights belong to. Raises InputError."""
    from genius.data.images import image_source
    from genius.data.records import QueryPart, check_weight

    weight_of: dict[PartName, float] = {}
    for part, weight in zip(weighted, weights or (), strict=True):
        if part in weight_of:
            raise InputError("there are two weights behind one part of the query: keep one of them")
        weight_of[part] = check_weight(weight)
    parts = []
    for option in PARTS:
        for number, content in enumerate(contents.get(option) or ()):
            weight = weight_of.get((option, number), 1.0)
            signed = -weight if option.startswith("--minus") else weight
            is_image = isinstance(content, Path)
            text, image = (None, image_source(content)) if is_image else (content, None)
            parts.append(QueryPart(text, image, signed))
    if WHOLE in weight_of and not parts:
        raise InputError("a weight counts beside other parts of the query: add --plus or --minus")
    return weight_of.get(WHOLE, 1.0), parts
