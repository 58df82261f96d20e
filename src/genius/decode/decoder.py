"""The protocol of decoders, learned or not, and how the learned decoder of a model is opened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from genius.errors import InputError, MismatchError, require

if TYPE_CHECKING:
    from genius.decode.onnx_decoder import Precision


class DecodingState(Protocol):
    """One beam search under way: a row for each living beam of each query."""

    def scores(self) -> np.ndarray:
        """Log-probabilities float32 [rows, codes of the next level], normalised over the level's codes, or by
        a network that was trained so over its whole vocabulary."""

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down: keep these rows, each extended by its code.

        A row may be kept several times or not at all; the new rows stand in the order given.
        """


class Decoder(Protocol):
    """Scores the next code, given a query's vector and the codes before it."""

    @property
    def sizes(self) -> Sequence[int]:
        """How many codes each level has."""

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> DecodingState:
        """Start with one row for each query vector [n, width].

        With `modality_codes` [n], codes of the first level, the rows stand behind these, and the next scores
        are those of the second level: a code that is known need not be searched for.
        """


def check_queries(
    vectors: np.ndarray, modality_codes: np.ndarray | None, width: int, num_modality_codes: int
) -> None:
    """Raise InputError for queries that a decoder of this width and first level can't begin with."""
    if vectors.ndim != 2 or vectors.shape[1] != width:
        raise InputError(f"queries must be vectors of width {width}, not of the shape {vectors.shape}")
    if modality_codes is None:
        return
    codes, size = modality_codes, num_modality_codes
    if codes.shape != (len(vectors),) or (len(codes) and not 0 <= codes.min() <= codes.max() < size):
        raise InputError(f"each query needs a modality code from 0 to {size - 1}")


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Log-probabilities of logits [rows, codes], in place; the greatest is subtracted first, so that nothing
    overflows."""
    logits -= logits.max(axis=1, keepdims=True)
    logits -= np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return logits


def log_sum_exp(logits: np.ndarray) -> np.ndarray:
    """The logarithm of the summed exponentials of each row of logits [rows, codes], float32 [rows]."""
    largest = logits.max(axis=1)
    return np.asarray(largest + np.log(np.exp(logits - largest[:, None]).sum(axis=1)), np.float32)


def check_identifiers(path: Path, described: Mapping[str, Any], wanted: str) -> None:
    """Raise MismatchError if the decoder in a model's settings learned other identifiers than its items
    have."""
    learned = described.get("identifiers", "codes")
    if learned != wanted:
        raise MismatchError(
            f"{path} has a decoder that learned {learned} identifiers, but its items have {wanted} "
            "identifiers: train the decoder again"
        )


def open_decoder(
    file: Callable[[str], Path],
    vector_width: int,
    described: Mapping[str, Any],
    precision: Precision,
    threads: int | None,
    device: str | None,
) -> Decoder:
    """The learned decoder of a model, by ONNX Runtime, or by torch on a `device`.

    `file` gives the model's files by name, and `described` is its network in the model's settings. On a
    device it always runs in single precision. Raises MissingError if there is no such device.
    """
    from genius.decode.onnx_decoder import WEIGHTS, OnnxDecoder

    network = described["network"]
    if device is None:
        return OnnxDecoder.open(
            file,
            described["sizes"],
            precision=precision,
            threads=threads,
            normalisation=network.get("normalisation", "level"),
        )
    require("torch", "train", "decoding on a device")
    from genius.decode.torch_decoder import TorchDecoder

    return TorchDecoder.open(file(WEIGHTS), vector_width, described["sizes"], network, device)
