"""The rules of the house, checked."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import genius

SOURCE = Path(genius.__file__).parent
FILES = sorted(SOURCE.rglob("*.py"))

GROUND_FLOOR = ("errors", "atomic", "manifest", "storage", "progress", "display", "compiling")
# Data flows one way, left to right.
ROOMS = (
    "data",
    "encode",
    "quantize",
    "decode",
    "model",
    "search",
    "index",
    "evaluate",
    "doctor",
    "train",
    "serve",
    "bench",
    "cli",
)
LINES = 300
LINES_WITH_A_REASON = 400

SAFE_READER = "encode/checkpoints.py"  # the one file that may look into a pickle, and executes nothing of it
FORBIDDEN = {
    "pickle": "nothing of ours is ever pickled",
    "marshal": "nothing of ours is ever pickled",
    "torchvision": "pictures are prepared with Pillow and numpy",
}


def room(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> list[str]:
    names = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.relative_to(SOURCE).as_posix())
def test_a_file_keeps_the_rules(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    here = room(path)
    assert ast.get_docstring(tree), "says what it is for"
    assert len(text.splitlines()) <= LINES, "is read in one sitting"
    assert here in (*GROUND_FLOOR, *ROOMS, "__init__"), "has a place in the house"
    for name in imported(tree):
        top = name.split(".")[0]
        if top in FORBIDDEN:
            assert (top, path.relative_to(SOURCE).as_posix()) == ("pickle", SAFE_READER), FORBIDDEN[top]
        if top != "genius" or here == "__init__":
            continue
        other = name.split(".")[1]
        if other in ROOMS:
            assert here in ROOMS, "the ground floor imports no room"
            assert ROOMS.index(other) <= ROOMS.index(here), f"{here} stands left of {other}"
    if here != "cli":
        calls = {
            node.func.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        }
        assert "print" not in calls, "the library does not print"
        assert not calls & {"eval", "exec"}


def loaded_by(code: str) -> set[str]:
    shown = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys; print(*sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.split(".")[0] for name in shown.stdout.split("\n")[-2].split()}


def test_import_genius_is_light() -> None:
    heavy = {"numpy", "PIL", "rich", "typer", "orjson", "torch", "pyarrow", "onnxruntime", "numba"}
    assert not loaded_by("import genius") & heavy


def test_help_is_light() -> None:
    code = "import genius.cli\ntry: genius.cli.app(['--help'])\nexcept SystemExit: pass"
    assert not loaded_by(code) & {"numpy", "PIL", "torch", "pyarrow", "onnxruntime", "numba", "orjson"}


def test_encoding_searching_evaluating_examining_and_serving_need_no_torch() -> None:
    pytest.importorskip("fastapi")
    rooms = "encode.pipeline, genius.encode.lite, genius.encode.encoder, genius.model, genius.search.dense"
    codes = "quantize.quantizer, genius.decode.geometry, genius.search.beam, genius.search.engine"
    doctor = "doctor.examine, genius.doctor.report, genius.doctor.sheets"
    index = "index.index, genius.index.inspect"
    code = (
        f"import genius.{rooms}, genius.{codes}, genius.evaluate.run, genius.evaluate.report, "
        f"genius.{doctor}, genius.{index}, genius.serve.server, genius.client.client"
    )
    assert not loaded_by(code) & {"torch", "transformers", "onnx", "matplotlib", "faiss"}


def test_a_client_needs_no_server() -> None:
    assert not loaded_by("from genius import Client") & {"fastapi", "starlette", "uvicorn", "pydantic"}


def test_the_public_names_are_the_ones_that_are_promised() -> None:
    assert list(genius.__all__) == sorted(genius.__all__)
    assert set(genius._HOMES) | {"__version__"} == set(genius.__all__)
    for name in genius.__all__:
        assert getattr(genius, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        genius.nonsense  # noqa: B018
