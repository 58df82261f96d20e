"""Other people's systems over the same items: Hugging Face's `generate`, faiss, usearch and sqlite-vec.

They are built as their documentation advises. Where all items would take too long or too much memory, a
system holds a sample, and its row says so: a library that is faster with fewer items is not made to look
slower than it is.
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

from genius.bench.timing import TimedSystem, TunedSystem
from genius.bench.world import BLOCK, World
from genius.errors import require
from genius.progress import bar

PURPOSE = "measuring speed beside others"
TRAINING_ROWS = 100_000
"""A faiss index is trained on this many items at most."""
POINTS_PER_CENTROID = 39
"""Training points per centroid below which faiss warns."""
PROBES = 50
"""IVF cells that a query looks at."""
HNSW_LINKS, HNSW_EFFORT = 16, 64
PQ_BYTES = 32
EFFORTS = (10, 20, 40, 80, 160, 320)
"""How many neighbours a search of a graph keeps in view."""
REFINED = 10
"""So many times k candidates of product quantization are compared again."""


def hugging_face_system(world: World, *, items: int, beams: int = 50, seed: int = 0) -> TimedSystem:
    """T5-small's decoder under `generate` with beam search, restricted to existing codes by nested dicts.

    Its weights are random. The dictionary holds at most `items` items.
    """
    torch = require("torch", "bench", PURPOSE)
    transformers = require("transformers", "bench", PURPOSE)
    random = np.random.default_rng(seed)
    sizes = world.code_sizes
    offsets = 1 + np.cumsum([0, *sizes[:-1]])
    chosen = np.sort(random.choice(len(world), min(items, len(world)), replace=False))
    start = time.process_time()
    trie = _nested_dicts(world.item_codes(chosen) + offsets)
    build_s = time.process_time() - start
    config = transformers.T5Config(
        vocab_size=1 + sum(sizes), num_layers=6, num_decoder_layers=6, decoder_start_token_id=0,
        pad_token_id=0, eos_token_id=None, dropout_rate=0.0,
    )  # fmt: skip
    torch.manual_seed(seed)
    model = transformers.T5ForConditionalGeneration(config).eval()
    to_prefix = torch.nn.Linear(world.query_vectors.shape[1], 30 * config.d_model)

    def allowed_tokens(_: int, tokens: Any) -> list[int]:
        node = trie
        for token in tokens[1:].tolist():
            node = node[token]
        return list(node)

    def run(queries: np.ndarray) -> None:
        with torch.inference_mode(), warnings.catch_warnings(), _one_torch_thread(torch):
            warnings.simplefilter("ignore")
            vectors = torch.from_numpy(world.query_vectors[queries])
            prefix = to_prefix(vectors).view(len(queries), 30, config.d_model)
            encoded = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=prefix)
            model.generate(
                encoder_outputs=encoded,
                num_beams=beams,
                num_return_sequences=beams,
                max_new_tokens=len(sizes),
                do_sample=False,
                prefix_allowed_tokens_fn=allowed_tokens,
            )

    return TimedSystem("HF generate", run, clock=time.process_time, build_s=build_s, num_items=len(chosen))


@contextlib.contextmanager
def _one_torch_thread(torch: Any) -> Iterator[None]:
    """Limit torch to one thread, and give other users of this process theirs back afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _nested_dicts(tokens: np.ndarray) -> dict[int, Any]:
    """The trie of token sequences [n, levels] as dictionaries of dictionaries."""
    root: dict[int, Any] = {}
    for sequence in tokens.tolist():
        node = root
        for token in sequence:
            node = node.setdefault(token, {})
    return root


def faiss_systems(world: World, *, graph_items: int, k: int = 10) -> list[TimedSystem]:
    """Flat, IVF and HNSW over 8-bit embeddings, and IVF-PQ; the HNSW graph holds at most `graph_items`.

    Over synthetic items also IVF on our own cells: a trained model's cells lie among fused vectors and not
    among embeddings, so they would not fit there.
    """
    faiss = require("faiss", "bench", PURPOSE)
    count, product = len(world), faiss.METRIC_INNER_PRODUCT
    cells = max(1, min(round(4 * count**0.5), min(count, TRAINING_ROWS) // POINTS_PER_CENTROID))
    pieces, bits = product_quantizer(world.width, count)
    flat = faiss.IndexScalarQuantizer(world.width, faiss.ScalarQuantizer.QT_8bit, product)
    indexes = {"faiss flat 8 bit": flat}
    # np: no polysemous training, which takes minutes and serves another kind of search
    for factory in (f"IVF{cells},SQ8", f"IVF{cells},PQ{pieces}x{bits}np", f"HNSW{HNSW_LINKS},SQ8"):
        indexes[f"faiss {factory}"] = faiss.index_factory(world.width, factory, product)
    if world.synthetic:
        indexes["faiss IVF,SQ8 on our cells"] = _ivf_on_our_cells(faiss, world)
    return [
        _faiss_system(faiss, name, index, world, min(graph_items, count) if "HNSW" in name else count, k)
        for name, index in indexes.items()
    ]


def tuned_systems(world: World, k: int = 10) -> list[TunedSystem]:
    """faiss' and usearch's systems over all items, each with its own knob: HNSW in 8 bits and in single
    precision, IVF, IVF-PQ whose best are compared again by 8-bit embeddings, and usearch's HNSW; and
    sqlite-vec, which has none, as it compares all items."""
    faiss = require("faiss", "bench", PURPOSE)
    count, product = len(world), faiss.METRIC_INNER_PRODUCT
    cells = max(1, min(round(4 * count**0.5), min(count, TRAINING_ROWS) // POINTS_PER_CENTROID))
    pieces, bits = product_quantizer(world.width, count)
    probes = tuple(value for value in (1, 2, 5, 10, 20, 50, 100) if value <= cells)
    tuned = []
    for factory, knob, values in (
        (f"HNSW{HNSW_LINKS},SQ8", "efSearch", EFFORTS),
        (f"HNSW{HNSW_LINKS},Flat", "efSearch", EFFORTS),
        (f"IVF{cells},SQ8", "nprobe", probes),
        (f"IVF{cells},PQ{pieces}x{bits}np,Refine(SQ8)", "nprobe", probes),
    ):
        index = faiss.index_factory(world.width, factory, product)
        if factory.startswith("HNSW"):
            index.hnsw.efConstruction = HNSW_EFFORT
        else:
            # np: no polysemous training, which takes minutes and serves another kind of search
            faiss.extract_index_ivf(index).cp.seed = 0
        if "Refine" in factory:
            index.k_factor = REFINED
        system = _faiss_system(faiss, f"faiss {factory}", index, world, count, k)
        tuned.append(TunedSystem(system, knob, values, _faiss_tuner(faiss, index, knob)))
    sqlite_vec = TunedSystem(sqlite_vec_system(world, k), "", (0,), lambda _: None)
    return [*tuned, _usearch_tuned(world, k), sqlite_vec]


def _faiss_tuner(faiss: Any, index: Any, knob: str) -> Callable[[int], None]:
    """Sets the knob of an index: a graph's effort, or how many cells are looked at."""

    def tune(value: int) -> None:
        if knob == "nprobe":
            faiss.extract_index_ivf(index).nprobe = value
        else:
            index.hnsw.efSearch = value

    return tune


def product_quantizer(width: int, training_rows: int) -> tuple[int, int]:
    """Pieces, and bits per piece, of a product quantizer of 32 bytes, or less where the data allow no more.

    >>> product_quantizer(512, 100_000), product_quantizer(24, 700)
    ((32, 8), (8, 4))
    """
    pieces = next(pieces for pieces in (PQ_BYTES, 16, 8, 4, 2, 1) if width % pieces == 0)
    return pieces, 8 if training_rows >= POINTS_PER_CENTROID * 256 else 4


def _faiss_system(faiss: Any, name: str, index: Any, world: World, items: int, k: int) -> TimedSystem:
    """Train and fill an index, and wrap it."""
    if hasattr(index, "nprobe"):
        index.nprobe = min(PROBES, index.nlist)
    if hasattr(index, "hnsw"):
        index.hnsw.efSearch = HNSW_EFFORT
    start = time.process_time()
    index.train(world.item_embeddings(_evenly_spread(len(world), min(items, TRAINING_ROWS))))
    _fill(name, world, items, index.add)
    build_s = time.process_time() - start

    def run(queries: np.ndarray) -> np.ndarray:
        return np.asarray(index.search(world.query_embeddings[queries], k)[1])

    return TimedSystem(
        name,
        run,
        clock=time.process_time,
        bytes_per_item=_file_size(faiss, index) / items,
        build_s=build_s,
        num_items=items,
    )


def _ivf_on_our_cells(faiss: Any, world: World) -> Any:
    """An IVF index whose cells are those of our modality and first semantic codes."""
    blocks = [
        np.unique(world.item_codes(np.arange(start, min(start + BLOCK, len(world))))[:, :2], axis=0)
        for start in range(0, len(world), BLOCK)
    ]
    cells = np.unique(np.concatenate(blocks), axis=0)
    centroids = world.codebooks[0][cells[:, 0]] + world.codebooks[1][cells[:, 1]]
    coarse = faiss.IndexFlatIP(world.width)
    coarse.add(np.ascontiguousarray(centroids / np.linalg.norm(centroids, axis=1, keepdims=True)))
    product, kind = faiss.METRIC_INNER_PRODUCT, faiss.ScalarQuantizer.QT_8bit
    return faiss.IndexIVFScalarQuantizer(coarse, world.width, len(cells), kind, product)


def _file_size(faiss: Any, index: Any) -> int:
    """The bytes that an index takes as a file."""
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as folder:
        faiss.write_index(index, f"{folder}/index")
        return Path(folder, "index").stat().st_size


def usearch_system(world: World, *, items: int, k: int = 10) -> TimedSystem:
    """usearch's HNSW over int8 embeddings of at most `items` items."""
    return _usearch(world, min(items, len(world)), k)[0]


def _usearch_tuned(world: World, k: int) -> TunedSystem:
    """The same over all items, with the effort of a search as its knob."""
    system, index = _usearch(world, len(world), k)

    def tune(value: int) -> None:
        index.expansion_search = value

    return TunedSystem(system, "expansion", EFFORTS, tune)


def _usearch(world: World, items: int, k: int) -> tuple[TimedSystem, Any]:
    """The system, and its index."""
    usearch = require("usearch.index", "bench", PURPOSE)
    name = "usearch HNSW i8"
    index = usearch.Index(
        ndim=world.width, metric="cos", dtype="i8", connectivity=HNSW_LINKS, expansion_add=HNSW_EFFORT,
        expansion_search=HNSW_EFFORT,
    )  # fmt: skip

    def add(embeddings: np.ndarray) -> None:
        index.add(np.arange(len(index), len(index) + len(embeddings)), embeddings, threads=1)

    start = time.process_time()
    _fill(name, world, items, add)
    build_s = time.process_time() - start

    def run(queries: np.ndarray) -> np.ndarray:
        matches = index.search(world.query_embeddings[queries], k, threads=1)
        return np.asarray(matches.keys).astype(np.int64).reshape(len(queries), -1)

    system = TimedSystem(
        name,
        run,
        clock=time.process_time,
        bytes_per_item=index.serialized_length / items,
        build_s=build_s,
        num_items=items,
    )
    return system, index


def sqlite_vec_system(world: World, k: int = 10) -> TimedSystem:
    """sqlite-vec's exhaustive search over int8 embeddings, in a database in memory.

    Python's own sqlite3 often can't load extensions, so it runs in that of apsw.
    """
    apsw = require("apsw", "bench", PURPOSE)
    name, most = "sqlite-vec i8", np.abs(world.item_embeddings(_evenly_spread(len(world), 1000))).max()

    def in_bytes(embeddings: np.ndarray) -> np.ndarray:
        return np.asarray(np.clip(np.rint(embeddings * (127 / most)), -127, 127), np.int8)

    database = apsw.Connection(":memory:")
    database.enable_load_extension(True)
    database.load_extension(require("sqlite_vec", "bench", PURPOSE).loadable_path())
    kind = f"int8[{world.width}] distance_metric=cosine"
    database.execute(f"CREATE VIRTUAL TABLE items USING vec0(embedding {kind})")

    def add(embeddings: np.ndarray) -> None:
        with database:
            rows = ((row.tobytes(),) for row in in_bytes(embeddings))
            database.executemany("INSERT INTO items(embedding) VALUES (vec_int8(?))", rows)

    start = time.process_time()
    _fill(name, world, len(world), add)
    build_s = time.process_time() - start
    ((num_bytes,),) = database.execute(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"
    )
    nearest = "SELECT rowid - 1 FROM items WHERE embedding MATCH vec_int8(?) AND k = ?"

    def run(queries: np.ndarray) -> np.ndarray:
        rows = [
            [row for (row,) in database.execute(nearest, (query.tobytes(), k))]
            for query in in_bytes(world.query_embeddings[queries])
        ]
        return np.array(rows, np.int64)

    bytes_per_item = num_bytes / len(world)
    return TimedSystem(name, run, clock=time.process_time, bytes_per_item=bytes_per_item, build_s=build_s)


def _fill(name: str, world: World, items: int, add: Callable[[np.ndarray], Any]) -> None:
    """Give a library its items block by block; a sample is spread evenly over all."""
    rows = _evenly_spread(len(world), items)
    with bar(f"making {name}", total=items) as shown:
        for start in range(0, items, BLOCK):
            block = rows[start : start + BLOCK]
            add(world.item_embeddings(block))
            shown.advance(len(block))


def _evenly_spread(count: int, items: int) -> np.ndarray:
    """The numbers of `items` of `count` rows, evenly spread."""
    return np.arange(items) * count // items
