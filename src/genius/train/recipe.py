"""Recipes: TOML files that say how a model is trained, read strictly.

A recipe is exactly the frozen dataclasses below the stages; a key that none of them has is an error that
offers the nearest name, and a value of the wrong type is one too.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from pathlib import Path
from typing import Any, Literal, TypeVar

from genius.errors import InputError

T = TypeVar("T")


def read_toml(path: Path | str) -> dict[str, Any]:
    """The tables of a TOML file. Raises InputError with the line of what is no TOML."""
    path = Path(path)
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise InputError("there is no such recipe", path=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is no TOML: {error}", path=path) from error


def parse(kind: type[T], values: dict[str, Any], *, path: Path | str, inside: str = "") -> T:
    """An instance of the dataclass `kind` from a TOML table; tables inside become dataclasses inside."""
    hints = typing.get_type_hints(kind)
    names = [field.name for field in dataclasses.fields(kind)]  # type: ignore[arg-type]
    for key in values:
        if key not in names:
            raise InputError(f"unknown key {inside}{key}{_suggestion(key, names)}", path=path)
    made = {
        key: _value(hints[key], value, path, f"{inside}{key}")
        for key, value in values.items()
        if key in names
    }
    try:
        return kind(**made)
    except InputError as error:
        raise InputError(
            f"in [{inside.rstrip('.')}]: {error.reason}" if inside else error.reason, path=path
        ) from None
    except TypeError:
        fields = dataclasses.fields(kind)  # type: ignore[arg-type]
        required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        missing = ", ".join(inside + name for name in required if name not in made)
        raise InputError(f"lacks {missing}", path=path) from None


def _suggestion(key: str, names: list[str]) -> str:
    near = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f": did you mean {near[0]}?" if near else f"; known are {', '.join(names)}"


def _value(hint: Any, value: Any, path: Path | str, name: str) -> Any:
    """A TOML value as the type that a field asks for."""
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise InputError(f"{name} should be a table, but is {value!r}", path=path)
        return parse(typing.cast(type[Any], hint), value, path=path, inside=f"{name}.")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value not in arguments:
            raise InputError(
                f"{name} should be one of {', '.join(map(str, arguments))}, but is {value!r}", path=path
            )
        return value
    if origin in (typing.Union, types.UnionType):
        inner = next(argument for argument in arguments if argument is not type(None))
        return _value(inner, value, path, name)
    if origin is tuple:
        if not isinstance(value, list):
            raise InputError(f"{name} should be a list, but is {value!r}", path=path)
        return tuple(_value(arguments[0], entry, path, name) for entry in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise InputError(f"{name} should be a {_WORDS.get(hint, hint.__name__)}, but is {value!r}", path=path)
    return value


_WORDS = {int: "whole number", float: "number", str: "text", bool: "true or false"}
