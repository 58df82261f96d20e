from __future__ import annotations

from pathlib import Path

import pytest

from genius.data.mbeir import Tree
from genius.encode.inputs import EncoderInputs, InputRows


@pytest.fixture(scope="package")
def tree(miniature: Path) -> Tree:
    return Tree(miniature)


@pytest.fixture(scope="package")
def source(tree: Tree) -> InputRows:
    """The images and texts of the miniature by row."""
    inputs = EncoderInputs()
    inputs.add_tree(tree)
    return InputRows(inputs)
