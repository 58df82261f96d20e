from __future__ import annotations

import contextlib
import io
import json
import tarfile
import tracemalloc
from pathlib import Path
from typing import Literal

import pytest

import genius
from genius.data.images import load
from genius.data.records import ImageInTar, Item
from genius.data.webdataset import MOST_BYTES
from genius.errors import InputError
from tests.pictures import square


def write_tar(path: Path, members: dict[str, bytes], mode: Literal["w", "w:gz"] = "w") -> Path:
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


def sample(key: str, colour: str) -> dict[str, bytes]:
    """A sample as img2dataset writes it."""
    fields = {
        "caption": f"A {colour} square.",
        "url": "x",
        "key": key,
        "status": "success",
        "width": 24,
        "exif": "{}",
    }
    return {
        f"{key}.jpg": square(colour),
        f"{key}.json": json.dumps(fields).encode(),
        f"{key}.txt": f"A {colour} square.".encode(),
    }


def test_shards_of_a_folder(tmp_path: Path) -> None:
    write_tar(tmp_path / "00000.tar", sample("000000000", "red") | sample("000000001", "blue"))
    write_tar(tmp_path / "00001.tar", sample("000010000", "lime"))
    (tmp_path / "00000_stats.json").write_text("{}")
    collection = genius.read(tmp_path)
    items = list(collection)
    assert collection.kind == "WebDataset"
    assert [item.id for item in items] == ["000000000", "000000001", "000010000"]
    assert items[1].text == "A blue square."
    assert items[1].metadata == {"url": "x", "status": "success", "width": 24}
    for item, colour in zip(items, [(254, 0, 0), (0, 0, 254), (0, 255, 1)], strict=True):
        assert item.image is not None
        assert load(item.image).getpixel((0, 0)) == colour  # found by its place in the archive


def test_samples_may_lack_parts(tmp_path: Path) -> None:
    members = {
        "a.txt": b"Words.",
        "b.json": b'{"caption": "From JSON."}',
        "x/c.png": square("red", "PNG"),
        "d.cls": b"1",
    }
    items = list(genius.read(write_tar(tmp_path / "a.tar", members)))
    assert items[:2] == [Item("a", "Words."), Item("b", "From JSON.")]
    assert (items[2].id, type(items[2].image)) == ("x/c", ImageInTar)
    assert len(items) == 3


@pytest.mark.parametrize("name", ["../outside.jpg", "/etc/outside.jpg", "x/../../outside.jpg"])
def test_a_member_outside_the_folder(tmp_path: Path, name: str) -> None:
    path = write_tar(tmp_path / "a.tar", {name: square(), **sample("1", "red")})
    collection = genius.read(path)
    assert [item.id for item in collection] == ["1"]
    assert str(collection.failures.first[0]).startswith(f"{path}: member {name!r} leaves the folder")


def test_links_inside_a_tar_are_not_followed(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", sample("1", "red"))
    with tarfile.open(path, "a") as archive:
        link = tarfile.TarInfo("2.jpg")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    collection = genius.read(path)
    assert [item.id for item in collection] == ["1"]
    assert "member '2.jpg' is a link or a device" in str(collection.failures.first[0])


def test_damaged_and_compressed_archives(tmp_path: Path) -> None:
    path = write_tar(tmp_path / "a.tar", sample("1", "red"))
    content = path.read_bytes()
    path.write_bytes(b"\xff" * 600 + content)
    with pytest.raises(InputError, match=r"a.tar: is no whole uncompressed tar file"):
        list(genius.read(path))
    write_tar(path, sample("1", "red"), "w:gz")
    with pytest.raises(InputError, match=r"a.tar: is no whole uncompressed tar file"):
        list(genius.read(path))


@pytest.mark.parametrize("content", [b"[1]", b"{", b"\xff"])
def test_broken_json_in_a_sample(tmp_path: Path, content: bytes) -> None:
    path = write_tar(tmp_path / "a.tar", {**sample("1", "red"), "2.txt": b"x", "2.json": content})
    collection = genius.read(path)
    assert [item.id for item in collection] == ["1"]
    assert "sample '2': " in str(collection.failures.first[0])


@pytest.mark.parametrize("kind", [tarfile.XHDTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.REGTYPE])
def test_a_header_that_claims_gigabytes_takes_no_memory(tmp_path: Path, kind: bytes) -> None:
    header = tarfile.TarInfo("2.txt")
    header.type, header.size = kind, 2 << 30
    path = write_tar(tmp_path / "a.tar", sample("1", "red"))
    content = path.read_bytes().rstrip(b"\0")
    path.write_bytes(content + bytes(-len(content) % 512) + header.tobuf() + b"4 x=" + bytes(1020))
    tracemalloc.start()
    try:
        collection = genius.read(path)
        with contextlib.suppress(InputError):
            assert {item.id for item in collection} <= {"1"}
        assert collection.failures.count >= 1
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_a_text_of_a_whole_book_shelf_fails_alone(tmp_path: Path) -> None:
    members = {**sample("1", "red"), "2.txt": bytes(MOST_BYTES + 1), **sample("3", "blue")}
    collection = genius.read(write_tar(tmp_path / "a.tar", members))
    assert [item.id for item in collection] == ["1", "3"]
    assert "sample '2': its .txt has more than 16,777,216 bytes" in str(collection.failures.first[0])
