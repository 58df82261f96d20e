"""The scripts of `benchmarks/`, loaded as modules, and the JSON lines that they print."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPTS = Path(__file__).parents[2] / "benchmarks"
RunScript = Callable[..., str]
"""Runs a script by its name with arguments; returns what it printed."""


def load(name: str) -> Any:
    """A script or helper module, loaded anew."""
    spec = importlib.util.spec_from_file_location(f"benchmark_{name}", SCRIPTS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def json_rows(printed: str) -> list[dict[str, Any]]:
    """The JSON lines of what was printed."""
    return [json.loads(line) for line in printed.splitlines() if line.startswith("{")]
