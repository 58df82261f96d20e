"""The page in a real browser: the line between matches and what is merely nearest, and the slider between a
picture and words."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright import sync_api

from genius import Index, Query
from genius.data.records import ImageBytes
from tests.pictures import square
from tests.serve.browsing import PAGE, card_ids

expect = sync_api.expect

LIKELY = 0.8
ORDER = """(grid) => [...grid.children].map((child) => child.dataset.id ?? child.className)"""


def search_for(page: Any, words: str) -> None:
    page.get_by_label("What are you looking for?").fill(words)
    page.keyboard.press("Enter")
    expect(page.locator("#results .score").first).to_be_visible()
    card_ids(page)


def divided(index: Index, words: str) -> list[str]:
    """What the list of pictures should show: ids, and the line before the first that does not match."""
    hits = index.search(words, want="image", k=PAGE)
    shown = [hit.item.id for hit in hits]
    first = next((place for place, hit in enumerate(hits) if hit.confidence < LIKELY), None)
    if first is not None:
        shown.insert(first, "divider none" if first == 0 else "divider")
    return shown


@pytest.mark.parametrize("words", ["A red square.", "zebra", "notwithstanding responsibilities"])
def test_a_line_divides_matches_from_what_is_nearest(shop_page: Any, shop: Path, words: str) -> None:
    search_for(shop_page, words)
    with Index.open(shop) as index:
        assert shop_page.locator("#results .grid").first.evaluate(ORDER) == divided(index, words)


def test_the_line_comes_once_however_far_one_goes(shop_page: Any, shop: Path) -> None:
    search_for(shop_page, "zebra")
    with Index.open(shop) as index:
        hits = index.search("zebra", want="image", k=2 * PAGE)
    shop_page.locator("#results .hits").first.get_by_role("button", name="Show more").click()
    expect(shop_page.locator("#results .hits").first.locator(".card")).to_have_count(2 * PAGE)
    lines = sum(hit.confidence < LIKELY for hit in hits) > 0
    expect(shop_page.locator("#results .hits").first.locator(".divider")).to_have_count(int(lines))


def test_what_is_sorted_or_browsed_has_no_line(shop_page: Any) -> None:
    shop_page.goto("/#/search?all=1")
    card_ids(shop_page)
    expect(shop_page.locator(".divider")).to_have_count(0)


def test_a_slider_between_image_and_words(shop_page: Any, shop: Path) -> None:
    slider = shop_page.get_by_label("How much the words count beside the picture")
    expect(slider).to_be_hidden()
    red = square("red")
    shop_page.locator("#file").set_input_files({"name": "red.jpg", "mimeType": "image/jpeg", "buffer": red})
    expect(shop_page.locator("#results .score").first).to_be_visible()
    expect(slider).to_be_hidden()  # there are no words yet
    search_for(shop_page, "A blue square.")
    expect(slider).to_be_visible()
    image = ImageBytes(red, "red.jpg")
    joint = Query("A blue square.", image)
    queries = {
        "0": Query(image=image),
        "20": Query("A blue square.", image, weight=0.4).plus(image=red, weight=0.6),
        "50": joint,
        "80": Query("A blue square.", image, weight=0.4).plus("A blue square.", 0.6),
        "100": Query("A blue square."),
    }
    with Index.open(shop) as index:
        for value, query in queries.items():
            slider.fill(value)
            slider.dispatch_event("change")
            if value == "50":
                expect(shop_page).not_to_have_url(re.compile("[?&]b="))
            else:
                expect(shop_page).to_have_url(re.compile(f"[?&]b={value}(&|$)"))
            expected = [hit.item.id for hit in index.search(query, want="image", k=PAGE)]
            expect(shop_page.locator("#results .card").first).to_have_attribute("data-id", expected[0])
            shown = card_ids(shop_page)
            assert shown[:PAGE] == expected
    shop_page.get_by_role("button", name="Remove the picture").click()
    expect(slider).to_be_hidden()
