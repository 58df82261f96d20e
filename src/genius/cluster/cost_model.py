"""`genius plan`: what a collection takes on a number of machines, from what an item takes on this one.

Measured here and now, by processor time of one core: encoding and coding items, and searching. Counted:
bytes. Taken from a data sheet: the rate of a GPU. Everything else is extrapolated: that machines share the
work evenly, that a search of more items takes longer by the depth of a binary search, that disks keep up.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import get_args

import numpy as np

from genius.data.records import ImageBytes, Item
from genius.errors import InputError, require
from genius.index.item_encoder import item_encoder
from genius.index.segments import KeptEmbeddings
from genius.model import Model
from genius.search.codes import PackedCodes
from genius.search.engine import Engine
from genius.search.segment_view import SegmentView

SAMPLE = 32
"""How many made-up items are encoded to see how long one takes."""
SEARCHED = 100_000
"""Items that are searched to see how long a query takes."""
QUERIES = 64
SIDE = 512
"""Pixels of a made-up image's side."""
COMMIT_SECONDS = 3.0
"""Of a million items on the driver: measured by benchmarks/cluster.py, in chunks of 40,000."""
ENTRY_BYTES = 113
"""Of an item in the catalogue, besides its text and metadata: measured in one of 104,533 items, most of them
with the path of an image, of 43 bytes."""
CHUNKS_WAITING = 4
"""Of each worker, encoded and not yet committed, at most."""
HOUR = 3600.0


@dataclass(frozen=True)
class Measured:
    """What an item and a query take on one core of this machine.

    Attributes:
        items_per_second: encoded and coded, each an image with a text (or a vector).
        queries_per_second: among `SEARCHED` items in the mode `fast`, without embedding the query.
        code_bytes: of a packed code.
        width: numbers of an embedding.
    """

    items_per_second: float
    queries_per_second: float
    code_bytes: float
    width: int


@dataclass(frozen=True)
class Machines:
    """The machines of a cluster, all alike; `gpu_items` are the items that one GPU encodes a second."""

    count: int
    cores: int
    gpus: int = 0
    gpu_items: float = 0.0

    def items_per_second(self, measured: Measured) -> float:
        """Of all together."""
        each = self.gpus * self.gpu_items if self.gpus else self.cores * measured.items_per_second
        return self.count * each


@dataclass(frozen=True)
class Estimate:
    """What an index takes, with a choice of embeddings.

    Attributes:
        embeddings: which are kept.
        segments: bytes on disk of codes, keys and embeddings.
        catalogue: bytes on disk of the items themselves.
        memory: bytes that searches read again and again, of a machine that holds one shard.
        waiting: bytes on disk of chunks that wait to be committed, at most.
        encoding: hours until all is encoded.
        committing: hours of the driver of one shard, at the same time.
        queries: a second, of all machines, each query being asked of every shard.
    """

    embeddings: KeptEmbeddings
    segments: float
    catalogue: float
    memory: float
    waiting: float
    encoding: float
    committing: float
    queries: float


def measure(model: Model) -> Measured:
    """What an item and a query take here, in some seconds."""
    packed, searched = _search(model)
    return Measured(_encode(model), searched, packed, model.width)


def _encode(model: Model) -> float:
    items, seconds = _made_up_items(model), []
    with (
        tempfile.TemporaryDirectory() as cache,
        item_encoder(Model.open(model.name, threads=1), Path(cache), workers=1) as encode,
    ):
        for _ in range(3):  # the first time, everything is loaded
            begun = time.process_time()
            encode(items)
            seconds.append(time.process_time() - begun)
    return len(items) / max(min(seconds), 1e-9)


def _made_up_items(model: Model) -> list[Item]:
    """Images of noise with texts; or vectors, for a model that takes these."""
    from PIL import Image

    random = np.random.default_rng(0)
    if model.takes_vectors:
        return [Item(str(n), vector=random.normal(size=model.width)) for n in range(100 * SAMPLE)]
    items = []
    for number in range(SAMPLE):
        coarse = Image.fromarray(random.integers(0, 256, (24, 24, 3), np.uint8))
        file = BytesIO()
        coarse.resize((SIDE, SIDE)).save(file, "JPEG")
        text = f"a made-up image number {number}, of noise and nothing else"
        items.append(Item(str(number), text, ImageBytes(file.getvalue())))
    return items


def _search(model: Model) -> tuple[float, float]:
    """Bytes of a packed code, and queries a second, of made-up codes."""
    random, space = np.random.default_rng(0), model.code_space
    codes = np.stack([random.integers(0, size, SEARCHED) for size in space.sizes], axis=1)
    packed, _ = PackedCodes.build(codes, space.sizes, space.semantic)
    size = sum(array.nbytes for array in packed.arrays().values()) / SEARCHED
    if not model.has_code_vectors:
        return size, math.nan
    embeddings = random.normal(size=(SEARCHED, model.width)).astype(np.float16)
    engine = Engine(
        [SegmentView(packed, embeddings=embeddings)], model.geometry_for(embeddings[:1], codes[:1])
    )
    vectors = random.normal(size=(QUERIES, model.vector_width)).astype(np.float32)
    queries = random.normal(size=(QUERIES, model.width)).astype(np.float32)
    seconds = []
    for _ in range(3):  # the first time, loops are compiled
        begun = time.process_time()
        engine.search(vectors, queries, mode="fast", modality_code=np.full(QUERIES, 0))
        seconds.append(time.process_time() - begun)
    return size, QUERIES / max(min(seconds), 1e-9)


def estimate(
    items: float,
    measured: Measured,
    machines: Machines,
    *,
    shards: int,
    text_bytes: float = 100.0,
    chunk_items: float = 1e6,
) -> list[Estimate]:
    """What `items` take on these machines, for each choice of embeddings.

    Args:
        items: how many.
        measured: what one takes.
        machines: what they are spread over.
        shards: indexes that they are spread over, each built by a driver of its own.
        text_bytes: of an item's text and metadata.
        chunk_items: of a chunk.

    Raises InputError for what can't be.
    """
    if items < 1 or machines.count < 1 or machines.cores < 1 or not 1 <= shards <= items:
        raise InputError("a plan needs at least one item, one machine with a core, and one shard")
    workers = machines.count * (machines.gpus or machines.cores)
    key_bytes = 4 if items / shards < 2**32 else 8
    depth = math.log2(max(2.0, items / shards)) / math.log2(SEARCHED)
    estimates = []
    for kept in get_args(KeptEmbeddings):
        embeddings = {"int8": 3, "fp16": 2, "none": 0}[kept] * measured.width
        segment = measured.code_bytes + key_bytes + 4 + embeddings
        hot = measured.code_bytes + 4 + {"int8": 1, "fp16": 2, "none": 0}[kept] * measured.width
        estimates.append(
            Estimate(
                kept,
                segments=items * segment,
                catalogue=items * (ENTRY_BYTES + text_bytes),
                memory=items * hot / min(shards, machines.count),
                waiting=CHUNKS_WAITING
                * workers
                * min(chunk_items, items)
                * (segment + ENTRY_BYTES + text_bytes),
                encoding=items / machines.items_per_second(measured) / HOUR,
                committing=items / shards / 1e6 * COMMIT_SECONDS / HOUR,
                queries=machines.count * machines.cores * measured.queries_per_second / depth / shards,
            )
        )
    return estimates


def gpu_items_per_second(model: Model, gpu: str) -> float:
    """Images with texts that a GPU of this name encodes a second, by its data sheet and the model's towers.

    Raises InputError for a model that runs on processors only.
    """
    if model.settings["encoder"]["kind"] != "clip":
        raise InputError(
            f"the towers of {model.name} run on processors: leave --gpus out, or choose a model whose towers "
            "are a CLIP"
        )
    require("torch", "train", "counting a GPU's operations")
    from genius.train.cost import UTILISATION, clip_sizes, find_gpu

    shape = clip_sizes(model.settings["encoder"]["source"] or str(model.path / "towers"))
    return UTILISATION * 1e12 * find_gpu(gpu).bfloat16 / (2 * (shape.image.macs + shape.text.macs))


def rows_of(estimates: Sequence[Estimate]) -> list[list[str]]:
    """The estimates as a table's rows: of each figure, its name and a value for each choice."""

    def size(value: float) -> str:
        return f"{value / 1e9:,.1f} GB" if value < 1e12 else f"{value / 1e12:,.2f} TB"

    return [
        ["embeddings", *(each.embeddings for each in estimates)],
        ["segments on disk", *(size(each.segments) for each in estimates)],
        ["catalogues on disk", *(size(each.catalogue) for each in estimates)],
        ["memory of a machine", *(size(each.memory) for each in estimates)],
        ["chunks that wait, at most", *(size(each.waiting) for each in estimates)],
        ["hours to encode", *(f"{each.encoding:,.1f}" for each in estimates)],
        ["hours to commit, meanwhile", *(f"{each.committing:,.1f}" for each in estimates)],
        ["queries a second", *(f"{each.queries:,.0f}" for each in estimates)],
    ]
