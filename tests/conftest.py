from __future__ import annotations

import os
import shutil
from pathlib import Path

# Tests run in as many processes as there are cores; threads of torch would get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest

from tests.miniature import write_miniature

# No test depends on the clock, nor on chance: the same code passes or fails every time.
# `make test-long` draws new examples, and what it finds becomes an @example.
hypothesis.settings.register_profile("house", deadline=None, derandomize=True)
hypothesis.settings.register_profile("explore", deadline=None)
hypothesis.settings.load_profile("house")


SLOW_FOLDERS = {"benchmarks", "end_to_end", "faults", "train"}
SLOW_FIXTURES = {"coded_home", "coded_model", "learned_model", "browser", "page", "shop"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what trains a model, kills processes or drives a browser."""
    for item in items:
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        if folder in SLOW_FOLDERS or SLOW_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.slow)


@pytest.fixture(scope="session")
def miniature(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A hand-made M-BEIR tree with all eight tasks; don't write into it."""
    return write_miniature(tmp_path_factory.mktemp("miniature") / "M-BEIR")


@pytest.fixture
def own_miniature(tmp_path: Path) -> Path:
    """The same tree, free to be damaged."""
    return write_miniature(tmp_path / "M-BEIR")


@pytest.fixture(scope="session")
def minibeir() -> Path:
    """The real benchmark, where it is unpacked: $MINIBEIR, or the usual cache folder."""
    path = Path(os.environ.get("MINIBEIR", Path.home() / ".cache" / "minibeir"))
    if not (path / "query").is_dir():
        pytest.skip("the benchmark is not unpacked here; set MINIBEIR to its folder")
    return path


@pytest.fixture(scope="session")
def coded_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the tiny models that code, their towers, their recipe and their cache are."""
    pytest.importorskip("torch")
    pytest.importorskip("onnx")
    from tests.coded import write_home

    return write_home(tmp_path_factory.mktemp("coded"))


@pytest.fixture(scope="session")
def coded_model(coded_home: Path, miniature: Path) -> Path:
    """A tiny model with a quantizer; don't write into it."""
    from tests.coded import train_coded

    return train_coded(coded_home, miniature, "model").path


@pytest.fixture(scope="session")
def learned_model(coded_home: Path, coded_model: Path, miniature: Path) -> Path:
    """The same with a learned modality code, which does not always say the modality."""
    from genius.train.recipe import read_recipe
    from tests.coded import train_coded, with_codebooks

    shutil.copytree(coded_model, coded_home / "learned")  # its first stage need not be trained again
    recipe = with_codebooks(read_recipe(coded_home / "recipe.toml"), modality_code="learned")
    return train_coded(coded_home, miniature, "learned", recipe).path


@pytest.fixture
def shipped(coded_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny model in the place of the one that ships, on a machine that has the towers."""
    from genius import model, storage
    from genius.encode import lite
    from tests.encode.small_towers import write_small_towers
    from tools.ship_model import ship

    ship(coded_model, tmp_path / "shipped" / "photo")
    monkeypatch.setattr(model, "SHIPPED", tmp_path / "shipped")
    towers = write_small_towers(tmp_path / "cache" / "towers" / "lite")
    monkeypatch.setattr(lite, "home", lambda *_: towers)
    monkeypatch.setattr(lite, "_is_built", lambda folder, *_: storage.is_artifact(folder))
    return tmp_path / "shipped" / "photo"
