"""Tar archives, made in memory."""

from __future__ import annotations

import gzip
import io
import tarfile


def tarball(files: dict[str, bytes], *, links: dict[str, str] | None = None) -> bytes:
    """A gzipped tar archive of these files, and of symbolic links by their targets."""
    buffer = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=buffer, mode="wb", mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        for name, target in (links or {}).items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = tarfile.SYMTYPE, target
            archive.addfile(member)
    return buffer.getvalue()
