"""Other people's systems over the same items: Hugging Face's `generate`, faiss and usearch.

They are made as their documents advise. What would not fit in time or memory holds a sample of the items, and
its row says so: a library that is faster with fewer items is not made to look slower than it is.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench.timing import System
from genius.bench.world import BLOCK, World
from genius.errors import require
from genius.progress import bar

PURPOSE = "measuring speed beside others"
TRAINING = 100_000  # rows that a faiss index is trained on, at most
PROBES = 50
LINKS, EFFORT = 16, 64


def hugging_face(world: World, *, items: int, beams: int = 50, seed: int = 0) -> System:
    """T5-small's decoder under `generate` with beams, held to codes that exist by nested dictionaries.

    Its weights are random. The dictionary holds at most `items` items.
    """
    torch = require("torch", "bench", PURPOSE)
    transformers = require("transformers", "bench", PURPOSE)
    random = np.random.default_rng(seed)
    sizes = [len(book) for book in world.codebooks]
    offsets = 1 + np.cumsum([0, *sizes[:-1]])
    chosen = np.sort(random.choice(len(world), min(items, len(world)), replace=False))
    start = time.process_time()
    tree = _tree(world.codes(chosen) + offsets)
    build_s = time.process_time() - start
    config = transformers.T5Config(
        vocab_size=1 + sum(sizes), num_layers=6, num_decoder_layers=6, decoder_start_token_id=0,
        pad_token_id=0, eos_token_id=None, dropout_rate=0.0,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.T5ForConditionalGeneration(config).eval()
    prefix = torch.nn.Linear(world.vectors.shape[1], 30 * config.d_model)

    def allowed(_: int, tokens: Any) -> list[int]:
        node = tree
        for token in tokens[1:].tolist():
            node = node[token]
        return list(node)

    def run(queries: np.ndarray) -> None:
        with torch.inference_mode(), warnings.catch_warnings(), _one_thread(torch):
            warnings.simplefilter("ignore")
            states = prefix(torch.from_numpy(world.vectors[queries])).view(len(queries), 30, config.d_model)
            read = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=states)
            model.generate(
                encoder_outputs=read,
                num_beams=beams,
                num_return_sequences=beams,
                max_new_tokens=len(sizes),
                do_sample=False,
                prefix_allowed_tokens_fn=allowed,
            )

    return System("HF generate", run, clock=time.process_time, build_s=build_s, items=len(chosen))


@contextlib.contextmanager
def _one_thread(torch: Any) -> Iterator[None]:
    """Torch has threads of its own, which others in this process may want."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _tree(tokens: np.ndarray) -> dict[int, Any]:
    root: dict[int, Any] = {}
    for row in tokens.tolist():
        node = root
        for token in row:
            node = node.setdefault(token, {})
    return root


def faiss_systems(world: World, *, graph_items: int, k: int = 10) -> list[System]:
    """Flat in bytes, IVF in bytes over cells of its own and over ours, and HNSW in bytes over a sample.

    A trained model's cells lie among fused vectors and not among embeddings, so only made-up items have ours.
    """
    faiss = require("faiss", "bench", PURPOSE)
    width, count = world.width, len(world)
    product = faiss.METRIC_INNER_PRODUCT
    cells = max(1, min(round(4 * count**0.5), min(count, TRAINING) // 39))
    made = []
    indexes = [
        (
            "faiss flat 8 bit",
            faiss.IndexScalarQuantizer(width, faiss.ScalarQuantizer.QT_8bit, product),
            count,
        ),
        (f"faiss IVF{cells},SQ8", faiss.index_factory(width, f"IVF{cells},SQ8", product), count),
        (
            f"faiss HNSW{LINKS},SQ8",
            faiss.index_factory(width, f"HNSW{LINKS},SQ8", product),
            min(graph_items, count),
        ),
    ]
    if world.made_up:
        indexes.append(("faiss IVF,SQ8 on our cells", _our_cells(faiss, world), count))
    for name, index, items in indexes:
        if hasattr(index, "nprobe"):
            index.nprobe = min(PROBES, index.nlist)
        if hasattr(index, "hnsw"):
            index.hnsw.efSearch = EFFORT
        start = time.process_time()
        index.train(world.embeddings(_evenly(count, min(items, TRAINING))))
        _fill(name, world, items, index.add)
        build_s = time.process_time() - start
        size = _size(faiss, index)

        def run(queries: np.ndarray, index: Any = index) -> np.ndarray:
            return np.asarray(index.search(world.query_embeddings[queries], k)[1])

        made.append(
            System(name, run, 1, time.process_time, bytes_per_item=size / items, build_s=build_s, items=items)
        )
    return made


def _our_cells(faiss: Any, world: World) -> Any:
    """An IVF index whose cells are those of our first semantic codes."""
    seen = [np.unique(world.codes(np.arange(start, min(start + BLOCK, len(world))))[:, :2], axis=0)
            for start in range(0, len(world), BLOCK)]  # fmt: skip
    cells = np.unique(np.concatenate(seen), axis=0)
    centroids = world.codebooks[0][cells[:, 0]] + world.codebooks[1][cells[:, 1]]
    coarse = faiss.IndexFlatIP(world.width)
    coarse.add(np.ascontiguousarray(centroids / np.linalg.norm(centroids, axis=1, keepdims=True)))
    product, kind = faiss.METRIC_INNER_PRODUCT, faiss.ScalarQuantizer.QT_8bit
    return faiss.IndexIVFScalarQuantizer(coarse, world.width, len(cells), kind, product)


def _size(faiss: Any, index: Any) -> int:
    """How many bytes of a file an index takes."""
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as folder:
        faiss.write_index(index, f"{folder}/index")
        return Path(folder, "index").stat().st_size


def usearch_system(world: World, *, items: int, k: int = 10) -> System:
    """HNSW of usearch in bytes, over a sample."""
    usearch = require("usearch.index", "bench", PURPOSE)
    items = min(items, len(world))
    index = usearch.Index(
        ndim=world.width, metric="cos", dtype="i8", connectivity=LINKS, expansion_add=EFFORT,
        expansion_search=EFFORT,
    )  # fmt: skip
    place = 0

    def add(rows: np.ndarray) -> None:
        nonlocal place
        index.add(np.arange(place, place + len(rows)), rows, threads=1)
        place += len(rows)

    start = time.process_time()
    _fill("usearch HNSW i8", world, items, add)
    build_s = time.process_time() - start

    def run(queries: np.ndarray) -> np.ndarray:
        found = index.search(world.query_embeddings[queries], k, threads=1)
        return np.asarray(found.keys).astype(np.int64).reshape(len(queries), -1)

    return System(
        "usearch HNSW i8",
        run,
        1,
        time.process_time,
        bytes_per_item=index.serialized_length / items,
        build_s=build_s,
        items=items,
    )


def _fill(name: str, world: World, items: int, add: Callable[[np.ndarray], Any]) -> None:
    """Give a library its items a block at a time; a sample is taken evenly."""
    rows = _evenly(len(world), items)
    with bar(f"making {name}", total=items) as shown:
        for start in range(0, items, BLOCK):
            some = rows[start : start + BLOCK]
            add(world.embeddings(some))
            shown.advance(len(some))


def _evenly(count: int, items: int) -> np.ndarray:
    """So many of `count` rows, evenly spread."""
    return np.arange(items) * count // items
