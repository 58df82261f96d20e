"""The log of a training run: one JSON object per line, and TensorBoard where it is installed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import orjson

from genius import atomic
from genius.train import distributed


class Journal:
    """One line per step or validation in `log.jsonl`; a resumed run drops the lines after its checkpoint."""

    def __init__(self, folder: Path, step: int) -> None:
        self._writer: Any = None
        self._file: Any = None
        if distributed.rank():
            return
        path = folder / "log.jsonl"
        folder.mkdir(parents=True, exist_ok=True)
        if path.exists():
            kept = [line for line in path.read_bytes().splitlines(keepends=True) if _step_of(line) <= step]
            with atomic.write_file(path) as file:
                file.writelines(kept)
        self._file = path.open("ab")
        if importlib.util.find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._writer = SummaryWriter(str(folder / "tensorboard"), purge_step=step + 1)

    def write(self, *, step: int, **values: float) -> None:
        """Append a line with these values; of several processes only the first one writes."""
        if self._file is None:
            return
        self._file.write(orjson.dumps({"step": step, **values}) + b"\n")
        self._file.flush()
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Close the files."""
        for target in (self._file, self._writer):
            if target is not None:
                target.close()


def _step_of(line: bytes) -> float:
    try:
        return float(orjson.loads(line)["step"])
    except (ValueError, KeyError):
        return float("inf")  # cut off by a kill: dropped
