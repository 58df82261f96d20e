"""Every error that genius raises on purpose.

GeniusError
├── InputError             the user's data or arguments: file, line, field, what is wrong, what would be right
│   └── ItemError          the same, of one item among several
├── MismatchError          artifacts that don't belong together
├── DamagedError           a file is not what was written: wrong checksum, cut short or gone
├── MissingError           an optional dependency, a model or a tool is missing; says how to get it
├── DiskError              a disk is full, read-only or failing
├── FilterTimeoutError     a filter takes longer to evaluate than it may
└── ShardError             a shard on another machine does not answer

A message is one sentence for a person: what is wrong, and what to do about it.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType


class GeniusError(Exception):
    """Any error that genius raises on purpose."""

    exit_code = 1


class InputError(GeniusError):
    """The user's data or arguments are wrong.

    Attributes:
        path: the file that is wrong, if there is one.
        line: the line of that file, if it is known.
        reason: the message without the place, for readers who should not learn where files are.
    """

    exit_code = 2

    def __init__(self, message: str, *, path: Path | str | None = None, line: int | None = None) -> None:
        self.path = None if path is None else Path(path)
        self.line = line
        self.reason = message
        super().__init__(f"{self.where}: {message}" if self.where else message)

    @property
    def where(self) -> str:
        """The file, and the line if it is known: `pool.jsonl, line 17`."""
        if self.path is None:
            return ""
        return str(self.path) if self.line is None else f"{self.path}, line {self.line}"

    def at(self, path: Path | str, line: int | None = None) -> InputError:
        """The same error with a place, unless it has one already."""
        return self if self.path is not None else InputError(self.reason, path=path, line=line)


class ItemError(InputError):
    """One of several items is wrong.

    Attributes:
        id: the item's id.
        why: what is wrong, without naming the item.
        file: the file that is wrong, if there is one.
    """

    def __init__(self, id: str, error: InputError) -> None:
        super().__init__(f"item {id!r}: {error}")
        self.id, self.why, self.file = id, error.reason, error.path
        self.reason = f"item {id!r}: {error.reason}"


class MismatchError(GeniusError):
    """Two artifacts don't belong together."""


class DamagedError(GeniusError):
    """A file is not what was written: cut short, altered or gone."""


class MissingError(GeniusError):
    """Something optional is needed here, but is not installed or does not exist."""


WRITTEN = "written to"
_MAKE_ROOM = "make room there and do it again"
_GIVE_RIGHTS = "give the user who runs this the right to, or take a copy"
DISK_ADVICE = {
    errno.ENOSPC: _MAKE_ROOM,
    errno.EDQUOT: _MAKE_ROOM,
    errno.EROFS: _GIVE_RIGHTS,
    errno.EACCES: _GIVE_RIGHTS,
    errno.EPERM: _GIVE_RIGHTS,
    errno.EIO: "look whether the disk is sound",
    errno.EINTR: "do it again",  # Python itself repeats reads and writes, but no renaming
}
"""What to do about each error number that a DiskError can have."""


class DiskError(GeniusError):
    """A disk can't store what is written, or may not be used.

    Args:
        place: the file or folder.
        number: an error number of `DISK_ADVICE`.
        doing: what was tried with the place, as in "opened".
        what: what is wrong, if the error number's own words don't say it.

    Attributes:
        reason: what is wrong, without the place.
    """

    def __init__(self, place: Path | str, number: int, doing: str, what: str | None = None) -> None:
        self.reason = what or os.strerror(number)
        kept = "; what was committed before is there" if doing == WRITTEN else ""
        super().__init__(f"{place} could not be {doing}: {self.reason}{kept}: {DISK_ADVICE[number]}")


@contextlib.contextmanager
def translate_disk_errors(path: Path, doing: str = WRITTEN) -> Iterator[None]:
    """Within, an error of the disk is raised as a DiskError; `doing` says what failed, as in "opened"."""
    try:
        yield
    except OSError as error:
        if error.errno not in DISK_ADVICE:
            raise
        raise DiskError(error.filename or path, error.errno, doing) from error


class FilterTimeoutError(GeniusError):
    """A filter takes longer to evaluate than it may."""


class ShardError(GeniusError):
    """A shard that is served on other machines does not answer."""


def require(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional `module`. Raises MissingError that names the extra to install.

    >>> require("json", "parquet", "reading Parquet files").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        name = module.split(".", maxsplit=1)[0]
        if error.name is not None and error.name.split(".", maxsplit=1)[0] != name:
            raise  # the module is installed, but one of its own imports is broken: hiding that helps nobody
        raise MissingError(f"{purpose} needs {name}; install it with: {_install_command(extra)}") from None


def _install_command(extra: str) -> str:
    """What installs an extra of this package in the way in which the package itself was installed."""
    import json
    from importlib import metadata
    from urllib.parse import unquote, urlsplit

    try:
        source = metadata.distribution("genius-search").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        return f"pip install '.[{extra}]', in a clone of genius"
    if source is None:
        return f"pip install 'genius-search[{extra}]'"
    described = json.loads(source)
    url, folder = described["url"], Path(unquote(urlsplit(described["url"]).path))
    if url.startswith("file:") and folder.is_dir():
        editable = "-e " if described.get("dir_info", {}).get("editable") else ""
        return f"pip install {editable}'{folder}[{extra}]'"
    version_control = f"{described['vcs_info']['vcs']}+" if "vcs_info" in described else ""
    return f"pip install 'genius-search[{extra}] @ {version_control}{url}'"
