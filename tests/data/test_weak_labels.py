"""What a collection says of itself: what counts, and what says nothing."""

from __future__ import annotations

import pytest

from genius.data.records import ImageFile, Item
from genius.data.weak_labels import name_words, weak_pairs


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("red-shoe_02.jpg", "red shoe"),
        ("RedShoe.png", "red shoe"),
        ("holiday/beach at night.webp", "beach night"),
        ("IMG_1234.JPG", ""),
        ("PXL_20240511_101112.jpg", ""),
        ("WhatsApp Image 2024-05-11 at 10.11.12.jpeg", ""),
        ("3f2a9c01d4e5.png", ""),
        ("Grüße aus Köln.jpg", "grüße aus köln"),
    ],
)
def test_words_of_names(name: str, words: str) -> None:
    assert name_words(name) == words


def queries(item: Item) -> list[str | None]:
    return [pair.query.text for pair in weak_pairs([item])]


def test_a_caption_and_metadata_lead_to_the_image_alone() -> None:
    image = ImageFile("photos", "rome/IMG_1.jpg")
    item = Item("1", "The forum at dusk.", image, {"title": "Rome", "price": 3, "alt": " "})
    pairs = list(weak_pairs([item]))
    assert [pair.query.text for pair in pairs] == ["The forum at dusk.", "Rome"]
    assert all(pair.item == Item("1", image=image) for pair in pairs)


def test_names_are_used_where_nothing_else_is_said() -> None:
    assert queries(Item("1", image=ImageFile("photos", "rome/long-bridge.jpg"))) == ["long bridge"]
    assert queries(Item("1", image=ImageFile("photos", "rome/IMG_1.jpg"))) == ["rome"]
    assert queries(Item("1", image=ImageFile("photos", "DCIM/IMG_1.jpg"))) == []


def test_a_text_is_what_its_title_leads_to() -> None:
    (pair,) = weak_pairs([Item("1", "A long text.", metadata={"title": "Short"})])
    assert (pair.query.text, pair.item) == ("Short", Item("1", "A long text."))
    assert queries(Item("1", "A text without a title.")) == []
