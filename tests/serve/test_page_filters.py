"""The page in a real browser: filters, sorting, more hits, browsing, and what to do if nothing is found."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import pytest

from genius import Index
from genius.serve.config import Settings
from tests.serve.browsing import PAGE, anything, card_ids, shop_items
from tests.serving import running_service

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect

ITEMS = {item.id: item for item in shop_items()}
ACME = [id for id, item in ITEMS.items() if item.metadata.get("brand") == "acme"]


def filtered(filter: dict[str, Any], **parameters: str) -> str:
    """The address of a filter."""
    given = "".join(f"&{name}={quote(value)}" for name, value in parameters.items())
    return f"/#/search?filter={quote(json.dumps(filter))}{given}"


def filter_in(page: Any) -> Any:
    """The filter in the address of the page."""
    return json.loads(parse_qs(page.url.partition("?")[2])["filter"][0])


def menu(page: Any, key: str) -> Any:
    return page.locator(f'.facet[data-key="{key}"]')


def test_values_are_offered_and_chosen(shop_page: Any) -> None:
    brand = menu(shop_page, "brand")
    brand.locator("summary").click()
    expect(brand.get_by_role("checkbox")).to_have_count(3)
    expect(brand.locator("label").filter(has_text="acme")).to_contain_text(str(len(ACME)))
    brand.get_by_label("acme").check()
    expect(shop_page).to_have_url(re.compile("filter="))
    assert filter_in(shop_page) == {"brand": {"$in": ["acme"]}}
    assert card_ids(shop_page) == ACME  # without a query, in the order in which they were added
    expect(shop_page.locator("#search-status")).to_contain_text(f"{len(ACME)} items")
    expect(brand.locator("summary")).to_have_text("brand: acme")
    brand.get_by_label("globex").check()
    expect(shop_page.locator("#search-status")).to_contain_text(f"{PAGE} of 34 items")
    brand.get_by_role("button", name="Clear").click()
    expect(shop_page).not_to_have_url(re.compile("filter="))
    expect(brand.get_by_label("acme")).not_to_be_checked()


def test_a_filter_narrows_a_search_and_is_part_of_the_address(shop_page: Any, shop: Path) -> None:
    shop_page.goto("/#/search?q=red")
    card_ids(shop_page)
    menu(shop_page, "sale").locator("summary").click()
    menu(shop_page, "sale").get_by_label("yes").check()
    expect(shop_page).to_have_url(re.compile("filter="))
    with Index.open(shop) as index:
        expected = anything(index, "red", filter={"sale": True})
    assert expected
    expect(shop_page.locator("#results .card")).to_have_count(len(expected))
    assert card_ids(shop_page) == expected
    shop_page.reload()
    expect(menu(shop_page, "sale").locator("summary")).to_have_text("sale: yes")
    assert card_ids(shop_page) == expected
    shop_page.go_back()
    expect(menu(shop_page, "sale").locator("summary")).to_have_text("sale")
    expect(shop_page).to_have_url(re.compile(r"\?q=red$"))


def test_numbers_have_a_range(shop_page: Any) -> None:
    price = menu(shop_page, "price")
    price.locator("summary").click()
    expect(price.get_by_label("To")).to_have_attribute("placeholder", "99.5")
    price.get_by_label("From").fill("45")
    price.get_by_label("To").fill("48")
    price.get_by_label("To").press("Enter")
    expect(price.locator("summary")).to_have_text("price: 45 – 48")
    expect(shop_page.locator("#results .card")).to_have_count(4)
    assert [ITEMS[id].metadata["price"] for id in card_ids(shop_page)] == [45, 46, 47, 48]


def test_dates_have_a_range_with_its_last_day(shop_page: Any) -> None:
    taken = menu(shop_page, "taken")
    taken.locator("summary").click()
    taken.get_by_label("From").fill("2024-03-01")
    taken.get_by_label("To").fill("2024-03-27")
    taken.get_by_label("To").press("Tab")
    expect(taken.locator("summary")).to_have_text("taken: 1 March 2024 – 27 March 2024")
    inside = [
        id for id, item in ITEMS.items() if "2024-03-01" <= str(item.metadata.get("taken", "")) < "2024-03-28"
    ]
    assert any(str(ITEMS[id].metadata["taken"]).startswith("2024-03-27T10") for id in inside)
    expect(shop_page.locator("#results .card")).to_have_count(len(inside))
    assert card_ids(shop_page) == inside
    expect(taken.get_by_label("To")).to_have_value("2024-03-27")


def test_what_is_browsed_can_be_sorted(shop_page: Any) -> None:
    shop_page.get_by_label("Sort").select_option("price, highest first")
    expect(shop_page).to_have_url(re.compile("sort=-price"))
    expect(shop_page.locator("#search-status")).to_contain_text("by price")
    prices = sorted((float(str(item.metadata.get("price", -1))) for item in ITEMS.values()), reverse=True)
    shown = [float(str(ITEMS[id].metadata["price"])) for id in card_ids(shop_page)]
    assert shown == prices[:PAGE]
    shop_page.go_back()
    expect(shop_page.get_by_label("Sort")).to_have_value("")


def test_the_best_hits_can_be_sorted(shop_page: Any) -> None:
    shop_page.goto("/#/search?q=red&want=image&sort=price")
    prices = [float(str(ITEMS[id].metadata["price"])) for id in card_ids(shop_page)]
    assert prices == sorted(prices)
    assert len(prices) > PAGE
    expect(shop_page.get_by_role("button", name="Show more")).to_be_hidden()


def test_more_hits_continue_the_list(shop_page: Any, shop: Path) -> None:
    shop_page.goto("/#/search?q=red&want=image")
    with Index.open(shop) as index:
        expected = [hit.item.id for hit in index.search("red", want="image", k=51)]
    assert card_ids(shop_page) == expected[:PAGE]
    more = shop_page.get_by_role("button", name="Show more")
    more.press("Enter")
    expect(shop_page.locator("#results .card")).to_have_count(2 * PAGE)
    expect(shop_page.locator("#results .card").nth(PAGE).locator(".open")).to_be_focused()
    expect(shop_page.locator("#search-status")).to_contain_text(f"{2 * PAGE} items")
    more.click()
    expect(shop_page.locator("#results .card")).to_have_count(len(expected))
    expect(more).to_be_hidden()
    assert sorted(card_ids(shop_page)) == sorted(expected)


def test_why_works_for_later_hits(shop_page: Any) -> None:
    shop_page.goto("/#/search?q=red&want=image")
    card_ids(shop_page)
    shop_page.get_by_role("button", name="Show more").click()
    expect(shop_page.locator("#results .card")).to_have_count(2 * PAGE)
    shop_page.locator("#results .card").nth(PAGE + 3).get_by_role("button", name="Why").click()
    expect(shop_page.locator("#why .path .percent").first).to_be_visible()
    expect(shop_page.locator("#why .small").first).to_contain_text(f"rank {PAGE + 4}")


def test_going_back_finds_the_list_as_it_was_left(shop_page: Any) -> None:
    shop_page.goto("/#/search?q=red&want=image")
    card_ids(shop_page)
    shop_page.get_by_role("button", name="Show more").click()
    expect(shop_page.locator("#results .card")).to_have_count(2 * PAGE)
    shop_page.evaluate("() => window.scrollTo(0, 900)")
    shop_page.locator("#results .card").nth(30).get_by_role("button", name="More like").click()
    expect(shop_page).to_have_url(re.compile("near="))
    card_ids(shop_page)
    shop_page.go_back()
    expect(shop_page.locator("#results .card")).to_have_count(2 * PAGE)
    expect(shop_page.locator("#search-status")).to_contain_text(f"{2 * PAGE} items")
    assert shop_page.evaluate("() => window.scrollY") > 300


def test_everything_can_be_browsed(shop_page: Any) -> None:
    shop_page.get_by_role("link", name=f"Show all {len(ITEMS)} items").click()
    expect(shop_page.locator("#search-status")).to_contain_text(f"of {len(ITEMS)} items")
    shop_page.get_by_role("button", name="Show more").click()
    expect(shop_page.locator("#results .card")).to_have_count(2 * PAGE + 6)
    assert set(card_ids(shop_page)) <= set(ITEMS)


def test_a_filter_that_no_menu_can_show_is_shown_as_it_is_and_can_be_removed(shop_page: Any) -> None:
    shop_page.goto(filtered({"brand": {"$ne": "acme"}, "price": {"$lte": 7}}))
    expected = [
        id
        for id, item in ITEMS.items()
        if float(str(item.metadata.get("price", 99))) <= 7 and item.metadata.get("brand") != "acme"
    ]
    expect(menu(shop_page, "price").locator("summary")).to_have_text("price: up to 7")
    expect(shop_page.locator("#other-filters")).to_contain_text('brand: {"$ne":"acme"}')
    assert card_ids(shop_page) == expected
    shop_page.get_by_role("button", name="Remove the filter by brand").click()
    expect(shop_page.locator("#results .card")).to_have_count(8)
    assert filter_in(shop_page) == {"price": {"$lte": 7}}


@pytest.mark.parametrize("text", ["{", "[]", "3", "null"])
def test_an_address_without_a_valid_filter_has_none(shop_page: Any, text: str) -> None:
    shop_page.goto(f"/#/search?q=red&filter={quote(text)}")
    assert card_ids(shop_page)
    expect(shop_page.locator(".facet.chosen-one, .other")).to_have_count(0)


def test_if_a_filter_leaves_nothing_one_can_search_without(shop_page: Any) -> None:
    shop_page.goto(filtered({"price": {"$gte": 1000}}, q="red"))
    expect(shop_page.locator("#search-status")).to_contain_text("Nothing was found")
    shop_page.get_by_role("button", name="Search without filters").click()
    assert card_ids(shop_page)
    expect(shop_page).to_have_url(re.compile(r"\?q=red$"))


def test_an_empty_index_says_what_to_do(browser: Any, own_index: Path) -> None:
    with running_service(Settings(own_index, port=0)) as url:
        page = browser.new_page(base_url=url)
        page.goto("/")
        expect(page.locator("#search-status")).to_contain_text("genius add INDEX")
        page.request.post("/items", data={"items": [{"id": "1", "text": "A red square."}]})
        page.get_by_role("button", name="Look again").click()
        expect(page.locator(".card")).to_have_count(1)
        page.close()


def test_menus_close_by_escape_and_by_a_click_elsewhere(shop_page: Any) -> None:
    brand = menu(shop_page, "brand")
    brand.locator("summary").press("Enter")
    expect(brand.locator(".menu")).to_be_visible()
    shop_page.keyboard.press("Tab")
    shop_page.keyboard.press("Escape")
    expect(brand.locator(".menu")).to_be_hidden()
    expect(brand.locator("summary")).to_be_focused()
    brand.locator("summary").click()
    menu(shop_page, "price").locator("summary").click()
    expect(brand.locator(".menu")).to_be_hidden()
    shop_page.locator("#search-status").click()
    expect(shop_page.locator(".menu:visible")).to_have_count(0)


def test_every_search_has_a_title_of_its_own(shop_page: Any) -> None:
    expect(shop_page).to_have_title("Search · genius")
    for address, title in (
        ("/#/search?q=a+red+square", "a red square · genius"),
        ("/#/search?near=shop%2Fteapot.png", "Like A red teapot. · genius"),
        (filtered({"brand": {"$in": ["acme"]}}), "brand: acme · genius"),
        ("/#/explore", "Albums · Explore · genius"),
        ("/#/explore/codes", "The collection · Explore · genius"),
        ("/#/explore/1", "Texts · Explore · genius"),
    ):
        shop_page.goto(address)
        expect(shop_page).to_have_title(title)


def test_menus_fit_a_phone(browser: Any, shop_url: str) -> None:
    page = browser.new_page(base_url=shop_url, viewport={"width": 360, "height": 740})
    page.goto("/")
    for summary in page.locator(".facet summary").all():
        summary.click()
        box = page.locator(".menu:visible").bounding_box()
        assert box["x"] >= 0 and box["x"] + box["width"] <= 360
    page.close()
