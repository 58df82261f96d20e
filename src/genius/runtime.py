"""The runtime of all models: CPU cores and ONNX Runtime sessions."""

from __future__ import annotations

import os
from typing import Any


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def session(model: bytes | str, threads: int | None = None) -> Any:
    """An ONNX Runtime session on the CPU, from a model or its path; by default with a thread per core.

    Idle threads sleep instead of spinning.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or cores()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
