"""The learned decoder run by ONNX Runtime, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from genius.decode.beam_tree import BeamTree, begin, offsets
from genius.decode.decoder import log_softmax, log_sum_exp
from genius.runtime import session

Precision = Literal["fp32", "int8"]
"""Of the network's weights."""
Normalisation = Literal["level", "vocabulary"]
"""Over what log-probabilities are normalised: the codes of a level, or all tokens that the network knows."""
Graphs = Mapping[str, bytes | str]
"""The graphs `prefix` and `step`, and in 8 bits those of heads, or their paths."""

DECODER_FILES = "decoder"
"""How the names of the decoder's files in a model begin."""
WEIGHTS, TABLE = f"{DECODER_FILES}.safetensors", "codes.weight"
"""Where a model keeps the network's weights, and among them the embeddings of codes."""

MANY = 1024
"""From this many codes on, a level's logits are computed in 8 bits: with fewer that saves nothing."""

PREFIX_INPUT, CACHE_INPUT = "memory_", "past_"
"""How the inputs of the graph `step` begin that take the keys and values of cross-attention (those that the
graph `prefix` gives, each by its name) and of self-attention."""

Cache = dict[str, Any]
"""Keys and values of all layers by the name of the graph's input, where ONNX Runtime left them."""


def head_name(level: int) -> str:
    """The name of the graph that computes the logits of a level (the first is 0)."""
    return f"head-{level}"


def graph_file(graph: str, precision: Precision) -> str:
    """The name of a graph's file in a model."""
    return f"{DECODER_FILES}-{graph}{'' if precision == 'fp32' else f'-{precision}'}.onnx"


class OnnxDecoder:
    """A `Decoder` by exported graphs.

    Args:
        graphs: `prefix` and `step`, as `genius.decode.export` makes them; and those of heads, where logits
            are computed in 8 bits.
        table: the embeddings of the start token, of all codes, and of tokens that are no codes,
            [tokens, width].
        sizes: codes by level.
        threads: of ONNX Runtime; by default one for each core.
        normalisation: over what log-probabilities are normalised.
    """

    def __init__(
        self,
        graphs: Graphs,
        table: np.ndarray,
        sizes: Sequence[int],
        threads: int | None = None,
        normalisation: Normalisation = "level",
    ) -> None:
        self.sizes = tuple(sizes)
        self._prefix, self._step = session(graphs["prefix"], threads), session(graphs["step"], threads)
        self.vector_width = int(self._prefix.get_inputs()[0].shape[1])
        self._table = np.ascontiguousarray(table, np.float32)
        scale = np.float32(table.shape[1] ** -0.5)
        self._heads: list[Callable[[np.ndarray], np.ndarray]] = []
        for level, (first, size) in enumerate(zip(offsets(self.sizes), self.sizes, strict=True)):
            if head_name(level) in graphs:
                self._heads.append(_graph_head(session(graphs[head_name(level)], threads)))
            else:
                # Embeddings leave the network shorter than they enter it, by the square root of their width.
                self._heads.append(_head(np.ascontiguousarray(self._table[first : first + size].T) * scale))
        self._other_head: Callable[[np.ndarray], np.ndarray] | None = None
        if normalisation == "vocabulary":
            no_codes = np.concatenate([self._table[:1], self._table[1 + sum(self.sizes) :]])
            self._other_head = _head(np.ascontiguousarray(no_codes.T) * scale)
        self._keys_values = [output.name for output in self._prefix.get_outputs()]
        cached = next(given for given in self._step.get_inputs() if given.name.startswith(CACHE_INPUT))
        self._heads_shape: tuple[int, int] = cached.shape[1], cached.shape[3]

    @classmethod
    def open(
        cls,
        file: Callable[[str], Path],
        sizes: Sequence[int],
        *,
        precision: Precision = "fp32",
        threads: int | None = None,
        normalisation: Normalisation = "level",
    ) -> OnnxDecoder:
        """The decoder of a model, whose files `file` gives by name."""
        from safetensors import safe_open

        with safe_open(file(WEIGHTS), "numpy") as weights:
            table = weights.get_tensor(TABLE)
        names = ["prefix", "step"]
        if precision == "int8":
            names += [head_name(level) for level, size in enumerate(sizes) if size >= MANY]
        graphs = {name: str(file(graph_file(name, precision))) for name in names}
        return cls(graphs, table, sizes, threads, normalisation)

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> BeamTree:
        """Start with one row for each query vector [n, width], behind its modality code if that is given."""
        return begin(self, vectors, modality_codes)

    def encode_prefix(self, vectors: np.ndarray) -> Cache:
        """Keys and values of cross-attention to the queries' prefixes."""
        encoded = self._prefix.run_with_ort_values(self._keys_values, {"vectors": _ort_value(vectors)})
        return self._named(PREFIX_INPUT, encoded)

    def step(
        self, tokens: np.ndarray, paths: np.ndarray, prefix: Cache, cache: Cache | None
    ) -> tuple[np.ndarray, Cache]:
        """The hidden rows [n, rows, width] of new tokens, and the cache of self-attention with them."""
        heads, head_width = self._heads_shape
        if cache is None:
            nothing = _ort_value(np.zeros((len(tokens), heads, 0, head_width), np.float32))
            cache = self._named(CACHE_INPUT, [nothing] * len(self._keys_values))
        distances = np.where(paths < 0, len(self.sizes), np.arange(paths.shape[2])[::-1])
        seen = np.repeat(np.maximum(paths, 0)[:, None], heads, axis=1)  # every head sees the same rows
        arrays = {"embedded": self._table[tokens], "distances": distances, "paths": seen}
        inputs = {name: _ort_value(array) for name, array in arrays.items()} | prefix | cache
        hidden, *grown = self._step.run_with_ort_values(["hidden", *self._keys_values], inputs)
        return hidden.numpy(), self._named(CACHE_INPUT, grown)

    def _named(self, start: str, values: Sequence[Any]) -> Cache:
        return {f"{start}{name}": value for name, value in zip(self._keys_values, values, strict=True)}

    def select(self, cache: Cache, queries: np.ndarray) -> Cache:
        """The keys and values of these queries alone."""
        return {name: _ort_value(value.numpy()[queries]) for name, value in cache.items()}

    def scores(self, hidden: np.ndarray, places: np.ndarray, level: int) -> np.ndarray:
        """Log-probabilities float32 [rows, codes] of a level."""
        rows = hidden.reshape(-1, hidden.shape[2])[places]
        logits = self._heads[level](rows)
        if self._other_head is None:
            return log_softmax(logits)
        # Level by level, so that the logits of a whole vocabulary are never in memory together.
        total = np.logaddexp(log_sum_exp(logits), log_sum_exp(self._other_head(rows)))
        for other, head in enumerate(self._heads):
            if other != level:
                total = np.logaddexp(total, log_sum_exp(head(rows)))
        logits -= total[:, None]
        return logits


def _head(vectors: np.ndarray) -> Callable[[np.ndarray], np.ndarray]:
    """From hidden rows [rows, width] to logits [rows, codes], by the embeddings [width, codes] of a level."""
    return lambda rows: np.asarray(rows @ vectors)


def _graph_head(graph: Any) -> Callable[[np.ndarray], np.ndarray]:
    """The same by a graph."""
    return lambda rows: np.asarray(graph.run(["logits"], {"hidden": rows})[0])


def _ort_value(array: np.ndarray) -> Any:
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))
