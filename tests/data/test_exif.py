"""What cameras write into photos, made with Pillow, and what is left of it when it is broken."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import ExifTags, Image

import genius
from genius.data.exif import read_exif
from tests.pictures import encoded

BASE, GPS, IFD = ExifTags.Base, ExifTags.GPS, ExifTags.IFD
Tags = Mapping[Any, Any]
WHERE: dict[int, Any] = {
    GPS.GPSLatitudeRef: "N",
    GPS.GPSLatitude: (48.0, 51.0, 29.6),
    GPS.GPSLongitudeRef: "E",
}
WHERE |= {GPS.GPSLongitude: (2.0, 17.0, 40.2)}


def photo(path: Path, tags: Tags, gps: Tags | None = None, taken: str = "") -> Path:
    exif = Image.Exif()
    for tag, value in tags.items():
        exif[tag] = value
    if gps:
        exif.get_ifd(IFD.GPSInfo).update(gps)
    if taken:
        exif.get_ifd(IFD.Exif)[BASE.DateTimeOriginal] = taken
    format = {".png": "PNG", ".webp": "WEBP", ".tif": "TIFF"}.get(path.suffix, "JPEG")
    path.write_bytes(encoded(Image.new("RGB", (8, 8), "red"), format, exif=exif))
    return path


@pytest.mark.parametrize("name", ["a.jpg", "a.png", "a.webp"])
def test_time_place_and_camera(name: str, tmp_path: Path) -> None:
    tags = {BASE.Make: "Apple", BASE.Model: "iPhone 12", BASE.DateTime: "2030:01:01 00:00:00"}
    path = photo(tmp_path / name, tags, WHERE, taken="2024:05:01 18:30:07")
    assert read_exif(path) == {
        "taken": "2024-05-01T18:30:07",
        "latitude": pytest.approx(48.858222),
        "longitude": pytest.approx(2.2945),
        "camera": "Apple iPhone 12",
    }


def test_tiff(tmp_path: Path) -> None:
    """(Pillow writes no inner directories into TIFF files.)"""
    path = photo(tmp_path / "a.tif", {BASE.Make: "Epson", BASE.DateTime: "1999:12:31 23:59:59"})
    assert read_exif(path) == {"taken": "1999-12-31T23:59:59", "camera": "Epson"}


def test_the_south_and_the_west_are_negative(tmp_path: Path) -> None:
    gps = {**WHERE, GPS.GPSLatitudeRef: "S", GPS.GPSLongitudeRef: "W"}
    metadata = read_exif(photo(tmp_path / "a.jpg", {}, gps))
    assert metadata == {"latitude": pytest.approx(-48.858222), "longitude": pytest.approx(-2.2945)}


@pytest.mark.parametrize(
    ("tags", "gps", "taken", "expected"),
    [
        ({}, None, "", {}),
        ({BASE.Make: "Canon", BASE.Model: "Canon EOS 5D\0 "}, None, "", {"camera": "Canon EOS 5D"}),
        ({BASE.DateTime: "2024:02:30 10:00:00"}, None, "", {}),  # no such day
        ({BASE.DateTime: "0000:00:00 00:00:00"}, None, "", {}),  # a clock that was never set
        ({BASE.DateTime: "yesterday"}, WHERE, "", {"latitude": 48.858222, "longitude": 2.2945}),
        ({}, {**WHERE, GPS.GPSLatitude: (91.0, 0.0, 0.0)}, "", {}),
        ({}, {**WHERE, GPS.GPSLatitude: (0.0,) * 3, GPS.GPSLongitude: (0.0,) * 3}, "", {}),
        ({}, {GPS.GPSLatitudeRef: "N", GPS.GPSLatitude: (48.0, 51.0, 29.6)}, "", {}),
    ],
)
def test_what_is_not_known_is_left_out(
    tags: Tags, gps: Tags | None, taken: str, expected: dict[str, Any], tmp_path: Path
) -> None:
    assert read_exif(photo(tmp_path / "a.jpg", tags, gps, taken)) == expected


def test_broken_tags_are_no_error(tmp_path: Path) -> None:
    whole = photo(tmp_path / "a.jpg", {BASE.Make: "Maker", BASE.Model: "One"}, WHERE, "2024:05:01 18:30:07")
    content = whole.read_bytes()
    start, draw = content.index(b"Exif"), random.Random(0)
    for _ in range(300):
        broken = bytearray(content)
        for _ in range(3):
            broken[draw.randrange(start, start + 200)] = draw.randrange(256)
        whole.write_bytes(bytes(broken))
        for value in read_exif(whole).values():
            assert isinstance(value, str | float)
    assert read_exif(tmp_path / "nowhere.jpg") == {}


def test_a_folder_has_it_as_metadata_unless_the_table_says_something_else(tmp_path: Path) -> None:
    photo(tmp_path / "a.jpg", {BASE.Model: "One"}, taken="2024:05:01 18:30:07")
    (tmp_path / "captions.csv").write_text("image,camera,price\na.jpg,mine,3\n")
    (item,) = genius.read(tmp_path)
    assert item.metadata == {"taken": "2024-05-01T18:30:07", "camera": "mine", "price": 3}
    (item,) = genius.read(tmp_path / "a.jpg", exif=False)
    assert item.metadata == {"camera": "mine", "price": 3}
