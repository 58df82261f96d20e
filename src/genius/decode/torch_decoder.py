"""The learned decoder run by torch: for validation while it is trained, and for search on a GPU.

All queries of a search are one batch on the device. Only decisions cross: numbers of rows and codes go to the
device, log-probabilities of the next level's codes come back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from genius.decode.beam_tree import BeamTree, begin
from genius.decode.t5 import Cache, DecoderSettings, T5Decoder
from genius.errors import MissingError

FORMAT_1_NAMES = {
    "look": "self_attention",
    "look_norm": "self_attention_norm",
    "read": "cross_attention",
    "read_norm": "cross_attention_norm",
    "think_norm": "mlp_norm",
    "widen": "mlp.up",
    "narrow": "mlp.down",
    "distances": "relative_attention_bias",
}
"""What parts of the weights' names are called today that models of format 1 have."""


class TorchDecoder:
    """A `Decoder` by a network, on the CPU or on a GPU; the network is moved there and set to evaluate."""

    def __init__(self, network: T5Decoder, device: str | torch.device = "cpu") -> None:
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

        # All weights are in the file: nothing has to start from codebooks.
        settings = DecoderSettings(**{**network, "start_from_codebooks": False})
        made = T5Decoder(vector_width, sizes, settings)
        made.load_state_dict({current_name(name): value for name, value in load_file(weights).items()})
        try:
            return cls(made, device)
        except (RuntimeError, AssertionError) as error:
            raise MissingError(
                f"torch can't use the device {str(device)!r} here ({str(error).splitlines()[0]}): "
                "choose another, or install a torch that was made for it"
            ) from error

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> BeamTree:
        """Start with one row for each query vector [n, width], behind its modality code if that is given."""
        return begin(self, vectors, modality_codes)

    @torch.inference_mode()
    def encode_prefix(self, vectors: np.ndarray) -> Cache:
        """Keys and values of cross-attention to the queries' prefixes."""
        return self.network.encode_prefix(self._tensor(vectors))

    @torch.inference_mode()
    def step(
        self, tokens: np.ndarray, paths: np.ndarray, prefix: Cache, cache: Cache | None
    ) -> tuple[torch.Tensor, Cache]:
        """The hidden rows [n, rows, width] of new tokens, and the cache of self-attention with them."""
        count, rows, depth = paths.shape
        seen = rows + (cache[0][0].shape[2] if cache else 0)
        # One more column takes the -1 of paths, and is cut off.
        distances = np.full((count, rows, seen + 1), len(self.sizes))
        np.put_along_axis(distances, np.where(paths < 0, seen, paths), np.arange(depth)[::-1], axis=2)
        embedded = self.network.codes(self._tensor(tokens))
        return self.network.step(embedded, self._tensor(distances[:, :, :-1]), prefix, cache)

    @torch.inference_mode()
    def select(self, cache: Cache, queries: np.ndarray) -> Cache:
        """The keys and values of these queries alone."""
        rows = self._tensor(queries)
        return [(keys[rows], values[rows]) for keys, values in cache]

    @torch.inference_mode()
    def scores(self, hidden: torch.Tensor, places: np.ndarray, level: int) -> np.ndarray:
        """Log-probabilities float32 [rows, codes] of a level."""
        rows = hidden.flatten(0, 1)[self._tensor(places)]
        scores: np.ndarray = self.network.log_probs(rows, level).cpu().numpy()
        return scores

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self.device)


def current_name(name: str) -> str:
    """Today's name of a weight in a model of any format: "layers.0.look.query.weight" is
    "layers.0.self_attention.query.weight"."""
    return ".".join(FORMAT_1_NAMES.get(part, part) for part in name.split("."))
