"""The tiny checkpoints that the authors' own code trained and saved, with golden outputs, where they are.

They are no part of the repository: `$PUBLISHED`, or `shared/data/published` in a folder above it. Tests that
need them are skipped without them.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

FOLDER = Path("shared", "data", "published")


def published_folder() -> Path:
    """The folder; skips the test if it is nowhere."""
    places = [above / FOLDER for above in Path(__file__).resolve().parents]
    if given := os.environ.get("PUBLISHED"):
        places = [Path(given)]
    folder = next((place for place in places if (place / "golden.npz").is_file()), None)
    if folder is None:
        pytest.skip("the published checkpoints are not here; set PUBLISHED to their folder")
    return folder


def published_file(name: str) -> Path:
    """One of its files."""
    return published_folder() / name
