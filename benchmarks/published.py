"""The published models in full size, with random numbers: import, index and search, beside the usual way.

    python benchmarks/published.py [--items 10000] [--queries 64] [--work out/published] [--json]
    python benchmarks/published.py --small

Makes checkpoints of the published layout (a CLIP ViT-L/14, the quantizer, the T5 decoder; 3 GB) and imports
them in a process of its own, whose time and peak memory are printed. Then it indexes made-up features of
images, texts and pairs over the same quantizer and decoder (`--encoder precomputed`), and searches by made-up
queries, re-ranked: in the modes `paper` and `fast`, and by `generate` of Hugging Face's transformers with a
trie of dictionaries over the same codes, 50 beams each, in turns, on one thread, by the processor's time,
which other load on the machine hardly changes. Numbers are random, so nothing is said of quality.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from figures import print_table
from options import ROOT, script_parser

from genius.data.records import Item, Vectors
from genius.decode.t5 import DecoderSettings
from genius.display import Table
from genius.encode.uniir import PREFIX, ClipSizes
from genius.errors import require
from genius.index.index import Index
from genius.model import Model
from genius.published.decoder_file import SPECIAL_TOKENS, TABLES, decoder_shapes
from genius.published.files import PublishedFile
from genius.published.quantizer_file import QuantizerSizes

BEAMS, K = 50, 10
FEW = 8
"""Queries of the usual way, which is slow."""
ROUNDS = 3
"""How often each way to search has its turn; the median counts."""


@dataclass(frozen=True)
class Sizes:
    """Of all three files."""

    clip: ClipSizes
    quantizer: QuantizerSizes
    decoder: DecoderSettings


PUBLISHED = Sizes(
    ClipSizes(
        joint=768,
        vocabulary=49408,
        text_length=77,
        text=768,
        vision=1024,
        patch=14,
        grid=16,
        layers={"transformer": 12, "visual.transformer": 24},
    ),
    QuantizerSizes(768, 2560, 5120, 5120, (3, *[4096] * 8)),
    DecoderSettings(layers=6, width=512, heads=8, head_width=64, feed_forward=2048, prefix=30),
)
SMALL = Sizes(
    ClipSizes(
        joint=64,
        vocabulary=300,
        text_length=16,
        text=64,
        vision=64,
        patch=8,
        grid=4,
        layers={"transformer": 2, "visual.transformer": 2},
    ),
    QuantizerSizes(64, 96, 192, 192, (3, *[64] * 8)),
    DecoderSettings(layers=2, width=64, heads=4, head_width=16, feed_forward=128, prefix=8),
)


# --- files


def write_files(sizes: Sizes, folder: Path) -> None:
    """The three checkpoints, as the authors' code saves them, and a tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = torch.Generator().manual_seed(0)

    def random(shapes: dict[str, tuple[int, ...]], scale: float = 0.02) -> dict[str, torch.Tensor]:
        return {name: scale * torch.randn(shape, generator=generator) for name, shape in shapes.items()}

    def save(tensors: dict[str, torch.Tensor], name: str) -> None:
        torch.save({"model": tensors, "optimizer": {}, "scheduler": {}, "epoch": 20}, folder / name)

    save(
        {f"{PREFIX}{name}": value for name, value in random(sizes.clip.shapes()).items()}, "clip_sf_large.pth"
    )
    quantizer = random(sizes.quantizer.shapes())
    for name in quantizer:
        if name.endswith("initted"):
            quantizer[name] = torch.ones(1)
        elif name.startswith("vq."):
            quantizer[name] = quantizer[name.replace("vq.", "residual_rq.layers.0.")]
    save(quantizer, "rq_clip_large.pth")
    decoder = random(decoder_shapes(sizes.decoder, sizes.quantizer.width, sizes.quantizer.codes))
    decoder |= {name: value + 1 for name, value in decoder.items() if name.endswith("norm.weight")}
    decoder |= dict.fromkeys(TABLES, torch.randn(decoder[TABLES[0]].shape, generator=generator))
    save(
        {**{f"quantizer.{name}": value for name, value in quantizer.items()}, **decoder}, "GENIUS_t5small.pth"
    )
    write_tokenizer(folder / "tokenizer", sizes.clip.vocabulary)


def write_tokenizer(folder: Path, vocabulary: int) -> None:
    """A tokenizer of CLIP's kind with so many tokens, most of which are never used."""
    import orjson

    folder.mkdir(exist_ok=True)
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    tokens = [*letters, *(f"{letter}</w>" for letter in letters)]
    tokens += [f"unused{number}" for number in range(vocabulary - len(tokens) - 2)]
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_bytes(orjson.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": 77}
    (folder / "tokenizer_config.json").write_bytes(orjson.dumps(settings))


# --- import


def import_files(folder: Path, out: Path, *, clip: bool) -> dict[str, float]:
    """Import in a process of its own: its time, on the clock and of processors, and its peak of memory."""
    shutil.rmtree(out, ignore_errors=True)
    encoder = ["--clip", f"{folder}/clip_sf_large.pth", "--tokenizer", f"{folder}/tokenizer"]
    command = [sys.executable, "-m", "genius", "import", *(encoder if clip else ["--encoder", "precomputed"])]
    command += ["--quantizer", f"{folder}/rq_clip_large.pth", "--decoder", f"{folder}/GENIUS_t5small.pth"]
    start = time.perf_counter()
    subprocess.run([*command, "-o", str(out)], check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)  # of all children; the import with a CLIP comes first
    return {
        "import seconds": time.perf_counter() - start,
        "of processors": used.ru_utime + used.ru_stime,
        "peak GB": used.ru_maxrss / 2**20,
    }


# --- search


def made_up(count: int, width: int, seed: int) -> list[Vectors]:
    """Features around common centres: of an image, a text, or both."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(7).normal(size=(200, width))
    near = centres[random.integers(0, len(centres), count)]
    images, texts = (10 * (near + 0.5 * random.normal(size=near.shape)) / width**0.5 for _ in range(2))
    kinds = random.integers(0, 3, count)
    return [
        Vectors(image=images[row] if kinds[row] != 1 else None, text=texts[row] if kinds[row] != 0 else None)
        for row in range(count)
    ]


class Generate:
    """The usual way: transformers' `generate`, restricted by a trie of dictionaries, then re-ranked."""

    def __init__(self, index: Index, decoder: Path, sizes: Sizes, items: Sequence[Vectors]) -> None:
        from transformers import T5Config, T5ForConditionalGeneration

        self.model, settings = index.model, sizes.decoder
        config = T5Config(
            vocab_size=SPECIAL_TOKENS + sum(sizes.quantizer.codes),
            d_model=settings.width,
            d_kv=settings.head_width,
            d_ff=settings.feed_forward,
            num_heads=settings.heads,
            num_layers=settings.layers,  # `generate` asks for them; they are given their output and not run
            num_decoder_layers=settings.layers,
            decoder_start_token_id=0,  # type: ignore[call-arg]  # taken, though not declared
            pad_token_id=0,
            eos_token_id=None,
        )
        self.network: Any = T5ForConditionalGeneration(config)
        self.network.eval()  # type: ignore[no-untyped-call]
        file = PublishedFile.open(decoder, "decoder")
        weights = {name: torch.from_numpy(file.read(name)) for name in file.without("quantizer.").tensors}
        inner = {
            k.removeprefix("id_generator."): v for k, v in weights.items() if k.startswith("id_generator.")
        }
        self.network.load_state_dict(inner, strict=False)
        self.prefix = weights["embed_projector.0.weight"], weights["embed_projector.0.bias"]
        starts = SPECIAL_TOKENS + np.cumsum([0, *sizes.quantizer.codes])[:-1]
        inputs = self._inputs(items)
        self.embeddings = inputs.embeddings.astype(np.float16).astype(np.float32)
        tokens = self.model.quantizer.codes(self.model.vectors(inputs)) + starts
        self.trie: dict[int, Any] = {}
        self.buckets: dict[tuple[int, ...], list[int]] = {}
        for number, code in enumerate(tokens.tolist()):
            self.buckets.setdefault(tuple(code), []).append(number)
            node = self.trie
            for token in code:
                node = node.setdefault(token, {})

    def _inputs(self, vectors: Sequence[Vectors]) -> Any:
        has_image, has_text = (
            np.array([getattr(v, part) is not None for v in vectors]) for part in ("image", "text")
        )
        return self.model.vector_inputs(vectors, np.where(has_image & has_text, 2, np.where(has_image, 0, 1)))

    def _children(self, _: int, tokens: torch.Tensor) -> list[int]:
        node = self.trie
        for token in tokens.tolist()[1:]:
            node = node.get(token, {})
        return list(node) or [0]

    @torch.inference_mode()
    def search(self, query: Vectors) -> list[int]:
        """The K best items of a query, by number."""
        from transformers.modeling_outputs import BaseModelOutput

        inputs = self._inputs([query])
        vectors = torch.from_numpy(self.model.vectors(inputs))
        rows = torch.nn.functional.linear(vectors, *self.prefix).view(1, -1, self.network.config.d_model)
        encoded = self.network.encoder.final_layer_norm(rows)
        beams = min(BEAMS, len(self.buckets))
        written = self.network.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=encoded),
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=len(self.model.quantizer.sizes),
            prefix_allowed_tokens_fn=self._children,
        )
        numbers = [number for code in written[:, 1:].tolist() for number in self.buckets.get(tuple(code), [])]
        scores = self.embeddings[numbers] @ inputs.embeddings[0]
        return [numbers[place] for place in np.argsort(-scores, kind="stable")[:K]]


def processor_seconds(search: Callable[[Vectors], object], queries: Sequence[Vectors]) -> float:
    """The processor's time for one search after the other."""
    start = time.process_time()
    for query in queries:
        search(query)
    return time.process_time() - start


def main() -> None:
    """Make, import, index, search, print."""
    parser = script_parser(__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--queries", type=int, default=64)
    parser.add_argument("--work", type=Path, default=ROOT / "out" / "published")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--small", action="store_true", help="tiny networks, to try the steps")
    options = parser.parse_args()
    sizes, work = SMALL if options.small else PUBLISHED, options.work
    write_files(sizes, work / "files")
    figures = import_files(work / "files", work / "model", clip=True)
    import_files(work / "files", work / "precomputed", clip=False)
    items = made_up(options.items, sizes.quantizer.width, 1)
    queries = made_up(options.queries, sizes.quantizer.width, 2)
    shutil.rmtree(work / "index", ignore_errors=True)
    start = time.perf_counter()
    index = Index.create(work / "index", Model.open(work / "precomputed", threads=1))
    index.add([Item(str(number), vector=vector) for number, vector in enumerate(items)])
    indexing = time.perf_counter() - start
    usual = Generate(index, work / "files" / "GENIUS_t5small.pth", sizes, items)
    torch.set_num_threads(1)
    ways: dict[str, Callable[[Vectors], object]] = {
        "generate and a dictionary trie": usual.search,
        "genius, mode paper": lambda query: index.search(vector=query, k=K, mode="paper", rerank=True),
        "genius, mode fast": lambda query: index.search(vector=query, k=K, mode="fast"),
    }
    for search in ways.values():
        search(queries[0])  # what is compiled or fitted at the first search is not counted
    chosen = {name: queries[: FEW if search == usual.search else None] for name, search in ways.items()}
    rounds: dict[str, list[float]] = {name: [] for name in ways}
    threads = require("threadpoolctl", "bench", "measuring on one thread")
    with threads.threadpool_limits(1):
        for _ in range(ROUNDS):
            for name, search in ways.items():
                rounds[name].append(processor_seconds(search, chosen[name]) / len(chosen[name]))
    speeds = {name: 1 / float(np.median(seconds)) for name, seconds in rounds.items()}
    same = [
        [int(hit.item.id) for hit in index.search(vector=query, k=K, mode="paper", rerank=True)]
        == usual.search(query)
        for query in queries[:FEW]
    ]
    figures |= {"indexing seconds": indexing, "same ten items both ways": float(np.mean(same))}
    report(speeds, figures, options)


def report(speeds: dict[str, float], figures: dict[str, float], options: Any) -> None:
    """Print speeds as ratios to the usual way, and the figures of import and indexing."""
    base = next(iter(speeds.values()))
    table, rows = Table(("way", "queries/s", "ratio")), []
    for name, speed in speeds.items():
        table.add(name, speed, speed / base)
        rows.append({"way": name, "queries_per_second": speed, "ratio": speed / base})
    rows.append({**figures, "items": options.items})
    print_table(table, rows, as_json=options.json)
    if not options.json:
        print(
            f"{options.items:,} items; " + ", ".join(f"{name} {value:.2f}" for name, value in figures.items())
        )


if __name__ == "__main__":
    main()
