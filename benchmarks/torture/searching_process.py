"""Another process that searches an index while this one writes to it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

from tests.index.made_up_index import open_made_up
from torture.orphans import die_with_parent


class SearchingProcess:
    """A fork of this process, with the index opened by itself."""

    def __init__(self, path: Path) -> None:
        asked, self._ask = os.pipe()
        self._answer, answered = os.pipe()
        self._child = os.fork()
        if self._child == 0:
            try:
                die_with_parent()
                os.close(self._ask)
                os.close(self._answer)
                _serve(path, asked, answered)
            finally:
                os._exit(0)
        os.close(asked)
        os.close(answered)
        self._lines = os.fdopen(self._answer, "r")

    def search(self, text: str, options: dict[str, Any]) -> list[tuple[str, float]]:
        """The hits of a search, as ids with scores. Raises AssertionError with the error it ended with."""
        os.write(self._ask, (json.dumps([text, options]) + "\n").encode())
        answer = json.loads(self._lines.readline() or '"it died"')
        assert isinstance(answer, list), f"another process failed: {answer}"
        return [(id, score) for id, score in answer]

    def close(self) -> None:
        """End the process."""
        os.close(self._ask)
        self._lines.close()
        os.kill(self._child, signal.SIGKILL)
        os.waitpid(self._child, 0)


def _serve(path: Path, asked: int, answered: int) -> None:
    with open_made_up(path) as index, os.fdopen(asked) as lines:
        for line in lines:
            text, options = json.loads(line)
            try:
                found: object = [(hit.item.id, hit.score) for hit in index.search(text, **options)]
            except Exception as error:
                found = repr(error)
            os.write(answered, (json.dumps(found) + "\n").encode())
