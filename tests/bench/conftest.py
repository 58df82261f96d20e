"""A world of synthetic items that is searched in milliseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from genius.bench.world import World, make_world


@pytest.fixture
def world_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "world"
    folder.mkdir()
    return folder


@pytest.fixture
def world(world_folder: Path) -> World:
    return make_world(world_folder, 700, (3, 16, 16, 16), width=24, queries=12)
