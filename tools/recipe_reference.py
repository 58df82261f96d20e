"""Writes docs/recipes.md from the settings classes: `python tools/recipe_reference.py docs/recipes.md`."""

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

from genius.train.recipe import Recipe

_INTRODUCTION = """# Recipes

A recipe is a TOML file that says how a model is trained: `genius train RECIPE --tree TREE -o model/`. An
unknown key is an error that suggests the nearest known one. `recipes/` has `demo`, `minibeir` (for our
benchmark), `paper` and `reference` (the method as published) and `mbeir-paper` and `mbeir-best`
(full scale, for a GPU); `recipes/rivals/` has GRACE, IRGen, TIGER, DSI and PRO, as settings of the same
trainer.

All keys with their defaults follow. The page is generated from the settings classes by `make docs`; a test
compares the two.
"""


def recipe_page() -> str:
    """The page: a table of keys for each table of a recipe."""
    return "\n".join([_INTRODUCTION, *_sections(Recipe, ())])


def _sections(settings: type, path: tuple[str, ...]) -> list[str]:
    """The lines on one settings class, then those on the settings classes that are its fields."""
    title = f"## `[{'.'.join(path)}]`" if path else "## At the top"
    explanations, hints = _explanations(settings), typing.get_type_hints(settings)
    rows, nested = [], []
    for field in dataclasses.fields(settings):
        inner = _settings_class(hints[field.name])
        if inner is None:
            rows.append(f"| `{field.name}` | {_default(field)} | {explanations.get(field.name, '')} |")
        else:
            nested += _sections(inner, (*path, field.name))
    summary = inspect.cleandoc(settings.__doc__ or "").split("\n\n")[0].replace("\n", " ")
    return [title, "", summary, "", "| key | default | |", "|---|---|---|", *rows, "", *nested]


def _settings_class(hint: Any) -> type | None:
    """The settings class that a field holds, which is a table of its own; None for a plain value."""
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    return next((kind for kind in kinds if isinstance(kind, type) and dataclasses.is_dataclass(kind)), None)


def _default(field: dataclasses.Field[Any]) -> str:
    """A field's default as TOML has it; an empty string where there is none."""
    value = field.default
    if value is dataclasses.MISSING or value is None:
        return ""
    shown = {bool: str(value).lower(), str: f'"{value}"'}.get(type(value), str(value))
    if isinstance(value, tuple):
        shown = str(list(value)).replace("'", '"')
    return f"`{shown}`"


def _explanations(settings: type) -> dict[str, str]:
    """The docstring below each field, by the field's name; those of base classes included."""
    explanations: dict[str, str] = {}
    for base in reversed(settings.__mro__[:-1]):
        body = ast.parse(textwrap.dedent(inspect.getsource(base))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, after in zip(body.body, body.body[1:], strict=False):
            if not (isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)):
                continue
            if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                text = inspect.cleandoc(str(after.value.value))
                explanations[field.target.id] = text.replace("\n", " ").replace("|", "\\|")
    return explanations


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(recipe_page(), encoding="utf-8")
