"""The page in a real browser: albums, duplicates, odd ones out and samples, where Explore opens."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from genius import Index
from tests.serve.browsing import FOLDERS

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect

pytestmark = pytest.mark.slow

PATIENCE = 60_000
"""Milliseconds for what is computed over all items, also where several tests share a machine."""


def card_names(page: Any) -> list[str]:
    page.locator("#cells:not([aria-busy])").wait_for(state="attached")
    expect(page.locator("#cell-items .card").first).to_be_visible(timeout=PATIENCE)
    return [card.get_attribute("data-id") for card in page.locator("#cell-items .card").all()]


def test_explore_opens_with_albums(shop_page: Any, shop: Path) -> None:
    with Index.open(shop) as index:
        albums = index.albums(30)
    shop_page.get_by_role("link", name="Explore").click()
    expect(shop_page.get_by_role("heading", name="Albums")).to_be_visible(timeout=PATIENCE)
    expect(shop_page.locator(".cell")).to_have_count(len(albums), timeout=PATIENCE)
    expect(shop_page.locator(".cell .label")).to_have_text(
        [album.label or f"Album {place + 1}" for place, album in enumerate(albums)]
    )
    shop_page.locator(".cell").first.press("Enter")
    expect(shop_page).to_have_url(re.compile("/explore/album/"))
    title = albums[0].label or "Album 1"
    expect(shop_page.get_by_role("heading", name=title, exact=True)).to_be_focused(timeout=PATIENCE)
    expect(shop_page).to_have_title(f"{title} · Explore · genius")
    assert card_names(shop_page) == list(albums[0].ids[:48])
    expect(shop_page.locator(".cell")).to_have_count(len(albums[0].albums))
    shop_page.locator(".crumbs a").first.click()
    expect(shop_page.locator(".cell")).to_have_count(len(albums), timeout=PATIENCE)
    shop_page.go_back()
    assert card_names(shop_page) == list(albums[0].ids[:48])
    shop_page.reload()
    assert card_names(shop_page) == list(albums[0].ids[:48])


def test_what_takes_longer_than_a_request_is_requested_again(shop_page: Any) -> None:
    requested: list[str] = []

    def slow(route: Any) -> None:
        requested.append(route.request.url)
        if len(requested) < 3:
            message = "this takes more than 30 seconds: try again"
            route.fulfill(status=503, json={"error": {"kind": "timeout", "message": message}})
        else:
            route.continue_()

    shop_page.route("**/sample?*", slow)
    shop_page.goto("/#/explore/sample")
    assert card_names(shop_page)
    assert len(requested) == 3
    expect(shop_page.locator("#explore-status.wrong")).to_have_count(0)


def test_an_item_opens_over_its_album_and_closes_again(shop_page: Any) -> None:
    shop_page.goto("/#/explore/sample")
    first = card_names(shop_page)[0]
    requests: list[str] = []
    shop_page.on("request", lambda request: requests.append(request.url))
    shop_page.locator("#cell-items .open").first.click()
    expect(shop_page.locator("#viewer")).to_be_visible()
    shop_page.keyboard.press("Escape")
    expect(shop_page.locator("#viewer")).to_be_hidden()
    assert card_names(shop_page)[0] == first
    assert not [url for url in requests if "/sample?" in url], "nothing is loaded again"


def test_duplicates_show_what_to_keep(shop_page: Any, shop: Path) -> None:
    with Index.open(shop) as index:
        groups = index.duplicates().groups
    shop_page.goto("/#/explore/duplicates")
    expect(shop_page.locator(".group")).to_have_count(len(groups), timeout=PATIENCE)
    assert len(groups) == 5, "squares of five colours"
    expect(shop_page.locator(".group").first.locator(".badge")).to_have_count(1)
    kept = shop_page.locator(".group").first.locator(".card").first
    expect(kept).to_have_attribute("data-id", re.compile(re.escape(FOLDERS)))
    shop_page.get_by_role("link", name="The same bytes").click()
    expect(shop_page).to_have_url(re.compile("level=exact"))
    expect(shop_page.get_by_role("link", name="The same bytes")).to_have_attribute("aria-current", "true")


def test_odd_ones_say_why(shop_page: Any) -> None:
    shop_page.goto("/#/explore/outliers")
    expect(shop_page.locator(".reason").first).to_have_text(
        "Its image is all of one colour", timeout=PATIENCE
    )
    expect(shop_page).to_have_title("Odd ones out · Explore · genius")


def test_another_sample(shop_page: Any, shop: Path) -> None:
    with Index.open(shop) as index:
        first, second = ([item.id for item in index.sample(48, seed=seed)] for seed in (0, 1))
    shop_page.goto("/#/explore/sample")
    assert card_names(shop_page) == first
    shop_page.get_by_role("link", name="Another one").click()
    expect(shop_page.locator("#cell-items .card").first).to_have_attribute(
        "data-id", second[0], timeout=PATIENCE
    )
    assert card_names(shop_page) == second


def test_an_album_that_is_gone_says_so(shop_page: Any) -> None:
    shop_page.goto("/#/explore/album/nothing")
    expect(shop_page.locator("#explore-status")).to_contain_text("no such album", timeout=PATIENCE)
