"""The page in a real browser: search by text, by image, by both; why; explore; and errors."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

from playwright import sync_api

from genius import Index
from genius.serve.config import Settings
from tests.pictures import square
from tests.serve.browsing import anything, card_ids, opened
from tests.serving import running_service

expect = sync_api.expect

DROP = """([content, name]) => {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    const dropped = new DataTransfer();
    dropped.items.add(new File([bytes], name, { type: "image/jpeg" }));
    for (const kind of ["dragenter", "dragover", "drop"]) {
        const options = { bubbles: true, cancelable: true, dataTransfer: dropped };
        document.body.dispatchEvent(new DragEvent(kind, options));
    }
}"""


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("screenshots")


@pytest.fixture(scope="module")
def url(served: Path) -> Iterator[str]:
    with running_service(Settings(served, port=0, read_only=True)) as address:
        yield address


@pytest.fixture
def page(browser: Any, url: str) -> Iterator[Any]:
    """The page, open; whatever it complains of fails the test."""
    yield from opened(browser, url)


def drop(page: Any, content: bytes) -> None:
    page.evaluate(DROP, [base64.b64encode(content).decode(), "red.jpg"])


def hold(page: Any, address: str) -> list[Any]:
    """Requests that wait until the test lets them go on."""
    held: list[Any] = []

    def wait(route: Any) -> None:  # as Playwright takes no method of a list
        held.append(route)

    page.route(address, wait)
    return held


def ids(page: Any) -> list[str]:
    expect(page.locator("#results .score").first).to_be_visible()
    return card_ids(page)


def test_search_by_text(page: Any, served: Path, shots: Path) -> None:
    page.get_by_label("What are you looking for?").fill("the red one")
    page.keyboard.press("Enter")
    with Index.open(served) as index:
        assert ids(page) == anything(index, "the red one")
        page.get_by_role("radio", name="Pictures").check(force=True)
        expect(page).to_have_url(re.compile("want=image"))
        expect(page.locator("#results .words")).to_have_count(0)
        assert ids(page) == [hit.item.id for hit in index.search("the red one", k=24, want="image")]
    page.screenshot(path=shots / "text.png")
    page.go_back()
    expect(page.get_by_label("Anything")).to_be_checked()


def test_search_by_a_dropped_image_alone_and_with_words(page: Any, served: Path, shots: Path) -> None:
    red = square("red", side=64)
    drop(page, red)
    with Index.open(served) as index:
        assert ids(page) == anything(index, image=red)
        expect(page.locator("#chosen img")).to_be_visible()
        page.screenshot(path=shots / "image.png")
        page.get_by_label("What are you looking for?").fill("the same in blue")
        page.get_by_role("button", name="Search", exact=True).click()
        expect(page).to_have_url(re.compile("q=the"))
        both = anything(index, text="the same in blue", image=red)
        expect(page.locator("#results .card").first).to_have_attribute("data-id", both[0])
        assert ids(page) == both
    page.screenshot(path=shots / "both.png")
    page.get_by_role("button", name="Remove the picture").click()
    expect(page.locator("#chosen")).to_be_hidden()


def test_going_back_leaves_the_image_behind(page: Any, served: Path) -> None:
    red = square("red", side=64)
    with Index.open(served) as index:
        words, both = anything(index, "green"), anything(index, "green", image=red)
    assert words != both
    page.goto("/#/search?q=green")
    shows(page, words, images=0)
    drop(page, red)
    shows(page, both, images=1)
    page.go_back()
    shows(page, words, images=0)
    page.go_forward()
    shows(page, both, images=1)
    page.reload()  # loses the image
    shows(page, words, images=0)
    expect(page).to_have_url(re.compile(r"\?q=green$"))


def shows(page: Any, hits: list[str], images: int) -> None:
    """Check the ids of the results, and the number of images in the form."""
    expect(page.locator("#chosen img")).to_have_count(images)
    for place, id in enumerate(hits):
        expect(page.locator("#results .card").nth(place)).to_have_attribute("data-id", id)


def test_search_by_a_file(page: Any, tmp_path: Path) -> None:
    (tmp_path / "red.jpg").write_bytes(square("red", side=64))
    page.locator("#file").set_input_files(tmp_path / "red.jpg")
    assert ids(page)


def test_why(page: Any, served: Path, shots: Path) -> None:
    page.goto("/#/search?q=the+red+one&want=image")
    assert ids(page)
    page.locator("#results .card").first.get_by_role("button", name="Why").click()
    with Index.open(served) as index:
        hit = index.search("the red one", want="image", k=24)[0]
    dialog = page.get_by_role("dialog", name="How this was found")
    rows = dialog.locator(".path li")
    expect(rows).to_have_count(len(hit.code))
    for row, code, count in zip(rows.all(), hit.code, hit.prefix_counts, strict=True):
        expect(row.locator(".number")).to_have_text(str(code))
        expect(row.get_by_role("link")).to_have_text(f"{count} item{'' if count == 1 else 's'}")
    expect(rows.first.locator(".percent")).to_have_text("as asked")
    expect(rows.first.locator(".samples .tile")).to_have_count(8)
    page.screenshot(path=shots / "why.png")
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()


def test_explore_three_levels_down(page: Any, served: Path, shots: Path) -> None:
    page.get_by_role("link", name="Explore").click()
    page.get_by_role("link", name="Codes").click()
    prefix: tuple[int, ...] = ()
    with Index.open(served) as index:
        for depth in range(3):
            cell = index.cell(prefix)
            wanted = [str(count) for _, count in cell.children]
            expect(page.locator(".cell[data-prefix]")).to_have_count(len(wanted) + (depth == 0))
            # (Of a cell that is no smaller than its only child the page shows the items at once.)
            inside = {code: index.cell((*prefix, code)).children for code, _ in cell.children}
            prefix = (*prefix, next(code for code in inside if depth == 2 or len(inside[code]) > 1))
            written = "-".join(map(str, prefix))
            page.locator(f'.cell[data-prefix="{written}"]').click()
            expect(page).to_have_url(re.compile(f"/explore/{written}$"))
            expect(page.locator(".cell-head .lead")).to_contain_text(f"{index.cell(prefix).count} item")
            expect(page.locator(".crumbs a")).to_have_count(depth + 2)
            page.screenshot(path=shots / f"explore-{depth}.png")
        page.locator(".crumbs a").nth(1).click()
        expect(page.locator(".cell-head .lead")).to_contain_text(f"{index.cell(prefix[:1]).count} items")


def test_exploring_moves_the_focus_to_the_heading(page: Any) -> None:
    page.get_by_role("link", name="Explore").press("Enter")
    page.get_by_role("link", name="Codes").press("Enter")
    held = hold(page, "**/codes/0?*")
    page.locator('.cell[data-prefix="0"]').press("Enter")
    status = page.locator("#explore-status")
    expect(status).to_have_text("Loading…")
    expect(status).to_be_focused()
    assert page.locator("#cells > div.ghost").count() == 8
    held[0].continue_()
    expect(page.get_by_role("heading", name="Pictures")).to_be_focused()
    expect(status).to_have_text("Pictures: 39 items")
    page.locator(".crumbs a").first.press("Enter")
    expect(page.get_by_role("heading", name="The collection")).to_be_focused()
    page.keyboard.press("/")
    expect(page.get_by_label("What are you looking for?")).to_be_focused()


def test_exploring_requests_no_more_items_than_it_shows(page: Any) -> None:
    requested: list[str] = []
    page.on("request", lambda request: requested.append(request.url))
    for address in ("/#/explore/codes", "/#/explore/0"):
        page.goto(address)
        expect(page.locator(".cell").first).to_be_visible()
    cells = [parse_qs(urlsplit(url).query) for url in requested if "/codes/" in url]
    samples = [(one["samples"], one["child_samples"]) for one in cells]
    assert samples == [(["0"], ["6"]), (["24"], ["6"])]


def test_more_cells_continue_the_list(page: Any, served: Path) -> None:
    with Index.open(served) as index:
        cells = len(index.cell((0,)).children)
    assert cells > 1
    fewer = f"children={cells - 1}"
    page.route(
        "**/codes/0?*", lambda route: route.continue_(url=route.request.url.replace("children=48", fewer))
    )
    page.goto("/#/explore/0")
    page.get_by_role("button", name="Show more cells").press("Enter")
    expect(page.locator(".cell").nth(cells - 1)).to_be_focused()
    expect(page.locator("#explore-status")).to_have_text(f"{cells} of {cells} cells")
    expect(page.get_by_role("button", name="Show more cells")).to_have_count(0)


@pytest.mark.parametrize("address", ["%E0", "no-code", "1--2"])
def test_an_address_with_an_invalid_prefix_is_reported(page: Any, address: str) -> None:
    page.goto(f"/#/explore/{address}")
    expect(page.locator("#explore-status")).to_contain_text("names no code")
    expect(page.locator("#explore-status")).to_be_focused()
    page.get_by_role("button", name="Show the collection").click()
    expect(page.get_by_role("heading", name="The collection")).to_be_focused()


@pytest.mark.parametrize("address", ["#/explore/0", "#/search?q=red"])
def test_the_skip_link_leaves_everything_as_it_is(page: Any, address: str) -> None:
    page.goto(f"/{address}")
    shown = page.locator(".cell:visible, .score:visible")
    expect(shown.first).to_be_visible()
    number = shown.count()
    page.get_by_role("link", name="Skip to the content").press("Enter")
    expect(page.locator("#main")).to_be_focused()
    assert page.url.endswith(address)
    assert shown.count() == number


def test_errors_are_shown_and_can_be_tried_again(page: Any, shots: Path) -> None:
    body = '{"error": {"kind": "busy", "message": "too many <b>searches</b> are waiting"}}'
    page.route("**/search", lambda route: route.fulfill(status=503, body=body))
    page.get_by_label("What are you looking for?").fill("red")
    page.keyboard.press("Enter")
    expect(page.locator("#search-status")).to_have_text("too many <b>searches</b> are waitingTry again")
    page.screenshot(path=shots / "error.png")
    page.unroute("**/search")
    page.get_by_role("button", name="Try again").click()
    assert ids(page)
    page.route("**/codes/**", lambda route: route.abort())
    page.goto("/#/explore/codes")
    expect(page.locator("#explore-status")).to_contain_text("does not answer")


def test_more_like_this(page: Any, served: Path) -> None:
    page.goto("/#/search?q=red")
    first = ids(page)[0]
    held = hold(page, "**/search")
    page.locator("#results .card").first.get_by_role("button", name="More like").press("Enter")
    expect(page).to_have_url(re.compile("near="))
    expect(page.locator("#search-status")).to_have_text("Searching…")
    expect(page.locator("#search-status")).to_be_focused()
    while len(held) < 2:  # pictures and texts
        page.wait_for_timeout(10)
    for route in held:
        route.continue_()
    with Index.open(served) as index:
        expected = anything(index, near=first)
    assert ids(page) == expected
    assert first not in expected
    expect(page.locator("#search-status")).to_have_text(f"{len(expected)} items, best first")
    expect(page.locator("#search-status")).to_be_focused()


def test_the_page_asks_for_a_token_and_loads_images_with_it(browser: Any, served: Path) -> None:
    with running_service(Settings(served, port=0, token="secret")) as url:
        page = browser.new_page(base_url=url)
        page.goto("/")
        for given, complaint in (("wrong", "was not accepted"), ("schlüssel €", "plain letters")):
            page.get_by_label("Token", exact=True).fill(given)
            page.keyboard.press("Enter")
            expect(page.locator("#token-wrong")).to_contain_text(complaint)
            assert page.evaluate("() => sessionStorage.length") == 0
        page.get_by_label("Token", exact=True).fill("secret")
        page.keyboard.press("Enter")
        expect(page.locator("#facts")).to_have_text("99 items")
        image = page.locator(".card img").first
        expect(image).to_have_attribute("src", re.compile("^blob:"))
        page.close()


def test_the_page_fits_a_phone(browser: Any, url: str, shots: Path) -> None:
    page = browser.new_page(base_url=url, viewport={"width": 360, "height": 740})
    for address in ("/", "/#/search?q=red", "/#/explore", "/#/explore/0"):
        page.goto(address)
        expect(page.locator(".card:visible, .cell:visible").first).to_be_visible()
        assert page.evaluate("() => document.documentElement.scrollWidth") <= 360
    page.screenshot(path=shots / "phone.png")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_have_enough_contrast(browser: Any, url: str, scheme: str) -> None:
    page = browser.new_page(base_url=url, color_scheme=scheme)
    page.goto("/")
    read: Callable[[str], str] = lambda name: page.evaluate(  # noqa: E731
        "(name) => getComputedStyle(document.documentElement).getPropertyValue(name)", name
    )
    pairs = [("--ink", "--paper"), ("--ink", "--surface"), ("--soft", "--paper"), ("--soft", "--surface")]
    pairs += [("--accent", "--tint"), ("--accent", "--surface"), ("--accent-ink", "--accent")]
    pairs += [("--wrong", "--surface"), ("--ink", "--tint"), ("--accent", "--paper")]
    for ink, ground in pairs:
        assert contrast(read(ink).strip(), read(ground).strip()) >= 4.5, (scheme, ink, ground)
    page.close()


def contrast(ink: str, ground: str) -> float:
    """The contrast ratio of two colours, as WCAG defines it."""
    light, dark = sorted((luminance(ink), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_everything_to_press_has_a_name(page: Any) -> None:
    page.goto("/#/search?q=red")
    assert ids(page)
    unnamed = page.evaluate("""() => [...document.querySelectorAll("button, a, input, select, img")]
        .filter((one) => !(one.getAttribute("aria-label") || one.textContent.trim()
          || one.getAttribute("alt") !== null || one.querySelector("img")?.alt
          || one.labels?.length)).map((one) => one.outerHTML)""")
    assert unnamed == []


def test_the_page_works_with_the_keyboard_alone(page: Any) -> None:
    page.evaluate("() => document.activeElement.blur()")
    page.keyboard.press("/")
    expect(page.get_by_label("What are you looking for?")).to_be_focused()
    page.keyboard.type("red")
    page.keyboard.press("Enter")
    assert ids(page)
    page.locator("#results .card button").first.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
