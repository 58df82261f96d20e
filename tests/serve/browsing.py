"""The page in a real browser: the fixtures of the tests that drive one, and what they look at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from genius import ImageBytes, Index, Item
from genius.serve.config import Settings
from tests.pictures import encoded, square
from tests.serving import running_service

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGE = 24
"""How many hits the page shows at a time."""
FOLDERS = "Pictures of a long journey/the second week/by the sea/evening walk"
PRODUCT, LONG_WORDS, GONE = "shop/teapot.png", "notes/words.txt", "gone/missing.jpg"
COLOURS = ("red", "green", "blue", "orange", "purple")
BRANDS = ("acme", "globex", "initech")
TEXT = (
    "Characteristic representations of international organisations, notwithstanding their responsibilities."
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser, if one is installed."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("no chromium is installed (apt install chromium)")
    options = ["--no-sandbox"] if os.getuid() == 0 else []
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield started
        started.close()


@pytest.fixture(scope="session")
def shop(coded_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An index with metadata: photos with prices, brands and dates, a product on white, texts."""
    path = tmp_path_factory.mktemp("shop") / "index"
    with Index.create(path, coded_model) as index:
        assert index.add(shop_items()).failures.count == 0
        for want, only in (("image", None), (None, "text")):  # as a service does when it starts
            index.calibrate(["text", "image", "both"], want=want, only=only)
    return path


def shop_items() -> list[Item]:
    """The items of the shop; the n-th photo costs n."""
    photos = [
        Item(
            f"{FOLDERS}/{colour} square, photo {n}.jpg",
            f"A {colour} square.",
            ImageBytes(square(colour, side=64), colour),
            {
                "price": n,
                "brand": BRANDS[n % 3],
                "taken": f"2024-{1 + n % 12:02}-{1 + n % 28:02}T10:30:00",
                "sale": n % 2 == 0,
                "latitude": 43.5 + n / 100,
            },
        )
        for n in range(50)
        for colour in [COLOURS[n % len(COLOURS)]]
    ]
    teapot = Image.new("RGB", (64, 64), "white")
    ImageDraw.Draw(teapot).ellipse((16, 16, 48, 48), fill="red")
    product = Item(PRODUCT, "A red teapot.", ImageBytes(encoded(teapot), "teapot"), {"price": 99.5})
    notes = [Item(f"notes/{n}.txt", f"A note about the colour {COLOURS[n]}.") for n in range(5)]
    return [*photos, product, *notes, Item(LONG_WORDS, TEXT)]


@pytest.fixture(scope="module")
def shop_url(shop: Path) -> Iterator[str]:
    """A service of the shop."""
    with running_service(Settings(shop, port=0, read_only=True)) as address:
        yield address


@pytest.fixture
def shop_page(browser: Any, shop_url: str) -> Iterator[Any]:
    """The page of the shop, open."""
    yield from opened(browser, shop_url)


def opened(browser: Any, url: str, **options: Any) -> Iterator[Any]:
    """The page, open, with its filters; whatever it complains of fails the test."""
    page = browser.new_page(base_url=url, reduced_motion="reduce", **options)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    with page.expect_response("**/facets"):
        page.goto("/")
    page.locator(".card").first.wait_for()
    yield page
    page.close()
    assert not complaints


def card_ids(page: Any) -> list[str]:
    """The ids of the cards that a search shows, once it has ended."""
    page.locator("#results:not([aria-busy]) .card").first.wait_for()
    return [card.get_attribute("data-id") for card in page.locator("#results .card").all()]


def anything(index: Index, *query: str, **options: Any) -> list[str]:
    """What the page shows if anything is wanted: first whatever has an image, then texts alone."""
    images = index.search(*query, want="image", k=PAGE, **options)
    texts = index.search(*query, only="text", k=PAGE, **options)
    return [hit.item.id for hit in [*images, *texts]]
