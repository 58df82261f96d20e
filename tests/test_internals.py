"""The walk of a search that docs/internals.md lists is the one that a search takes."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

import genius
from genius import Index, Item
from genius.cli import app

SOURCE = Path(genius.__file__).parent
PAGE = Path(__file__).parents[1] / "docs" / "internals.md"
MOST_FILES = 41
BASE = {"errors", "progress", "storage", "atomic", "runtime", "tensors", "jit", "display"}
"""Modules that every layer uses; the page names them beside the walk."""


@contextmanager
def files_called() -> Iterator[list[str]]:
    """The files of the package in the order in which a function of each is first called."""
    files: list[str] = []

    def profile(frame: FrameType, event: str, _: Any) -> None:
        name = frame.f_code.co_filename
        if event == "call" and name.startswith(str(SOURCE)) and frame.f_code.co_name != "<module>":
            file = Path(name).relative_to(SOURCE).as_posix()
            if file not in files:
                files.append(file)

    sys.setprofile(profile)
    try:
        yield files
    finally:
        sys.setprofile(None)


def listed() -> list[str]:
    walk = PAGE.read_text().partition("## The walk of a search, file by file")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/.]+)`", walk, re.MULTILINE)


def test_the_walk_of_a_search(coded_model: Path, coded_home: Path, tmp_path: Path) -> None:
    path = tmp_path / "index"
    with Index.create(path, coded_model) as index:
        items = [Item(str(number), f"square {number}", metadata={"n": number}) for number in range(9)]
        index.add(items, cache=coded_home / "cache")
    arguments = ["search", str(path), "a red square", "--want", "text", "--mode", "fast"]
    with files_called() as files, pytest.raises(SystemExit):
        app(arguments)
    walk = [file for file in files if file.removesuffix(".py") not in BASE]
    assert walk == listed()
    assert len(walk) <= MOST_FILES
