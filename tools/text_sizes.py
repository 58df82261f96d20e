"""Measure how large the channels before the text tower's matrices are, for the tower in 8 bits.

    python -m tools.text_sizes TREE … [--texts 200]

Of each M-BEIR tree, a sample of the texts of its training queries passes the tower in single precision; kept
is the largest number of each channel, in three digits.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from random import Random

import numpy as np
import orjson
from tokenizers import Tokenizer

from genius.data.instructions import clean
from genius.data.mbeir import Tree
from genius.encode import lite, lite_text, lite_text_int8
from genius.encode import lite_weights as weights
from genius.encode.checkpoints import Weights, read_checkpoint
from genius.encode.onnx_graph import Graph
from genius.runtime import session


class RecordingGraph(Graph):
    """A graph that remembers what each linear layer takes, by the name of its weights."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.taken: list[str] = []

    def linear(self, value: str, weight: np.ndarray, bias: np.ndarray) -> str:
        """A linear layer."""
        self.taken.append(value)
        return super().linear(value, weight, bias)


def measure(weights: Weights, texts: Iterable[list[int]]) -> dict[str, np.ndarray]:
    """The largest number of each channel before matrices, over texts as tokens."""
    graph = RecordingGraph("sizes")
    lite_text.add_outputs(graph, weights)
    # A layer's matrices: query, key, value, those of attention's output, and the two behind it.
    chosen = {}
    for layer, place in enumerate(range(0, len(graph.taken), 6)):
        name = f"encoder.layer.{layer}."
        chosen[f"{name}attention.self."] = graph.taken[place]
        chosen[f"{name}intermediate.dense"] = graph.taken[place + 4]
    width = weights["embeddings.word_embeddings.weight"].shape[1]
    for name, value in chosen.items():
        largest = graph.node("ReduceMax", graph.node("Abs", value), axes=[0, 1], keepdims=0)
        graph.output(name, largest, (width,))
    tower = session(graph.bytes())
    sizes = []
    for text in texts:
        ids = np.array([text], np.int64)
        sizes.append(tower.run(list(chosen), {"ids": ids, "mask": np.ones_like(ids)}))
    return dict(zip(chosen, np.max(sizes, axis=0), strict=True))


def sample(tree: Path, count: int) -> list[str]:
    """Texts of training queries of a tree."""
    texts = sorted({clean(query.text) for query in Tree(tree).queries("train") if query.text})
    return Random(0).sample(texts, min(count, len(texts)))


def main() -> None:
    """Measure, and write the file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("trees", type=Path, nargs="+", metavar="TREE")
    parser.add_argument("--texts", type=int, default=200, help="of each tree (default: 200)")
    options = parser.parse_args()
    texts = [text for tree in options.trees for text in sample(tree, options.texts)]
    tokenizer = Tokenizer.from_file(str(weights.fetched(weights.TOKENIZER)))
    tokenizer.no_padding()
    tokenizer.enable_truncation(lite.MAX_TOKENS)
    tokens = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    sizes = measure(read_checkpoint(weights.fetched(weights.TEXT)), tokens)
    rounded = {name: [float(f"{size:.3g}") for size in own.tolist()] for name, own in sizes.items()}
    lite_text_int8.SIZES.write_bytes(orjson.dumps(rounded).replace(b"],", b"],\n") + b"\n")


if __name__ == "__main__":
    main()
