"""What an artifact says of itself: what it is, what made it, and what its files must be."""

from __future__ import annotations

import contextlib
import datetime
import errno
import hashlib
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from genius import __version__, atomic
from genius.errors import DamagedError, InputError, MismatchError, translate_disk_errors

MANIFEST = "manifest.json"
CHECKSUM = "checksum"
"""In a manifest: SHA-256 of all the rest of it. The fingerprint leaves out when and by what it was made."""
FULL_CHECK_BYTES = 64 * 2**20
"""Files up to this size are checked in full when an artifact is opened."""
SAMPLED_BLOCKS = 64
BLOCK_BYTES = 2**16
_SORTED = orjson.OPT_SORT_KEYS

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What the manifest knows of a file: its size, its SHA-256, and that of sampled blocks if it is large."""

    bytes: int
    sha256: str
    sampled: str | None = None


@dataclass(frozen=True)
class Manifest:
    """What an artifact is, what made it, and what its files must be."""

    kind: str
    format: int
    settings: Json
    counts: Json
    made_from: Mapping[str, str]
    files: Mapping[str, FileRecord]
    made_by: str
    made_at: str
    fingerprint: str

    def to_json(self) -> bytes:
        """The manifest as the bytes of `manifest.json`, with a checksum of all that it says."""
        fields = _fields(self)
        return orjson.dumps({**fields, CHECKSUM: _digest(fields)}, option=_SORTED | orjson.OPT_INDENT_2)

    @classmethod
    def parse(cls, content: bytes, path: Path) -> Manifest:
        """The manifest in `content`. Raises DamagedError if it is not one, or was altered."""
        try:
            fields = orjson.loads(content)
            altered = fields.pop(CHECKSUM, None) not in (None, _digest(fields))  # older ones have none
            files = {name: FileRecord(**record) for name, record in fields.pop("files").items()}
            manifest = cls(files=files, **fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise DamagedError(
                f"{path} is not a manifest of genius ({error}); make the artifact again"
            ) from error
        if altered or manifest.fingerprint != fingerprint_of(manifest):
            raise DamagedError(f"{path} was altered: its fingerprint does not fit; make the artifact again")
        return manifest


def fingerprint_of(manifest: Manifest) -> str:
    """SHA-256 of what the artifact is. When and by which release it was made does not count:
    the same content is the same thing."""
    content = _fields(manifest)
    for name in ("made_by", "made_at", "fingerprint"):
        del content[name]
    return _digest(content)


def _fields(manifest: Manifest) -> Json:
    """What `asdict` gives, without copying what is within."""
    return {**vars(manifest), "files": {name: asdict(record) for name, record in manifest.files.items()}}


def _digest(fields: Json) -> str:
    return hashlib.sha256(orjson.dumps(fields, option=_SORTED)).hexdigest()


def check_file(path: Path, record: FileRecord, verify: bool) -> int:
    """The inode of a file that is what the record says. Raises DamagedError otherwise."""
    try:
        size, inode = path.stat().st_size, path.stat().st_ino
        if size != record.bytes:
            raise DamagedError(
                f"{path} is damaged: {size:,} bytes instead of {record.bytes:,}; make it again"
            )
        if record.sampled is None or verify:
            same = _sha256(path) == record.sha256
        else:
            same = _sampled_sha256(path) == record.sampled
    except FileNotFoundError:
        raise DamagedError(f"{path} is gone; make the artifact again") from None
    except (ValueError, OSError) as error:
        if isinstance(error, OSError) and error.errno != errno.ENAMETOOLONG:
            raise
        raise DamagedError(
            f"the manifest in {path.parent} names a file that can't exist ({path.name[:40]!r}…); make the "
            "artifact again"
        ) from None
    if not same:
        raise DamagedError(f"{path} is damaged: its checksum is not the one that was written; make it again")
    return inode


def record_of(path: Path) -> FileRecord:
    """What a manifest says of the file at `path`."""
    size = path.stat().st_size
    return FileRecord(size, _sha256(path), _sampled_sha256(path) if size > FULL_CHECK_BYTES else None)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sampled_sha256(path: Path) -> str:
    """SHA-256 of blocks spread evenly over the file, its first and last ones among them."""
    digest = hashlib.sha256()
    size = path.stat().st_size
    with path.open("rb") as file:
        for block in range(SAMPLED_BLOCKS):
            file.seek((size - BLOCK_BYTES) * block // (SAMPLED_BLOCKS - 1))
            digest.update(file.read(BLOCK_BYTES))
    return digest.hexdigest()


# --- writing ---------------------------------------------------------------------------------------


@dataclass
class Draft:
    """An artifact that is being written: put files into `folder`, and what they hold into `counts`."""

    folder: Path
    settings: Json
    counts: Json = field(default_factory=dict)
    made_from: dict[str, str] = field(default_factory=dict)

    def write_array(self, name: str, array: np.ndarray) -> None:
        """Write the file `name` of an array in numpy's format.

        `np.save` raises an error without a number on a full disk, which can't be told from others.
        """
        from numpy.lib import format

        array = np.ascontiguousarray(array)
        with (self.folder / name).open("wb") as file:
            format.write_array_header_1_0(file, format.header_data_from_array_1_0(array))
            file.write(array.data if array.size else b"")

    def reuse(self, artifact: Artifact, *names: str) -> None:
        """Take files over from an older artifact: by a hard link where the disk allows it, else by a copy."""
        for name in names:
            target = self.folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(artifact.file(name), target)
            except OSError:
                shutil.copyfile(artifact.file(name), target)


@contextlib.contextmanager
def create(
    path: Path | str,
    *,
    kind: str,
    format: int,
    settings: Json | None = None,
    made_from: Mapping[str, str] | None = None,
) -> Iterator[Draft]:
    """Write the artifact at `path`, replacing an older one of the same kind when the block ends well.

    Raises InputError if something else than an artifact of this kind stands there, DiskError if the disk
    can't store it.
    """
    path = Path(path)
    with translate_disk_errors(path):
        atomic.recover_folder(path)
        check_target(path, kind)
        with atomic.write_folder(path) as folder:
            draft = Draft(folder, dict(settings or {}), made_from=dict(made_from or {}))
            yield draft
            _seal(draft, kind, format)


def _seal(draft: Draft, kind: str, format: int) -> None:
    """Write the manifest over the draft's files, and everything to the disk."""
    names = sorted(p.relative_to(draft.folder).as_posix() for p in draft.folder.rglob("*") if p.is_file())
    files = {name: record_of(draft.folder / name) for name in names}
    atomic.sync_all([draft.folder / name for name in names])
    manifest = Manifest(
        kind=kind,
        format=format,
        settings=draft.settings,
        counts=draft.counts,
        made_from=draft.made_from,
        files=files,
        made_by=f"genius {__version__}",
        made_at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        fingerprint="",
    )
    # Settings may hold tuples or enums: what counts is what a reader will see.
    settled = orjson.loads(orjson.dumps(asdict(manifest)))
    manifest = Manifest(**{**settled, "files": files})
    object.__setattr__(manifest, "fingerprint", fingerprint_of(manifest))
    (draft.folder / MANIFEST).write_bytes(manifest.to_json())
    atomic.sync(draft.folder / MANIFEST)
    atomic.sync_all([draft.folder, *(p for p in draft.folder.rglob("*") if p.is_dir())])


def check_target(path: Path, kind: str) -> None:
    """Raise InputError if something is at `path` that an artifact of this kind may not overwrite."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    existing = read_manifest(path).kind if is_artifact(path) else None
    if existing != kind:
        what = f"an artifact of kind {existing!r}" if existing else "no artifact of genius"
        raise InputError(
            f"is {what}, so it is not overwritten: choose another place for the {kind}", path=path
        )


# --- reading ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Artifact:
    """An artifact that was found whole when it was opened."""

    path: Path
    manifest: Manifest
    _inodes: Mapping[str, int]

    @property
    def fingerprint(self) -> str:
        """What identifies the artifact's content."""
        return self.manifest.fingerprint

    def file(self, name: str) -> Path:
        """The path of one of its files. Raises DamagedError if another artifact has since taken its place."""
        path = self.path / name
        if name not in self._inodes:
            raise DamagedError(f"{self.path} holds no {name}; make the {self.manifest.kind} again")
        if not path.exists() or path.stat().st_ino != self._inodes[name]:
            raise DamagedError(f"{self.path} was replaced while it was open; open it again")
        return path


def is_artifact(path: Path | str) -> bool:
    """Whether `path` is a folder with a manifest."""
    return Path(path, MANIFEST).is_file()


def read_manifest(path: Path | str) -> Manifest:
    """The manifest of the artifact at `path`, without a look at its files."""
    file = Path(path, MANIFEST)
    try:
        return Manifest.parse(file.read_bytes(), file)
    except FileNotFoundError:
        if not Path(path).exists():
            raise InputError("there is nothing here", path=path) from None
        raise InputError(f"is no artifact of genius: it has no {MANIFEST}", path=path) from None


def open(
    path: Path | str, *, kind: str | None = None, format: int | None = None, verify: bool = False
) -> Artifact:
    """Open the artifact at `path`, if it is what is expected and whole.

    Small files are checked in full, files over 64 MB by their size and sampled blocks; `verify` checks
    all in full. Raises InputError (nothing there), MismatchError (another kind or format), DamagedError or
    DiskError.
    """
    path = Path(path)
    with translate_disk_errors(path, "opened"):
        return _open(path, kind, format, verify)


def _open(path: Path, kind: str | None, format: int | None, verify: bool) -> Artifact:
    atomic.recover_folder(path)
    while True:
        manifest = read_manifest(path)
        _check_kind(path, manifest, kind, format)
        try:
            inodes = {
                name: check_file(path / name, record, verify) for name, record in manifest.files.items()
            }
            return Artifact(path, manifest, inodes)
        except DamagedError:
            # A writer may have swapped in a new artifact between our two looks; then look at that one.
            if read_manifest(path).fingerprint == manifest.fingerprint:
                raise


def _check_kind(path: Path, manifest: Manifest, kind: str | None, format: int | None) -> None:
    if kind is not None and manifest.kind != kind:
        raise MismatchError(
            f"{path} holds {manifest.kind}, but {kind} is needed here: give the path of {kind}"
        )
    if format is not None and manifest.format != format:
        way_out = "update genius" if manifest.format > format else "make it again"
        raise MismatchError(
            f"{path} has format {manifest.format} of {manifest.kind} (made by {manifest.made_by}), "
            f"but genius {__version__} reads format {format}: {way_out}"
        )
