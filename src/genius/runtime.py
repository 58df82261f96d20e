"""The runtime of all models: CPU cores and ONNX Runtime sessions."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
"""ONNX Runtime reads this once, when it is imported: it would keep a device's id and count what it does."""


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def session(
    model: bytes | str, threads: int | None = None, tensors: Mapping[str, np.ndarray] | None = None
) -> Any:
    """An ONNX Runtime session on the CPU, from a model or its path; by default with a thread per core.

    Idle threads sleep instead of spinning. `tensors` are those that the model only names.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or cores()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    if tensors:
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(tensor) for tensor in tensors.values()]
        options.add_external_initializers(list(tensors), values)
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
