"""The page in a real browser: items as cards and large, with their metadata and pictures."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from genius import ImageFile, Index, Item
from genius.serve.config import Settings
from tests.pictures import write_square
from tests.serve.browsing import FOLDERS, LONG_WORDS, PRODUCT, card_ids, shop_items
from tests.serving import running_service

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
expect = sync_api.expect

FIRST = f"{FOLDERS}/red square, photo 0.jpg"
SORTED = "/#/search?sort=price"
LONG_NAME = f"a very long name {'of a photo ' * 8}with its end.jpg"
BROKEN_WORDS = """() => {
    const broken = [];
    for (const element of document.querySelectorAll(".tile.words span, .says")) {
        const text = element.firstChild;
        for (const word of text.data.matchAll(/\\S+/g)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            const lines = new Set([...range.getClientRects()].map((box) => Math.round(box.top)));
            if (lines.size > 1) broken.push(word[0]);
        }
    }
    return broken;
}"""


def card(page: Any, id: str) -> Any:
    return page.locator(f'.card[data-id="{id}"]')


def viewer(page: Any) -> Any:
    return page.locator("#viewer")


def loaded(page: Any, image: Any) -> None:
    """Wait until an image is there."""
    image.scroll_into_view_if_needed()
    page.wait_for_function("(image) => image.complete && image.naturalWidth > 0", arg=image.element_handle())


def test_a_card_shows_the_metadata_that_matter_most(shop_page: Any) -> None:
    shop_page.goto("/#/search?sort=-price")
    card_ids(shop_page)
    price = card(shop_page, PRODUCT).locator(".facts-of > div")
    expect(price).to_have_text("price99.5")
    rows = card(shop_page, f"{FOLDERS}/purple square, photo 49.jpg").locator(".facts-of > div")
    expect(rows).to_have_text(["price49", "taken22 Feb 2024", "brandglobex"])


def test_images_come_before_texts(shop_page: Any) -> None:
    shop_page.goto("/#/search?q=a+note+about+the+colour+red")
    card_ids(shop_page)
    kinds = shop_page.locator("#results .kind").all_text_contents()
    assert set(kinds) == {"Pair", "Text"}
    assert kinds == sorted(kinds)
    expect(shop_page.locator("#results h2")).to_have_text(["Pictures", "Texts"])


def test_photos_fill_their_tiles_and_what_stands_on_white_does_not(shop_page: Any) -> None:
    shop_page.goto("/#/search?sort=-price")
    card_ids(shop_page)
    product, photo = (shop_page.locator(".card .tile").nth(place) for place in (0, 1))
    for tile in (product, photo):
        loaded(shop_page, tile.locator("img"))
    expect(product).to_have_class(re.compile("matte"))
    expect(photo).not_to_have_class(re.compile("matte"))
    assert photo.locator("img").bounding_box() == photo.bounding_box()
    assert photo.locator("img").evaluate("(image) => getComputedStyle(image).objectFit") == "cover"
    inner, outer = product.locator("img").bounding_box(), product.bounding_box()
    assert inner["width"] < outer["width"] and inner["height"] < outer["height"]


def test_nothing_glares_in_the_dark(browser: Any, shop_url: str) -> None:
    page = browser.new_page(base_url=shop_url, color_scheme="dark")
    page.goto("/#/search?sort=-price")
    card_ids(page)
    for place in (0, 1):
        loaded(page, page.locator(".card .tile img").nth(place))
    expect(page.locator(".tile.matte")).to_have_count(1)
    colours = page.locator(".tile").evaluate_all(
        "(tiles) => tiles.map((tile) => getComputedStyle(tile).backgroundColor.match(/\\d+/g).map(Number))"
    )
    assert all(max(colour) < 230 for colour in colours)
    blend = page.locator(".tile.matte img").evaluate("(image) => getComputedStyle(image).mixBlendMode")
    assert blend == "multiply"  # white becomes the colour of the tile
    page.close()


@pytest.mark.parametrize("width", [1280, 360])
def test_a_long_path_keeps_the_end_of_the_files_name(browser: Any, shop_url: str, width: int) -> None:
    page = browser.new_page(base_url=shop_url, viewport={"width": width, "height": 800})
    page.goto(SORTED)
    card_ids(page)
    line = card(page, FIRST).locator(".id")
    expect(line).to_have_text(FIRST)
    expect(line).to_have_attribute("title", FIRST)
    folder, name = (line.locator(part) for part in (".folder", ".name"))
    expect(name).to_have_text(FIRST.rpartition("/")[2])
    assert is_clipped(folder)
    assert not is_clipped(name)  # it takes as many lines as it needs
    last, whole = name.bounding_box(), line.bounding_box()
    assert last["x"] + last["width"] <= whole["x"] + whole["width"] + 1
    assert last["y"] + last["height"] <= whole["y"] + whole["height"] + 1
    page.close()


def is_clipped(element: Any) -> bool:
    clipped: bool = element.evaluate("(element) => element.scrollWidth > element.clientWidth")
    return clipped


def test_words_are_not_broken_on_a_phone(browser: Any, shop_url: str) -> None:
    page = browser.new_page(base_url=shop_url, viewport={"width": 360, "height": 740})
    for address in (
        "/#/search?q=international+responsibilities&want=text",
        "/#/search?all=1",
        "/#/explore/1",
    ):
        page.goto(address)
        expect(page.locator(f'.card[data-id="{LONG_WORDS}"]:visible')).to_be_visible()
        assert page.locator(".tile.words span").count()
        assert page.evaluate(BROKEN_WORDS) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    page.close()


def test_a_click_shows_an_image_large_with_all_that_is_known_of_it(shop_page: Any) -> None:
    shop_page.goto(SORTED)
    card_ids(shop_page)
    card(shop_page, FIRST).locator("img").click()
    expect(viewer(shop_page)).to_be_visible()
    large = viewer(shop_page).locator("img.large")
    loaded(shop_page, large)
    assert large.get_attribute("src").endswith("size=1536")
    assert large.bounding_box()["width"] > 600
    expect(viewer(shop_page).get_by_role("heading")).to_have_text("A red square.")
    expect(viewer(shop_page).locator(".whole")).to_have_text(FIRST)
    expect(viewer(shop_page).locator(".facts-of > div")).to_have_text(
        ["brandacme", "latitude43.5", "price0", "saleyes", "taken1 January 2024, 10:30"]
    )
    expect(shop_page).to_have_title("A red square. · genius")


def test_arrows_lead_on_and_escape_back_to_the_card(shop_page: Any) -> None:
    shop_page.goto(SORTED)
    ids = card_ids(shop_page)
    card(shop_page, ids[0]).locator(".open").press("Enter")
    path = viewer(shop_page).locator(".whole")
    expect(path).to_have_text(ids[0])
    shop_page.keyboard.press("ArrowLeft")  # leads nowhere
    expect(path).to_have_text(ids[0])
    for id in ids[1:4]:
        shop_page.keyboard.press("ArrowRight")
        expect(path).to_have_text(id)
    shop_page.keyboard.press("ArrowLeft")
    expect(path).to_have_text(ids[2])
    viewer(shop_page).get_by_role("button", name="The one before").click()
    expect(path).to_have_text(ids[1])
    shop_page.keyboard.press("Escape")
    expect(viewer(shop_page)).to_be_hidden()
    expect(card(shop_page, ids[1]).locator(".open")).to_be_focused()
    expect(shop_page).to_have_url(re.compile(r"\?sort=price$"))
    expect(shop_page.locator("#results .card").first).to_have_attribute("data-id", ids[0])


def test_going_back_closes_the_large_image(shop_page: Any) -> None:
    shop_page.goto(SORTED)
    id = card_ids(shop_page)[3]
    card(shop_page, id).locator("img").click()
    expect(shop_page).to_have_url(re.compile("item="))
    shop_page.go_back()
    expect(viewer(shop_page)).to_be_hidden()
    expect(shop_page).to_have_url(re.compile(r"\?sort=price$"))
    shop_page.go_forward()
    expect(viewer(shop_page).locator(".whole")).to_have_text(id)


def test_a_link_to_a_large_image_can_be_shared(shop_page: Any, browser: Any, shop_url: str) -> None:
    page = browser.new_page(base_url=shop_url)
    page.goto(f"/#/search?q=red&want=image&item={quote(PRODUCT)}")
    expect(viewer(page).get_by_role("heading")).to_have_text("A red teapot.")
    card_ids(page)
    page.keyboard.press("Escape")
    expect(viewer(page)).to_be_hidden()
    expect(page).to_have_url(re.compile("want=image$"))
    page.goto("/#/search?q=red&item=nothing")
    expect(viewer(page)).to_contain_text("there is no item with this id")
    viewer(page).get_by_role("button", name="Close").click()
    expect(viewer(page)).to_be_hidden()
    page.close()


def test_more_like_a_large_image(shop_page: Any) -> None:
    shop_page.goto(SORTED)
    card_ids(shop_page)
    card(shop_page, FIRST).locator("img").click()
    viewer(shop_page).get_by_role("button", name="More like").click()
    expect(shop_page).to_have_url(re.compile("near="))
    expect(viewer(shop_page)).to_be_hidden()
    assert FIRST not in card_ids(shop_page)
    shop_page.go_back()
    expect(viewer(shop_page).locator(".whole")).to_have_text(FIRST)


def test_a_text_is_shown_whole(shop_page: Any) -> None:
    shop_page.goto("/#/search?q=international+organisations&want=text")
    card_ids(shop_page)
    card(shop_page, LONG_WORDS).locator(".open").click()
    text = next(item.text for item in shop_items() if item.id == LONG_WORDS)
    expect(viewer(shop_page).locator(".stage")).to_have_text(str(text))


def test_items_of_a_cell_are_shown_large_too(shop_page: Any) -> None:
    shop_page.goto("/#/explore/1")
    expect(shop_page.locator("#cell-items .card").first).to_be_visible()
    shop_page.locator("#cell-items .open").first.click()
    expect(viewer(shop_page)).to_be_visible()
    shop_page.keyboard.press("ArrowRight")
    shop_page.keyboard.press("Escape")
    expect(shop_page.locator("#cell-items .open").nth(1)).to_be_focused()
    expect(shop_page).to_have_url(re.compile("/explore/1$"))


def test_an_image_that_is_gone_says_so(browser: Any, own_index: Path, tmp_path: Path) -> None:
    file = write_square(tmp_path / "red.jpg")
    with Index.open(own_index) as index:
        index.add([Item("red.jpg", image=ImageFile(str(tmp_path), "red.jpg"))])
    file.unlink()
    with running_service(Settings(own_index, port=0)) as url:
        page = browser.new_page(base_url=url)
        page.goto("/")
        expect(page.locator(".tile")).to_have_text("The picture can't be read.")
        page.close()


def test_where_a_file_is_is_shown_if_the_service_says_it(
    browser: Any, own_index: Path, tmp_path: Path
) -> None:
    write_square(tmp_path / "photos" / LONG_NAME)
    with Index.open(own_index) as index:
        index.add(tmp_path / "photos")
    for paths in (True, False):
        with running_service(Settings(own_index, port=0, paths=paths)) as url:
            page = browser.new_page(base_url=url, viewport={"width": 360, "height": 740})
            page.goto("/#/search?all=1")
            assert card_ids(page) == [LONG_NAME]
            name = page.locator(".card .name")
            assert name.inner_text().startswith("a very long name") and name.inner_text().endswith("end.jpg")
            assert "…" in name.inner_text() and not is_clipped(name)
            with page.expect_response("**/items/**") if paths else contextlib.nullcontext():
                page.locator(".card img").click()
            lines = [LONG_NAME, str(tmp_path / "photos" / LONG_NAME)] if paths else [LONG_NAME]
            expect(viewer(page).locator(".whole:visible")).to_have_text(lines)
            page.close()


def test_what_is_wanted_is_offered_where_there_is_a_choice(browser: Any, own_index: Path) -> None:
    with Index.open(own_index) as index:
        index.add([Item("1", "A red square."), Item("2", "A blue square.")])
    with running_service(Settings(own_index, port=0)) as url:
        page = browser.new_page(base_url=url)
        page.goto("/#/search?q=red")
        card_ids(page)
        expect(page.locator("#want")).to_be_hidden()
        page.close()
