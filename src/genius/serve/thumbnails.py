"""Small pictures of items: written anew, so that nothing but pixels goes out, and kept in memory."""

from __future__ import annotations

import hashlib
import io
import threading
from collections import OrderedDict
from dataclasses import dataclass

from PIL import Image, UnidentifiedImageError

from genius.data.images import FORMATS, load
from genius.data.records import ImageBytes, ImageSource
from genius.errors import InputError

SIZES = (96, 192, 384, 768, 1536)
"""The sides of the squares that small pictures fit into."""
MEDIA_TYPE = "image/webp"
QUALITY = 82


@dataclass(frozen=True)
class Thumbnail:
    """A small picture, and what changes when it does."""

    content: bytes
    tag: str


class Thumbnails:
    """Makes small pictures, and keeps the latest up to so many bytes."""

    def __init__(self, most: int) -> None:
        self._most, self._held = most, 0
        self._kept: OrderedDict[str, Thumbnail] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, source: ImageSource, size: int) -> Thumbnail:
        """The picture in the smallest square that is not below `size`. Raises InputError."""
        side = next((one for one in SIZES if one >= size), SIZES[-1])
        content = source.read()
        tag = f"{hashlib.blake2b(content, digest_size=16).hexdigest()}-{side}"
        with self._lock:
            if tag in self._kept:
                self._kept.move_to_end(tag)
                return self._kept[tag]
        made = Thumbnail(_small(content, side), tag)
        self._keep(made)
        return made

    @property
    def held(self) -> int:
        """How many bytes are kept."""
        return self._held

    def _keep(self, made: Thumbnail) -> None:
        with self._lock:
            if made.tag not in self._kept:
                self._kept[made.tag] = made
                self._held += len(made.content)
            while self._held > self._most:
                _, oldest = self._kept.popitem(last=False)
                self._held -= len(oldest.content)


def _small(content: bytes, side: int) -> bytes:
    picture = load(ImageBytes(content, "of this item"))
    picture.thumbnail((side, side), Image.Resampling.LANCZOS)
    clean = Image.frombytes("RGB", picture.size, picture.tobytes())  # without what the file says of itself
    buffer = io.BytesIO()
    clean.save(buffer, "WEBP", quality=QUALITY, method=2)
    return buffer.getvalue()


def check_picture(content: bytes, pixels: int) -> None:
    """Look at a picture's head before anybody decodes it. Raises InputError."""
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as image:
            width, height = image.size
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise InputError(f"the picture has more than {pixels:,} pixels: make it smaller") from None
    except UnidentifiedImageError:
        raise InputError(f"the picture is none of {', '.join(FORMATS)}") from None
    except (OSError, SyntaxError, ValueError, EOFError, MemoryError) as error:  # Pillow's many ways to fail
        raise InputError(f"the picture is damaged: {error}") from None
    if width * height > pixels:
        raise InputError(
            f"the picture has {width:,} × {height:,} pixels, and {pixels:,} are the most: make it smaller"
        )
