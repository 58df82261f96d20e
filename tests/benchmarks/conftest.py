from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("faiss")

from genius.data.mbeir import Tree
from genius.train.run import read_recipe, train_model
from tests.benchmarks.scripts import SCRIPTS, RunScript, load
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.recipes import DECODED


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tiny towers, and recipes with and without a decoder that train in a moment."""
    folder = tmp_path_factory.mktemp("measured")
    write_small_towers(folder / "towers")
    short = re.sub(r"(steps|validate_every) = \d+", r"\1 = 10", DECODED)
    (folder / "recipe.toml").write_text(short)
    (folder / "codes.toml").write_text(short.partition("[decoder]")[0].replace("size = 16", "size = 8"))
    return folder


@pytest.fixture(autouse=True)
def small_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_towers(home, monkeypatch)
    monkeypatch.syspath_prepend(str(SCRIPTS))


@pytest.fixture(scope="session")
def trained(home: Path, miniature: Path) -> Path:
    """A tiny model with all stages; don't write into it."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(home, patch)
        recipe = read_recipe(home / "recipe.toml")
        return train_model(recipe, Tree(miniature), home / "model", cache=home / "cache", force=True).path


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> RunScript:
    """Runs a script with arguments; returns what it printed."""

    def script(name: str, *arguments: object) -> str:
        monkeypatch.setattr(sys, "argv", [f"{name}.py", *map(str, arguments)])
        load(name).main()
        return capsys.readouterr().out

    return script
