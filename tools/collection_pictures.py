"""Take the pictures of docs/collections.md: contact sheets, the page, and commands with what they print.

    python -m tools.collection_pictures DEMO_INDEX PHOTOS [--out docs/images] [--only drift]

DEMO_INDEX is the demo's index of emoji (`make demo` writes out/demo/index), PHOTOS a folder of photos that
may be shown to anyone. Everything is run in a temporary folder, so that no path of this machine is seen.
Pages and terminals are drawn by a real browser (Debian's chromium, driven by playwright). Look at the
pictures before you commit them.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pty
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from html import escape
from pathlib import Path
from typing import Any

from PIL import Image, ImageEnhance
from playwright.sync_api import sync_playwright

import genius
from genius.data.contact_sheet import contact_sheet, stack, tile_of
from tools.screenshot import QUALITY, served

COLUMNS = 84
WIDTH = 760
"""Pixels of the widest picture."""
GROUPS = {
    "face": ((0x1F600, 0x1F64F), (0x1F910, 0x1F92F), (0x1F970, 0x1F97A)),
    "animal": ((0x1F400, 0x1F43F), (0x1F980, 0x1F9AE)),
    "food": ((0x1F32D, 0x1F37F), (0x1F950, 0x1F96F)),
    "flag": ((0x1F1E6, 0x1F1FF),),
}
"""What emoji show, by the first number of their names."""
ESCAPES, BAR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]"), "━"
TERMINAL = """<style>
body { margin: 0; background: #fff; }
pre { margin: 0; padding: 16px 20px; width: max-content; background: #14181a; color: #e4e6e3;
      border-radius: 10px; font: 14px/1.45 'DejaVu Sans Mono', monospace; white-space: pre-wrap;
      max-width: 84ch; overflow-wrap: break-word; }
b { color: #7cc7b5; font-weight: 400; }
</style><pre>%s</pre>"""


def main() -> None:
    """Take all pictures, or those whose names are given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("demo", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "docs" / "images")
    parser.add_argument("--only", action="append", help="The name of a picture; repeatable.")
    options = parser.parse_args()
    drawings: dict[str, Callable[[Studio], None]] = {
        name.removeprefix("take_"): function
        for name, function in globals().items()
        if name.startswith("take_")
    }
    with tempfile.TemporaryDirectory() as folder, _browser() as browser:
        studio = Studio(Path(folder), options.demo.resolve(), options.photos.resolve(), options.out, browser)
        studio.prepare()
        for name in options.only or drawings:
            drawings[name](studio)


@contextlib.contextmanager
def _browser() -> Iterator[Any]:
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        browser.close()


class Studio:
    """A temporary folder with indexes, and how pictures of them are taken."""

    def __init__(self, folder: Path, demo: Path, photos: Path, out: Path, browser: Any) -> None:
        self.folder, self.demo, self.photos, self.out, self.browser = folder, demo, photos, out, browser

    def prepare(self) -> None:
        """Index the photos, with copies of some of them; copy the demo's index, each emoji with its group."""
        copies = self.folder / "photos"
        copy_photos(self.photos, copies / "album")
        for place, path in enumerate(sorted((copies / "album").iterdir())[:12:3]):
            with Image.open(path) as image:
                small = image.convert("RGB")
            small.thumbnail((160, 160))
            bright = ImageEnhance.Brightness(small).enhance(1.2)
            for name, copy in (("small", small), ("brighter", bright))[: 1 + place % 2]:
                (copies / name).mkdir(exist_ok=True)
                copy.save(copies / name / f"{path.stem}.png")
        self.run("index", "photos/", "-o", "photos-index/")
        self.run("copy", self.demo, "emoji-index/")
        with genius.Index.open(self.folder / "emoji-index") as index:
            index.update({"id": item.id, "metadata": {"group": group_of(item.id)}} for item in index)

    def run(self, *arguments: object) -> str:
        """What a command prints on a terminal."""
        environment = {**os.environ, "TERM": "dumb", "COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [sys.executable, "-m", "genius", *map(str, arguments)],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
        )
        os.close(theirs)
        printed = b""
        with contextlib.suppress(OSError):  # a terminal that is closed cannot be read
            while block := os.read(ours, 1 << 16):
                printed += block
        os.close(ours)
        process.wait()
        lines = ESCAPES.sub("", printed.decode()).replace("\r\n", "\n").split("\n")
        return "\n".join(line.rpartition("\r")[2] for line in lines if BAR not in line)

    def terminal(self, name: str, *commands: str) -> None:
        """Draw commands as typed, and what they print."""
        lines = []
        for command in commands:
            shown = self.run(*shlex.split(command)).strip("\n")
            lines += [f"<b>$ genius {escape(command)}</b>", escape(shown), ""]
        page = self.browser.new_page(viewport={"width": 1000, "height": 800}, device_scale_factor=1)
        page.set_content(TERMINAL % "\n".join(lines[:-1]))
        self._write(page.locator("pre").screenshot(), name)
        page.close()

    def sheet(self, name: str, *arguments: object) -> None:
        """The contact sheet that a command writes."""
        path = self.folder / f"{name}.png"
        self.run(*arguments, "--sheet", path.name)
        self._write(path.read_bytes(), name)

    def page(self, name: str, index: str, height: int, *, act: Callable[[Any], None]) -> None:
        """The page of an index, after something was done on it."""
        with served(self.folder / index) as address:
            page = self.browser.new_page(viewport={"width": 1180, "height": height}, color_scheme="light")
            page.goto(address)
            act(page)
            page.wait_for_load_state("networkidle")
            self._write(page.screenshot(), name)
            page.close()

    def _write(self, content: bytes, name: str) -> None:
        png = self.folder / "picture.png"
        png.write_bytes(content)
        with Image.open(png) as opened:
            image = opened.convert("RGB")
        self.save(image, name)

    def save(self, image: Image.Image, name: str) -> None:
        """Write a picture into the pages' folder, no larger than needed."""
        if image.width > WIDTH and not name.startswith("page"):
            image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
        path = self.out / f"{name}.jpg"
        image.save(path, quality=QUALITY, optimize=True)
        print(f"{path}: {path.stat().st_size / 1000:.0f} KB")


def copy_photos(photos: Path, folder: Path, most: int | None = None) -> None:
    """Photos under the names that a camera gives."""
    folder.mkdir(parents=True)
    for number, path in enumerate(sorted(photos.iterdir())[:most], 1):
        shutil.copy(path, folder / f"IMG_{number:02}.jpg")


def group_of(id: str) -> str:
    """What kind of thing an emoji shows, by its name.

    >>> group_of("1f431.png"), group_of("1f1fa-1f1ec.png"), group_of("2764.png")
    ('animal', 'flag', 'other')
    """
    number = int(Path(id).stem.split("-")[0], 16)
    for group, ranges in GROUPS.items():
        if any(first <= number <= last for first, last in ranges):
            return group
    return "other"


def take_duplicates(studio: Studio) -> None:
    """Photos beside their copies."""
    studio.sheet("collection-duplicates", "duplicates", "photos-index/")


def take_albums(studio: Studio) -> None:
    """Albums of the emoji."""
    studio.run("albums", "emoji-index/", "-n", "30", "--sheet", "all.png")
    with Image.open(studio.folder / "all.png") as sheet:
        studio.save(
            sheet.convert("RGB").crop((0, 0, sheet.width, sheet.height * 6 // 30)), "collection-albums"
        )


def take_outliers(studio: Studio) -> None:
    """Photos among emoji of food, and two that show nothing."""
    plates = studio.folder / "plates"
    plates.mkdir()
    with genius.Index.open(studio.folder / "emoji-index") as index:
        for item in index.items({"group": "food"}):
            assert item.image_path is not None
            shutil.copy(item.image_path, plates / item.id)
    for number, path in enumerate(sorted(studio.photos.iterdir())[:3], 1):
        shutil.copy(path, plates / f"IMG_{number}.jpg")
    Image.new("RGB", (320, 240), "black").save(plates / "lens cap.jpg")
    Image.new("RGB", (16, 16), "darkred").save(plates / "icon.png")
    studio.run("index", "plates/", "-o", "plates-index/")
    studio.sheet("collection-outliers", "outliers", "plates-index/", "-n", "6")


def take_sample(studio: Studio) -> None:
    """A spread-out sample of the emoji."""
    studio.sheet("collection-sample", "sample", "emoji-index/", "-n", "36")


def take_drift(studio: Studio) -> None:
    """A collection that lost its flags and got animals."""
    for name, gone in (("last-year-index", "animal"), ("this-year-index", "flag")):
        with genius.Index.open(studio.folder / "emoji-index") as index:
            index.split({"group": {"$ne": gone}}, studio.folder / name)
    studio.terminal("collection-drift-verdict", "drift last-year-index/ this-year-index/")
    studio.sheet("collection-drift", "drift", "last-year-index/", "this-year-index/")


def take_sync(studio: Studio) -> None:
    """What a dry run says of a folder in which files came, went and were renamed."""
    album = studio.folder / "trip"
    copy_photos(studio.photos, album, most=7)
    studio.run("index", "trip/", "-o", "trip-index/")
    (album / "old").mkdir()
    (album / "IMG_01.jpg").rename(album / "old/harbour.jpg")
    (album / "IMG_02.jpg").unlink()
    first, second = sorted(studio.photos.iterdir())[-2:]
    shutil.copy(first, album / "IMG_08.jpg")
    shutil.copy(second, album / "IMG_03.jpg")
    studio.terminal("collection-sync", "sync trip-index/ trip/ --dry-run", "sync trip-index/ trip/ --yes")


def take_moves(studio: Studio) -> None:
    """Listing, splitting, merging, exporting and moving to another model."""
    studio.terminal(
        "collection-list",
        "list emoji-index/ --where 'name in pizza,taco,sushi'",
        "list emoji-index/ --where name=piza",
    )
    studio.terminal(
        "collection-split",
        "split emoji-index/ --where group=food -o food-index/ --rest rest-index/",
        "merge food-index/ rest-index/ -o all-index/",
        "merge food-index/ emoji-index/ -o twice-index/",
    )
    studio.terminal(
        "collection-export",
        "export food-index/ backup/food.jsonl --images backup/images",
        "index backup/food.jsonl -o food-again-index/",
    )
    studio.run("fit", "photos/", "--encoder", "photo", "-o", "fitted-model/")
    studio.terminal(
        "collection-recode",
        "recode photos-index/ --model fitted-model/ -o photos-index-2/",
        "recode photos-index/ --model fitted-model/ -o photos-index-2/",
    )


def take_honest(studio: Studio) -> None:
    """A search that finds nothing, and says so; and one on the page, with its line."""
    studio.terminal(
        "collection-honest",
        "search photos-index/ an old aeroplane --at-least likely -k 3",
        "search photos-index/ an X-ray of a wrist --at-least likely",
    )

    def search(page: Any) -> None:
        page.fill("#text", "a red car")
        page.keyboard.press("Enter")
        page.wait_for_selector("#results .divider")

    studio.page("page-nothing", "emoji-index", 960, act=search)


def take_weighted(studio: Studio) -> None:
    """A search, and what adding and taking away makes of it; and the slider on the page."""
    rows = []
    queries = {
        "heart": genius.Query("heart"),
        'heart --minus "a red heart" --weight 0.5': genius.Query("heart").minus("a red heart", 0.5),
        "heart --plus blue": genius.Query("heart").plus("blue"),
    }
    with genius.Index.open(studio.folder / "emoji-index") as index:
        for title, query in queries.items():
            tiles = [tile_of(hit.item, str(hit.item.metadata["name"])) for hit in index.search(query, k=6)]
            rows.append(contact_sheet(tiles, columns=6, title=title))
        apple = next(item.image for item in index.items({"name": "red apple"}))
    studio.save(stack(rows), "collection-weighted")
    assert apple is not None

    def lean(page: Any) -> None:
        file = {"name": "apple.png", "mimeType": "image/png", "buffer": apple.read()}
        page.locator("#file").set_input_files(file)
        page.wait_for_selector("#results .score")
        page.fill("#text", "green")
        page.keyboard.press("Enter")
        page.locator("#balance").fill("70")
        page.locator("#balance").blur()
        page.wait_for_load_state("networkidle")
        page.wait_for_selector("#results:not([aria-busy]) .score")

    studio.page("page-slider", "emoji-index", 760, act=lean)


def take_explore(studio: Studio) -> None:
    """Albums on the page."""

    def explore(page: Any) -> None:
        page.goto(f"{page.url.split('#')[0]}#/explore")
        page.wait_for_selector("#cells .cell img", timeout=60_000)

    studio.page("page-explore", "emoji-index", 760, act=explore)


if __name__ == "__main__":
    main()
