"""What a camera wrote into a photo, as metadata: when it was taken, where, and with what (EXIF)."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

from PIL import ExifTags, Image

from genius.data.images import open_header
from genius.data.records import Scalar

GPS = ExifTags.GPS
DECIMALS = 6
"""Of degrees: a tenth of a metre."""


def read_exif(path: Path) -> dict[str, Scalar]:
    """Metadata of the photo at `path`: `taken`, `latitude`, `longitude`, `camera`, as far as it has them.

    Only the file's header is read. Tags that can't be read are left out: no reason to refuse a photo.
    """
    try:
        with path.open("rb") as file, open_header(file) as image:
            if image.format == "PNG" and "exif" not in image.info:
                return {}  # it may stand behind the pixels, and all of them would be decoded
            exif = image.getexif()
            return {**_tags(_taken, exif), **_tags(_place, exif), **_tags(_camera, exif)}
    except Exception:  # whoever decodes the image will say what is wrong with it
        return {}


def _tags(read: Any, exif: Image.Exif) -> dict[str, Scalar]:
    try:
        metadata: dict[str, Scalar] = read(exif)
    except Exception:  # Pillow has as many errors as there are ways to write broken tags
        return {}
    return metadata


def _taken(exif: Image.Exif) -> dict[str, Scalar]:
    """The time on the camera's clock in ISO 8601, so that the order of texts is the order of time."""
    details = exif.get_ifd(ExifTags.IFD.Exif)
    written = details.get(ExifTags.Base.DateTimeOriginal) or exif.get(ExifTags.Base.DateTime)
    if not written:
        return {}
    return {"taken": datetime.datetime.strptime(_text(written), "%Y:%m:%d %H:%M:%S").isoformat()}


def _place(exif: Image.Exif) -> dict[str, Scalar]:
    gps = exif.get_ifd(ExifTags.IFD.GPSInfo)
    latitude = _degrees(gps.get(GPS.GPSLatitude), gps.get(GPS.GPSLatitudeRef) in ("S", b"S"))
    longitude = _degrees(gps.get(GPS.GPSLongitude), gps.get(GPS.GPSLongitudeRef) in ("W", b"W"))
    if latitude is None or longitude is None or abs(latitude) > 90 or abs(longitude) > 180:
        return {}
    if latitude == longitude == 0:  # what cameras write that don't know where they are
        return {}
    return {"latitude": latitude, "longitude": longitude}


def _degrees(parts: Any, negative: bool) -> float | None:
    """Degrees, minutes and seconds as one number; None where one of them is missing or no number."""
    if not parts or len(parts) != 3:
        return None
    degrees, minutes, seconds = map(float, parts)
    value = degrees + minutes / 60 + seconds / 3600
    return round(-value if negative else value, DECIMALS) if math.isfinite(value) else None


def _camera(exif: Image.Exif) -> dict[str, Scalar]:
    """The maker and the model, of which many begin with the maker already."""
    maker, model = (_text(exif.get(tag, "")) for tag in (ExifTags.Base.Make, ExifTags.Base.Model))
    named = model if model.lower().startswith(maker.lower()) else f"{maker} {model}"
    return {"camera": named.strip()} if named.strip() else {}


def _text(value: Any) -> str:
    text = value.decode() if isinstance(value, bytes) else str(value)
    return " ".join(text.replace("\0", " ").split())
