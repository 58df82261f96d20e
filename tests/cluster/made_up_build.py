"""A source with everything that may be wrong with items, and what an index of it holds, as bytes and rows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genius.cluster.build import WorkerSettings, chunk_job, cut_source
from genius.cluster.encoded_chunk import ChunkJob
from genius.data.chunks import Chunk
from genius.data.read import read
from genius.data.records import Item
from genius.index.index import Index
from genius.index.inspect import describe
from genius.index.snapshot import is_index
from genius.model import Model
from tests.pictures import write_square

WIDTH = 16
ITEMS = 1500


def made_up_model(folder: Path) -> Path:
    """A model that takes vectors."""
    vectors = np.random.default_rng(1).normal(size=(300, WIDTH))
    items = [Item(str(row), "text", vector=vector) for row, vector in enumerate(vectors)]
    return Model.fit(items, encoder="precomputed", out=folder / "model").path


def write_source(folder: Path, count: int = ITEMS) -> Path:
    """A table of items; among them a broken line, a repeated id, a missing image and one without a vector."""
    write_square(folder / "red.jpg")
    random, rows = np.random.default_rng(2), []
    for number in range(count):
        row: dict[str, Any] = {"id": f"item {number}", "text": f"text {number}", "number": number}
        row["vector"] = random.normal(size=WIDTH).round(3).tolist()
        if number % 7 == 0:
            row["image"] = "red.jpg"
        rows.append(json.dumps(row))
    poisoned = json.loads(rows[count // 3]) | {"image": "nowhere.jpg"}
    rows[count // 3] = json.dumps(poisoned)
    rows[count // 2] = json.dumps(json.loads(rows[count // 2]) | {"id": "item 5"})
    rows[count // 2 + 1] = "{broken"
    rows[count // 2 + 2] = json.dumps({"id": "bare", "text": "no vector"})
    path = folder / "items.jsonl"
    path.write_text("\n".join(rows) + "\n")
    return path


def job_and_chunks(source: Path, model: Path, size: int) -> tuple[ChunkJob, list[Chunk], WorkerSettings]:
    """What a build needs."""
    collection, opened = read(source), Model.open(model)
    job = chunk_job(collection, opened, "int8")
    return job, cut_source(collection, size), WorkerSettings(job, opened.name, cache=source.parent / "cache")


def new_index(path: Path, model: Path) -> Path:
    """An empty index, unless there is one."""
    if not is_index(path):
        Index.create(path, model).close()
    return path


def index_alone(source: Path, model: Path, path: Path) -> tuple[Path, list[str]]:
    """What `genius index` makes of a source, and what failed."""
    collection = read(source)
    with Index.create(path, model) as index:
        report = index.add(collection, cache=source.parent / "cache")
    return path, sorted(map(str, [*collection.failures.first, *report.failures.first]))


def contents(path: Path) -> tuple[list[tuple[str, bytes]], list[Any]]:
    """All that an index holds: the files of its one segment, and its items by key."""
    describe(path, verify=True)
    with Index.open(path) as index:
        index.compact()
        segments = sorted((path / "segments").iterdir())
        files = [file for segment in segments for file in sorted(segment.iterdir())]
        rows = list(index._catalogue.walk())
        texts = sorted(index._catalogue.text_folders(key for key, _ in rows).items())
    assert len(segments) == 1
    return [(file.name, file.read_bytes()) for file in files if file.name != "manifest.json"], [rows, texts]


def fingerprints(path: Path) -> Sequence[str]:
    """Of the segments, in their order."""
    with Index.open(path) as index:
        return [segment.fingerprint for segment in index._catalogue.segments()]
