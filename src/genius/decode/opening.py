"""The learned decoder from a model's files, by ONNX Runtime or torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from genius.decode.decoder import Decoder
from genius.decode.onnx_decoder import WEIGHTS, OnnxDecoder, Precision
from genius.errors import require


def open_decoder(
    file: Callable[[str], Path],
    vector_width: int,
    described: Mapping[str, Any],
    precision: Precision,
    threads: int | None,
    device: str | None,
) -> Decoder:
    """The decoder whose files `file` gives by name, and whose network is `described` in the model's settings.

    On a device of torch it always is in single precision. Raises MissingError if there is no such device.
    """
    if device is None:
        return OnnxDecoder.open(file, described["sizes"], precision=precision, threads=threads)
    require("torch", "train", "decoding on a device")
    from genius.decode.torch_decoder import TorchDecoder

    network = described["network"]
    return TorchDecoder.open(file(WEIGHTS), vector_width, described["sizes"], network, device)
