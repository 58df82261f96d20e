"""The demo corpus in small: made-up packages, and a registry that delivers them."""

from __future__ import annotations

import functools
import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

import orjson
import pytest

from genius import download
from genius.data.mbeir import SPLITS
from genius.data.records import ImageFile, ImageSource
from genius.demo import corpus
from genius.demo.emoji import split_of
from genius.download import Package
from tests.demo.entries import RUNNERS, entry
from tests.tarballs import tarball


def made_up_entries() -> list[dict[str, Any]]:
    """Runners, a few more kinds of people in three genders for every split, and things."""
    entries = list(RUNNERS)
    for n in codes_for_every_split("1f9d1-f{:03}", each=2):
        tags = (f"trade{n}", f"tool{n}", "people")
        entries.append(entry(f"1F9D1-200D-F{n:03}", f"worker{n}", *tags, tones=True))
        entries.append(entry(f"1F469-200D-F{n:03}", f"woman worker{n}", *tags, tones=True))
        entries.append(entry(f"1F468-200D-F{n:03}", f"man worker{n}", *tags, tones=True))
    things = codes_for_every_split("e{:03}", each=4)
    return entries + [
        entry(f"E{n:03}", f"thing{n}", f"use{n}", f"place{n}", "object", subgroup=70) for n in things
    ]


def codes_for_every_split(family: str, each: int) -> list[int]:
    """Numbers whose families are in each split `each` times."""
    numbers = {split: [n for n in range(200) if split_of(family.format(n)) == split] for split in SPLITS}
    return [n for split in SPLITS for n in numbers[split][:each]]


ENTRIES = made_up_entries()


def made_up_packages() -> dict[str, bytes]:
    """The four packages' tarballs by the packages' names."""
    codes = [form["hexcode"].lower() for base in ENTRIES for form in (base, *base["skins"])]

    def drawings(vendor: str, pattern: str) -> bytes:
        images = {"package/" + pattern.format(code): f"{vendor} {code}".encode() for code in codes}
        return tarball({"package/LICENSE": b"free", **images})

    return {
        "emojibase-data": tarball(
            {"package/en/data.json": orjson.dumps(ENTRIES), "package/fr/data.json": b"[]"}
        ),
        "emoji-datasource-google": drawings("noto", "img/google/64/{}.png"),
        "emoji-datasource-twitter": drawings("twemoji", "img/twitter/64/{}.png"),
        "@lobehub/fluent-emoji-3d": drawings("fluent", "assets/{}.webp"),
    }


class Registry:
    """A registry of the made-up packages that counts the requests for each."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.requests: Counter[str] = Counter()
        self.fetch = functools.partial(download.fetch, download=self.download)

    def download(self, package: Package, folder: Path) -> Path:
        self.requests[package.name] += 1
        path = folder / "fresh.tgz"
        path.write_bytes(self.contents[package.name])
        return path


def made_up_registry(patch: pytest.MonkeyPatch) -> Registry:
    """A registry of the made-up packages, whose checksums are then the expected ones."""
    contents = made_up_packages()

    def pinned(package: Package) -> Package:
        return Package(package.name, package.version, hashlib.sha256(contents[package.name]).hexdigest())

    patch.setattr(corpus, "NAMES", pinned(corpus.NAMES))
    patch.setattr(corpus, "IMAGES", {vendor: pinned(package) for vendor, package in corpus.IMAGES.items()})
    return Registry(contents)


def key_of(image: ImageSource | None) -> str:
    return _path_of(image).stem


def vendor_of(image: ImageSource | None) -> str:
    return _path_of(image).parent.name


def _path_of(image: ImageSource | None) -> Path:
    assert isinstance(image, ImageFile), "records of the corpus have files for images"
    return Path(image.path)
