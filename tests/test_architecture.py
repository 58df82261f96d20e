"""The rules of the code base, checked: layers, sizes of files and functions, names, light imports."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

import genius

SOURCE = Path(genius.__file__).parent
ROOT = Path(__file__).parents[1]
FILES = sorted(SOURCE.rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = sorted(
    path for folder in ("benchmarks", "tools", "examples") for path in (ROOT / folder).glob("*.py")
)

BASE = (
    "errors",
    "atomic",
    "storage",
    "paths",
    "progress",
    "display",
    "jit",
    "runtime",
    "tensors",
    "download",
)
"""Modules that every layer may import."""
LAYERS = (
    "data",
    "encode",
    "quantize",
    "identifiers",
    "decode",
    "dense_model",
    "model",
    "corpus",
    "search",
    "index",
    "collection",
    "fit",
    "evaluate",
    "doctor",
    "train",
    "published",
    "serve",
    "client",
    "cluster",
    "demo",
    "bench",
    "cli",
)
"""A layer imports only from layers to its left."""

HAND_OVER = {
    ("model", "genius.fit.run.fit_model"),
    ("index", "genius.collection.duplicates.find_duplicates"),
    ("index", "genius.collection.albums.find_albums"),
    ("index", "genius.collection.outliers.find_outliers"),
    ("index", "genius.collection.samples.take_sample"),
    ("index", "genius.collection.drift_groups.drift_between"),
    ("index", "genius.collection.drift_groups.drift_since"),
}
"""The imports to the right: methods of `Model` and `Index` that are the users' names for what a later layer
does, and hand over. Only the types of what they return may be imported beside them."""

MANY_LINES, TOO_MANY_LINES = 400, 600
LINES_OF_A_FUNCTION = 60

CHECKPOINT_READER = (
    "encode/pickled_data.py"  # the one file that may look into a pickle, and executes nothing of it
)
FORBIDDEN = {
    "pickle": "nothing of ours is ever pickled",
    "marshal": "nothing of ours is ever pickled",
    "torchvision": "images are prepared with Pillow and numpy",
    "tests": "the product does not need its tests",
}

RETIRED_PARTS = {
    *("likeness", "nearness", "halves", "gains", "totals", "joined", "ruler", "fair"),
    *("asked", "asking", "whose", "owners", "told", "revive", "leftover", "leftovers"),
    *("remember", "remembered", "remembering", "picture", "pictures"),
}
"""Parts of names for which the field has another word; docs/glossary.md has the table."""
RETIRED_NAMES = {
    *("Part", "Parts", "View", "Here", "Selections", "Waiting", "Refusal", "Gate", "Pool", "Asked", "Asking"),
    *("look", "think", "widen", "narrow", "AWAY"),
}
VAGUE_NAMES = {"some", "there", "mine", "found", "one"}
"""They say nothing; only a comprehension may use them."""


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def layer(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imported_for_types(tree: ast.AST) -> Iterator[str]:
    """What is imported under `if TYPE_CHECKING`, which no running program imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            yield from imported(node)


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_file_keeps_to_its_layer(path: Path) -> None:
    tree = ast.parse(path.read_text())
    here, typed = layer(path), set(imported_for_types(tree))
    assert ast.get_docstring(tree), "says what it is for"
    assert here in (*BASE, *LAYERS, "__init__", "__main__"), "belongs to a layer"
    for name in imported(tree):
        top = name.split(".")[0]
        if top in FORBIDDEN:
            allowed = (top, path.relative_to(SOURCE).as_posix()) == ("pickle", CHECKPOINT_READER)
            assert allowed, FORBIDDEN[top]
        if top != "genius" or here in ("__init__", "__main__"):
            continue
        other = name.split(".")[1]
        if other in LAYERS and (here, name) not in HAND_OVER and name not in typed:
            assert here in LAYERS, f"{here} is a base module and imports no layer"
            assert LAYERS.index(other) <= LAYERS.index(here), f"{here} is left of {other}"


@pytest.mark.parametrize("path", FILES, ids=relative)
def test_the_library_neither_prints_nor_evaluates(path: Path) -> None:
    calls = {
        node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & {"eval", "exec"}
    assert layer(path) == "cli" or "print" not in calls


@pytest.mark.filterwarnings("default::UserWarning")
@pytest.mark.parametrize("path", FILES, ids=relative)
def test_a_file_can_be_read_in_one_sitting(path: Path) -> None:
    lines = len(path.read_text().splitlines())
    assert lines <= TOO_MANY_LINES
    if lines > MANY_LINES:
        warnings.warn(f"{relative(path)} has {lines} lines: is it still one idea?", UserWarning, stacklevel=1)


@pytest.mark.parametrize("path", [*FILES, *SCRIPTS], ids=relative)
def test_functions_are_short(path: Path) -> None:
    if path.name == "kernels.py":
        return
    long = [
        f"{node.name} ({lines} lines)"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := (node.end_lineno or 0) - node.lineno + 1) > LINES_OF_A_FUNCTION
        and not _is_command(node)
    ]
    assert not long


def _is_command(node: ast.AST) -> bool:
    """Options of a command are declared in its signature, which makes it long."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    body = (node.end_lineno or 0) - node.body[0].lineno + 1
    return body <= LINES_OF_A_FUNCTION and node.body[0].lineno - node.lineno > 15


def test_no_two_public_classes_have_one_name() -> None:
    places: defaultdict[str, list[str]] = defaultdict(list)
    for path in FILES:
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(relative(path))
    assert not {name: where for name, where in places.items() if len(where) > 1}


@pytest.mark.parametrize("path", [*FILES, *TESTS, *SCRIPTS], ids=relative)
def test_names_use_the_words_of_the_field(path: Path) -> None:
    assert not list(retired_names(ast.parse(path.read_text())))


def retired_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    comprehended = {
        id(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.comprehension)
        for target in ast.walk(node.target)
    }
    for node in ast.walk(tree):
        name, line = _defined_name(node), getattr(node, "lineno", 0)
        if name is None:
            continue
        parts = {part.lower() for part in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}
        vague = name in VAGUE_NAMES and isinstance(node, ast.arg | ast.Name) and id(node) not in comprehended
        if parts & RETIRED_PARTS or name in RETIRED_NAMES or vague:
            yield line, name


def _defined_name(node: ast.AST) -> str | None:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.arg(arg=name) | ast.Attribute(attr=name):
            return name
        case ast.keyword(arg=name):
            return name
        case ast.Name(id=name, ctx=ast.Store()):
            return name
        case ast.alias(name=name, asname=asname):
            return asname or name.split(".")[-1]
    return None


@pytest.mark.parametrize("folder", [name for name in LAYERS if (SOURCE / name).is_dir()])
def test_a_layer_says_what_it_is_for_and_what_it_may_import(folder: str) -> None:
    docstring = ast.get_docstring(ast.parse((SOURCE / folder / "__init__.py").read_text()))
    assert docstring is not None and len(docstring.split()) > 20
    assert "may import" in docstring.lower()


@pytest.mark.parametrize("path", TESTS, ids=relative)
def test_helpers_of_tests_are_no_test_modules(path: Path) -> None:
    names = imported(ast.parse(path.read_text()))
    assert not [name for name in names if re.search(r"^tests\.(\w+\.)*test_\w+", name)]


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


def test_everything_but_training_works_without_torch() -> None:
    pytest.importorskip("fastapi")
    modules = (
        *("encode.pipeline", "encode.lite", "encode.encoder", "model", "decode.geometry", "corpus.coded"),
        *("search.engine", "search.code_pool", "search.dense", "index.index", "index.inspect", "fit.run"),
        *("evaluate.run", "evaluate.report", "doctor.examine", "doctor.report", "doctor.sheets"),
        *("serve.server", "client.client"),
    )
    code = "import " + ", ".join(f"genius.{module}" for module in modules)
    assert not loaded_by(code) & {"torch", "transformers", "onnx", "matplotlib", "faiss"}


def test_a_client_needs_no_server() -> None:
    assert not loaded_by("from genius import Client") & {"fastapi", "starlette", "uvicorn", "pydantic"}


def test_the_public_names_are_the_promised_ones() -> None:
    assert list(genius.__all__) == sorted(genius.__all__)
    assert set(genius._HOMES) | {"__version__"} == set(genius.__all__)
    for name in genius.__all__:
        assert getattr(genius, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        genius.nonsense  # noqa: B018
