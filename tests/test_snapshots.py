"""The public surface, as it was last agreed on: signatures, OpenAPI, `--json` outputs, files of artifacts.

A change that is meant is recorded with `UPDATE_SNAPSHOTS=1 pytest tests/test_snapshots.py`, and shows up in
review as a change of the files in `tests/snapshots/`.
"""

from __future__ import annotations

import inspect
import json
import os
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import genius
from genius.cli import app
from genius.encode import pipeline

SNAPSHOTS = Path(__file__).parent / "snapshots"


def compare(name: str, text: str) -> None:
    path = SNAPSHOTS / name
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(text, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == text, f"{name} has changed; see the head of {__file__}"


def shape(value: Any) -> Any:
    """What a JSON value is made of, without what it says."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        kinds = [shape(inner) for inner in value]
        distinct = [kind for place, kind in enumerate(kinds) if kind not in kinds[:place]]
        return sorted(distinct, key=json.dumps)  # which comes first differs from processor to processor
    return type(value).__name__


def ours(kind: type) -> list[type]:
    return [base for base in kind.__mro__ if base.__module__.startswith("genius")]


def signatures() -> list[str]:
    lines = []
    for name in genius.__all__:
        value = getattr(genius, name)
        if inspect.isclass(value):
            lines.append(f"class {name}({', '.join(base.__name__ for base in value.__bases__)})")
            own = {name: value for kind in reversed(ours(value)) for name, value in vars(kind).items()}
            for member, value in sorted(own.items()):
                if member.startswith("_") and member != "__init__":
                    continue
                if isinstance(value, property):
                    lines.append(f"    {member}: property")
                elif isinstance(value, staticmethod | classmethod):
                    lines.append(f"    {type(value).__name__} {member}{inspect.signature(value.__func__)}")
                elif inspect.isfunction(value):
                    lines.append(f"    {member}{inspect.signature(value)}")
        elif callable(value):
            lines.append(f"{name}{inspect.signature(value)}")
    return lines


def test_public_signatures() -> None:
    compare("signatures.txt", "\n".join(signatures()) + "\n")


@pytest.fixture(scope="module")
def home(
    coded_model: Path, coded_home: Path, miniature: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder with an index of the miniature benchmark, results and plots of an examination."""
    folder = tmp_path_factory.mktemp("snapshots")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")
        run("index", miniature, "-m", coded_model, "-o", folder / "index", "--workers", "1")
        run("evaluate", miniature, "-m", coded_model, "-o", folder / "results", "--split", "test")
        run("doctor", coded_model, "--tree", miniature, "--split", "test", "--plots", folder / "doctor")
    return folder


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


def run(*arguments: str | Path) -> str:
    runner = CliRunner(env={"COLUMNS": "120", "NO_COLOR": "1"})
    value = runner.invoke(app, [str(argument) for argument in arguments], catch_exceptions=False)
    # So small a model may be called broken, which the doctor also says by its exit code.
    assert value.exit_code == 0 or arguments[0] == "doctor", value.output
    return value.stdout


def parsed(text: str) -> list[Any]:
    """One JSON value, or one a line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


def test_json_outputs(home: Path, coded_model: Path, miniature: Path) -> None:
    commands: dict[str, tuple[str | Path, ...]] = {
        "search": ("search", home / "index", "red", "-k", "100"),
        "list": ("list", home / "index"),
        "show index": ("show", home / "index"),
        "show model": ("show", coded_model),
        "show collection": ("show", miniature),
        "evaluate": ("evaluate", miniature, "-m", coded_model, "--task", "mscoco_task0", "--pool", "local"),
        "doctor": ("doctor", coded_model, "--tree", miniature, "--split", "test"),
    }
    shapes = {}
    for name, arguments in commands.items():
        shapes[name] = shape(parsed(run(*arguments, "--json")))
    compare("json.txt", json.dumps(shapes, indent=1) + "\n")


def test_files_of_artifacts(home: Path, coded_model: Path, coded_home: Path) -> None:
    def listed(folder: Path) -> list[str]:
        names = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
        return sorted(name for name in names if not name.startswith(("codes/", "runs/")))

    folders = {
        "model": coded_model,
        "index": home / "index",
        "results": home / "results",
        "doctor": home / "doctor",
        "features": next((coded_home / "cache").rglob("manifest.json")).parent,
    }
    compare("files.txt", json.dumps({name: listed(path) for name, path in folders.items()}, indent=1) + "\n")


def test_openapi(home: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("httpx2")
    from starlette.testclient import TestClient

    from genius.serve.app import create_app
    from genius.serve.config import Settings

    service = create_app(genius.Index.open(home / "index"), Settings(home / "index"))
    with TestClient(service, base_url="http://127.0.0.1:8000") as client:
        described = client.get("/openapi.json").json()
    compare("openapi.json", json.dumps(described, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
