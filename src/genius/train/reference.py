"""Writes docs/recipes.md from the settings themselves: `python -m genius.train.reference docs/recipes.md`."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import sys
import textwrap
import types
import typing
from pathlib import Path
from typing import Any

from genius.train.plan import Recipe

_HEAD = """# Recipes

A recipe is a TOML file that says how a model is trained: `genius train RECIPE --tree TREE -o model/`. An
unknown key is an error that offers the nearest name. Those in `recipes/` are `demo`, `minibeir` (our
benchmark's), `paper` and `reference` (the method as published) and `mbeir-clip` (full scale, needs GPUs).

Below are all keys with their defaults. The page is made from the settings by `make docs`, and a test keeps it
true.
"""


def reference() -> str:
    """The page: a table of keys for each table of a recipe."""
    return "\n".join([_HEAD, *_sections(Recipe, ())])


def _sections(kind: type, path: tuple[str, ...]) -> list[str]:
    """The table of one kind of settings, and those of what is inside."""
    title = f"## `[{'.'.join(path)}]`" if path else "## At the top"
    meant, hints = _meanings(kind), typing.get_type_hints(kind)
    lines, inner = [], []
    for field in dataclasses.fields(kind):
        settings = _settings(hints[field.name])
        if settings is None:
            lines.append(f"| `{field.name}` | {_default(field)} | {meant.get(field.name, '')} |")
        else:
            inner += _sections(settings, (*path, field.name))
    said = inspect.cleandoc(kind.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return [title, "", said, "", "| key | default | |", "|---|---|---|", *lines, "", *inner]


def _settings(hint: Any) -> type | None:
    """The kind of settings that a field holds, if it holds some: a table of its own."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return next((kind for kind in kinds if dataclasses.is_dataclass(kind)), None)  # type: ignore[return-value]


def _default(field: dataclasses.Field[Any]) -> str:
    """A default as TOML has it; nothing where there is none."""
    value = field.default
    if value is dataclasses.MISSING or value is None:
        return ""
    shown = {bool: str(value).lower(), str: f'"{value}"'}.get(type(value), str(value))
    if isinstance(value, tuple):
        shown = str(list(value)).replace("'", '"')
    return f"`{shown}`"


def _meanings(kind: type) -> dict[str, str]:
    """The sentence below each field, by name; those of a kind that it is made from, too."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for one, below in zip(body.body, body.body[1:], strict=False):
            is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
            if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name) and is_text:
                said = inspect.cleandoc(str(below.value.value))  # type: ignore[attr-defined]
                found[one.target.id] = said.replace("\n", " ").replace("|", "\\|")
    return found


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(reference(), encoding="utf-8")
