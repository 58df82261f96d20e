"""What is damaged: an artifact of each kind, small, with how it is opened, verified and read."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius import storage
from genius.data.content_key import content_key
from genius.encode import feature_cache
from genius.encode.feature_cache import FeatureCache
from genius.encode.features import Features, write_features
from genius.errors import DamagedError
from genius.index.inspect import describe
from genius.model import DEFAULT, Model, model_folder
from tests.encode.toy_encoder import ToyEncoder
from tests.faults.planned_changes import make, plan
from tests.index.made_up_index import open_made_up


@dataclass(frozen=True)
class Specimen:
    """An artifact.

    Attributes:
        name: of its kind.
        path: where it is.
        verify: checks every byte; raises GeniusError for damage.
        read: opens it as users do and gives all that it holds; raises GeniusError for damage.
        refused: whether opening finds every damage; otherwise, what verifying leaves out must change nothing.
    """

    name: str
    path: Path
    verify: Callable[[], object]
    read: Callable[[], object]
    refused: bool

    def files(self) -> list[Path]:
        """Its files with content, but for locks and what SQLite makes anew."""
        found = [self.path] if self.path.is_file() else sorted(self.path.rglob("*"))
        return [
            path
            for path in found
            if path.is_file() and path.stat().st_size and not path.name.endswith(("-shm", ".lock"))
        ]

    def copy(self, folder: Path) -> Path:
        """A copy of it in a folder, which is emptied before."""
        target = folder / self.path.name
        shutil.rmtree(target, ignore_errors=True)
        target.unlink(missing_ok=True) if target.is_file() else None
        shutil.copytree(self.path, target) if self.path.is_dir() else shutil.copyfile(self.path, target)
        return target


def of_index(path: Path) -> Specimen:
    """An index: its catalogue, segments and background."""
    return Specimen("index", path, lambda: describe(path, verify=True), lambda: index_content(path), False)


def index_content(path: Path) -> object:
    """All rows of the catalogue, and what a search finds."""
    with open_made_up(path) as index:
        hits = [(hit.item.id, hit.score, hit.item.text) for hit in index.search("text", k=999)]
    connection = sqlite3.connect(path / "catalogue.sqlite")
    try:
        return list(connection.iterdump()), hits
    except sqlite3.Error as error:
        raise DamagedError(f"{path}: {error}") from error
    finally:
        connection.close()


def of_artifact(name: str, path: Path, opened: Callable[[Path], object]) -> Specimen:
    """An artifact with a manifest."""
    return Specimen(name, path, lambda: storage.open(path, verify=True), lambda: opened(path), True)


def write_index(path: Path, seed: int, *, checkpoint: bool = True) -> Path:
    """An index after random changes, with its write-ahead log in the database or beside it."""
    make(path, [*plan(seed, []), *plan(seed + 1, [])], lambda: None)
    if not checkpoint:
        aside = path.with_name("aside")
        with open_made_up(path) as index:
            index.update([{"id": item.id, "metadata": {"later": 1}} for item in index])
            shutil.copytree(path, aside)  # as a crash would leave it: closing empties the log
        shutil.rmtree(path)
        aside.rename(path)
    return path


def write_all(folder: Path) -> Iterator[tuple[str, Path]]:
    """Write a specimen of each kind; gives their kinds and places."""
    yield "index", write_index(folder / "index", 3)
    yield "index, log not emptied", write_index(folder / "logged", 3, checkpoint=False)
    dice = np.random.default_rng(0)
    images = dice.normal(size=(40, 3)).astype(np.float16)
    texts = dice.normal(size=(60, 2)).astype(np.float16)
    toy = ToyEncoder(folder / "diary")
    names, words = [f"{n}.jpg" for n in range(40)], [f"text {n}" for n in range(60)]
    write_features(folder / "features", toy, "digest", (names, images), (words, texts))
    yield "features", folder / "features"
    shutil.copytree(model_folder(DEFAULT), folder / "model")
    yield "model", folder / "model"


def specimen(kind: str, path: Path) -> Specimen:
    """The specimen of a kind at a place."""
    if kind.startswith("index"):
        return of_index(path)
    if kind == "features":
        return of_artifact(kind, path, lambda place: Features.open(place).images.sum())
    return of_artifact(kind, path, lambda place: Model.open(place).quantizer.codebooks)


# --- the feature cache

CACHE_WIDTH = 8
feature_cache.RECENT = 16  # so that the few features of a trial are in the index of keys, too


def write_cache(path: Path, count: int = 50) -> dict[bytes, bytes]:
    """A cache of made-up features; gives what it holds."""
    keys = [content_key(str(number).encode()) for number in range(count)]
    rows = np.random.default_rng(0).normal(size=(count, CACHE_WIDTH)).astype(np.float16)
    with FeatureCache(path, CACHE_WIDTH) as cache:
        cache.add(keys, rows)
    return {key: row.tobytes() for key, row in zip(keys, rows, strict=True)}


def altered_rows(path: Path, held: dict[bytes, bytes]) -> int:
    """How many features a cache gives other than they were."""
    with FeatureCache(path, CACHE_WIDTH) as cache:
        keys = list(held)
        missing = set(cache.missing(keys))
        there = [key for place, key in enumerate(keys) if place not in missing]
        rows = cache.rows(there)
    return sum(row.tobytes() != held[key] for key, row in zip(there, rows, strict=True))
