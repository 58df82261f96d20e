"""Take the picture of a search that README shows.

    python -m tools.screenshot PHOTOS [--query "an old aeroplane"] [--out docs/images/page-photos.jpg]

PHOTOS is a folder of photos that may be shown to anyone. It is indexed with `photo`, served, and searched in
a real browser (Debian's chromium, driven by playwright). Look at the picture before you commit it.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import sync_playwright

QUALITY = 85
"""Of the JPEG: photos take a quarter of a PNG's bytes."""
ADDRESS = "http://127.0.0.1:8765"
PATIENCE = 120
"""Seconds that a service may take to start."""


def main() -> None:
    """Index, serve and take the picture."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("photos", type=Path)
    parser.add_argument("--query", default="an old aeroplane")
    images = Path(__file__).parents[1] / "docs" / "images"
    parser.add_argument("--out", type=Path, default=images / "page-photos.jpg")
    options = parser.parse_args()
    genius = [sys.executable, "-m", "genius"]
    with tempfile.TemporaryDirectory() as folder:
        index = f"{folder}/index"
        subprocess.run([*genius, "index", str(options.photos), "-o", index], check=True)
        with served(Path(index)):
            shoot(options.query, options.out)


@contextlib.contextmanager
def served(index: Path) -> Iterator[str]:
    """The address of a service of an index, once it answers."""
    command = [sys.executable, "-m", "genius", "serve", str(index), "--read-only"]
    service = subprocess.Popen([*command, "--port", ADDRESS.rpartition(":")[2]])
    try:
        _wait_until_ready()
        yield ADDRESS
    finally:
        service.terminate()
        service.wait()


def shoot(query: str, out: Path) -> None:
    """Search on the page, and write what it shows when all of it is loaded."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1180, "height": 620}, color_scheme="light")
        page.goto(ADDRESS)
        page.fill("#text", query)
        page.keyboard.press("Enter")
        page.wait_for_selector("#results .card img")
        page.wait_for_load_state("networkidle")
        page.screenshot(path=out, type="jpeg", quality=QUALITY)
        browser.close()
    print(out)


def _wait_until_ready() -> None:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            urllib.request.urlopen(f"{ADDRESS}/health").close()
            return
        except (urllib.error.URLError, ConnectionError):
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


if __name__ == "__main__":
    main()
