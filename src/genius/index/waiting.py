"""Embeddings that wait for their commit, in a file: a block of them would take half a gigabyte of memory."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import IO

import numpy as np


class Waiting:
    """The embeddings of a block, in the folder where its index is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file: IO[bytes] | None = None
        self._rows, self._kind, self._width = 0, np.dtype(np.float16), 0

    def append(self, rows: np.ndarray) -> None:
        """Put more rows [n, width] behind the others."""
        if self._file is None:
            # It has no name, so that a crash leaves nothing behind.
            self._file = tempfile.TemporaryFile(dir=self._folder)  # noqa: SIM115
        self._file.write(np.ascontiguousarray(rows).data)
        self._rows, self._kind, self._width = self._rows + len(rows), rows.dtype, rows.shape[1]

    def all(self) -> np.ndarray:
        """All rows, mapped from the file."""
        assert self._file is not None
        self._file.flush()
        return np.memmap(self._file, self._kind, "r", shape=(self._rows, self._width))

    def close(self) -> None:
        """Forget the rows."""
        if self._file is not None:
            self._file.close()
        self._file, self._rows = None, 0
