"""Thumbnails of items' images: encoded anew, so that only pixels leave the machine, and cached in memory and
on disk."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

from genius.data.images import FORMATS, load
from genius.data.records import ImageBytes, ImageFile, ImageSource
from genius.errors import InputError
from genius.serve.thumbnail_files import ThumbnailFiles

SIZES = (96, 192, 384, 768, 1536)
"""The sides, in pixels, of the squares that thumbnails fit into."""
MEDIA_TYPE = "image/webp"
QUALITY = 82
MOST_FILES = 20_000
"""So many files are known by their size and times, each in some hundred bytes."""


@dataclass(frozen=True)
class Thumbnail:
    """A small image; its `etag` changes when its source or its size does."""

    content: bytes
    etag: str


class ThumbnailCache:
    """Makes thumbnails; keeps the most recently used ones up to `max_bytes`, and more of them in files."""

    def __init__(self, max_bytes: int, files: ThumbnailFiles | None = None) -> None:
        self._max_bytes, self._bytes, self._files = max_bytes, 0, files
        self._thumbnails: OrderedDict[str, Thumbnail] = OrderedDict()
        self._etags: OrderedDict[Hashable, str] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, source: ImageSource, size: int) -> Thumbnail:
        """The image, in the smallest of the `SIZES` that is at least `size`. Raises InputError."""
        side = next((side for side in SIZES if side >= size), SIZES[-1])
        state = _state(source)
        if (known := self._known(self._etags.get((state, side)) if state else None)) is not None:
            return known
        content = source.read()
        etag = f"{hashlib.blake2b(content, digest_size=16).hexdigest()}-{side}"
        thumbnail = self._known(etag)
        if thumbnail is None:
            thumbnail = Thumbnail(self._from_files(etag) or self._made(content, side, etag), etag)
            self._add(thumbnail)
        if state:
            self._note_state((state, side), etag)
        return thumbnail

    def _from_files(self, etag: str) -> bytes | None:
        return None if self._files is None else self._files.get(etag)

    def _made(self, content: bytes, side: int, etag: str) -> bytes:
        thumbnail = _shrink(content, side)
        if self._files is not None:
            self._files.add(etag, thumbnail)
        return thumbnail

    def _known(self, etag: str | None) -> Thumbnail | None:
        with self._lock:
            if etag is None or etag not in self._thumbnails:
                return None
            self._thumbnails.move_to_end(etag)
            return self._thumbnails[etag]

    def _note_state(self, key: Hashable, etag: str) -> None:
        """What a file's thumbnail was, so that an unchanged file is not read again."""
        with self._lock:
            self._etags[key] = etag
            while len(self._etags) > MOST_FILES:
                self._etags.popitem(last=False)

    def _add(self, thumbnail: Thumbnail) -> None:
        with self._lock:
            if thumbnail.etag not in self._thumbnails:
                self._thumbnails[thumbnail.etag] = thumbnail
                self._bytes += len(thumbnail.content)
            while self._bytes > self._max_bytes:
                _, oldest = self._thumbnails.popitem(last=False)
                self._bytes -= len(oldest.content)


def _state(source: ImageSource) -> Hashable:
    """What changes with a file's content; None for images that are not in a file of their own."""
    if not isinstance(source, ImageFile):
        return None
    try:
        status = source.file.stat()
    except OSError:
        return None  # reading it says why
    return (
        str(source.file),
        status.st_dev,
        status.st_ino,
        status.st_size,
        status.st_mtime_ns,
        status.st_ctime_ns,
    )


def _shrink(content: bytes, side: int) -> bytes:
    image = load(ImageBytes(content, "of this item"))
    image.thumbnail((side, side), Image.Resampling.LANCZOS)
    clean = Image.frombytes("RGB", image.size, image.tobytes())  # without the file's metadata
    buffer = io.BytesIO()
    clean.save(buffer, "WEBP", quality=QUALITY, method=2)
    return buffer.getvalue()


def check_image(content: bytes, max_pixels: int) -> None:
    """Read an image's header before anything decodes it. Raises InputError."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise InputError(f"the picture has more than {max_pixels:,} pixels: make it smaller") from None
    except UnidentifiedImageError:
        raise InputError(f"the picture is none of {', '.join(FORMATS)}") from None
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:  # Pillow's many ways to fail
        raise InputError(f"the picture is damaged: {error}") from None
    if width * height > max_pixels:
        raise InputError(
            f"the picture has {width:,} × {height:,} pixels, and {max_pixels:,} are the most: make it smaller"
        )
