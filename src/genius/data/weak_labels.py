"""Pairs that a collection holds by itself: captions, titles, alt texts, names of files and folders.

They are weak labels: a file's name says something of its image, if it is no number that a camera gave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

from genius.data.pairs import Pair
from genius.data.records import Item, Query

DESCRIBING = ("caption", "alt", "alt_text", "title", "headline", "name", "description", "summary")
"""Keys of metadata whose values say what an item shows."""
MEANINGLESS = frozenset(
    """
    img image dsc dscn dscf pxl mvimg vid pano photo photos pic pics picture pictures scan screenshot shot
    whats app signal snapchat received download downloads dcim camera untitled unnamed copy edited final small
    large thumb thumbnail jpg jpeg png webp gif tif tiff the and new old misc other others data raw upload
    uploads media files file folder album albums
    """.split()  # noqa: SIM905 - a list of so many words would be a page long
)
"""Words of names that say nothing of what is shown."""
_WORD = re.compile(r"[^\W\d_]{3,}")
_HASH = re.compile(r"[0-9a-f]{8,}")


def weak_pairs(items: Iterable[Item]) -> Iterator[Pair]:
    """What a collection says of its own items, as queries: each leads to the item's image, or to its text.

    The caption, and each describing entry of the metadata; where an image has neither, the words of its
    file's name, or else of its folder.
    """
    for item in items:
        said = list(dict.fromkeys(_descriptions(item)))
        if item.image is not None:
            answer = Item(item.id, image=item.image)
            texts = [*([item.text] if item.text else []), *said] or _words_of_path(item)
        else:
            answer = Item(item.id, item.text)
            texts = [text for text in said if text != item.text]
        for text in texts:
            yield Pair(Query(text=text), answer)


def name_words(name: str) -> str:
    """The words of a name that say something; empty without any.

    >>> name_words("red-shoe_02.jpg"), name_words("IMG_20240511.jpg"), name_words("a3f09bc41e77.png")
    ('red shoe', '', '')
    """
    stem = PurePosixPath(name).stem
    if _HASH.fullmatch(stem.lower()):
        return ""
    apart = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", stem)
    words = [word for word in _WORD.findall(apart.replace("_", " ")) if word.lower() not in MEANINGLESS]
    return " ".join(words).lower()


def _descriptions(item: Item) -> Iterator[str]:
    for key in DESCRIBING:
        value = item.metadata.get(key)
        if isinstance(value, str) and value.strip():
            yield value.strip()


def _words_of_path(item: Item) -> list[str]:
    path = PurePosixPath(item.image.name if item.image is not None else item.id)
    words = name_words(path.name) or name_words(path.parent.name)
    return [words] if words else []
