"""The learned decoder run by torch: for validation while it is trained, and for search on a GPU.

All queries of a search are one batch on the device. Only what decides goes back and forth: numbers of rows
and codes one way, log-probabilities of the next level's codes the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genius.decode.beam_tree import TreeDecoding, begin
from genius.decode.t5 import Cache, CodeNetwork, DecoderSettings
from genius.errors import MissingError


class TorchDecoder:
    """A `Decoder` by a network, on the CPU or on a GPU; the network is moved there and set to evaluate."""

    def __init__(self, network: CodeNetwork, device: str | torch.device = "cpu") -> None:
        self.network, self.device = network.to(device).eval(), torch.device(device)
        self.sizes, self.vector_width = network.sizes, network.vector_width

    @classmethod
    def open(
        cls,
        weights: Path,
        vector_width: int,
        sizes: Sequence[int],
        network: Mapping[str, Any],
        device: str | torch.device,
    ) -> TorchDecoder:
        """The decoder of a model, by its file of weights and its network's settings.

        Raises MissingError if there is no such device.
        """
        from safetensors.torch import load_file

        # The weights are all there: nothing has to start from codebooks.
        settings = DecoderSettings(**{**network, "start_from_codebooks": False})
        made = CodeNetwork(vector_width, sizes, settings)
        made.load_state_dict(load_file(weights))
        try:
            return cls(made, device)
        except (RuntimeError, AssertionError) as error:
            raise MissingError(
                f"torch can't use the device {str(device)!r} here ({str(error).splitlines()[0]}): "
                "choose another, or install a torch that was made for it"
            ) from error

    def begin(self, vectors: np.ndarray, first: np.ndarray | None = None) -> TreeDecoding:
        """Start with one row for each query vector [n, width], behind its first code if that is given."""
        return begin(self, vectors, first)

    @torch.inference_mode()
    def remember(self, vectors: np.ndarray) -> Cache:
        """Keys and values of the queries' prefixes."""
        return self.network.remember(self._tensor(vectors))

    @torch.inference_mode()
    def step(
        self, tokens: np.ndarray, paths: np.ndarray, memory: Cache, cache: Cache | None
    ) -> tuple[torch.Tensor, Cache]:
        """The hidden rows of new tokens, and the cache that has them."""
        count, rows, depth = paths.shape
        seen = rows + (cache[0][0].shape[2] if cache else 0)
        # One more column takes what is nothing, and is cut off.
        distances = np.full((count, rows, seen + 1), len(self.sizes))
        np.put_along_axis(distances, np.where(paths < 0, seen, paths), np.arange(depth)[::-1], axis=2)
        embedded = self.network.codes(self._tensor(tokens))
        return self.network.step(embedded, self._tensor(distances[:, :, :-1]), memory, cache)

    @torch.inference_mode()
    def only(self, kept: Cache, queries: np.ndarray) -> Cache:
        """What is remembered of these queries."""
        rows = self._tensor(queries)
        return [(keys[rows], values[rows]) for keys, values in kept]

    @torch.inference_mode()
    def scores(self, hidden: torch.Tensor, places: np.ndarray, level: int) -> np.ndarray:
        """Log-probabilities float32 [rows, codes] of a level."""
        rows = hidden.flatten(0, 1)[self._tensor(places)]
        found: np.ndarray = self.network.logits(rows, level).log_softmax(1).cpu().numpy()
        return found

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
