"""Everything that can go wrong, as a tree.

GeniusError
├── InputError      the user's data or arguments: file, line, field, what is wrong, what would be right
├── MismatchError   artifacts that don't belong together
├── DamagedError    checksums, truncation: a file is not what was written
└── MissingError    an optional dependency, a model or a tool is not there; says what brings it

A message is one sentence for a person, with a way out.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType


class GeniusError(Exception):
    """Any error that genius raises on purpose."""

    exit_code = 1


class InputError(GeniusError):
    """The user's data or arguments are wrong; `where` says in which file and on which line."""

    exit_code = 2

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.line = line
        self.reason = message
        super().__init__(f"{self.where}: {message}" if self.where else message)

    @property
    def where(self) -> str:
        """The file, and the line if one is known: `pool.jsonl, line 17`."""
        if self.path is None:
            return ""
        return str(self.path) if self.line is None else f"{self.path}, line {self.line}"

    def at(self, path: Path | str, line: int | None = None) -> InputError:
        """The same error with a place, unless it names one already."""
        return self if self.path is not None else InputError(self.reason, path=path, line=line)


class MismatchError(GeniusError):
    """Two artifacts don't belong together."""


class DamagedError(GeniusError):
    """A file is not what was written: cut short, altered or gone."""


class MissingError(GeniusError):
    """Something optional is needed here and is not installed or not there."""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional `module`, or say which extra brings it.

    >>> require("json", "parquet", "reading Parquet files").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = module.split(".", maxsplit=1)[0]
        if error.name is not None and error.name.split(".", maxsplit=1)[0] != name:
            raise  # the module is there, and one of its own imports is broken: hiding that helps nobody
        raise MissingError(
            f"{purpose} needs {name}; install it with: pip install 'genius-search[{extra}]'"
        ) from None
