"""Images of items over HTTP."""

from __future__ import annotations

import io
import os
from pathlib import Path

import pytest
from PIL import Image
from starlette.testclient import TestClient

from genius import ImageBytes, ImageFile, Index, InputError, Item
from genius.serve import thumbnails
from genius.serve.config import Limits
from genius.serve.thumbnail_files import CHECK_BYTES, ThumbnailFiles
from genius.serve.thumbnails import ThumbnailCache, check_image
from tests.pictures import encoded, write_square
from tests.serving import Serve


def test_an_item_and_its_image(client: TestClient, served: Path) -> None:
    with Index.open(served) as index:
        item = next(item for item in index if item.image)
        code = index.code(item.id)
    shown = client.get(f"/items/{item.id}").json()
    assert shown["id"] == item.id
    assert tuple(shown["code"]) == code
    assert shown["has_image"]
    assert "image" not in shown  # its path on this machine is private
    answer = client.get(f"/items/{item.id}/image", params={"size": 96})
    assert answer.headers["content-type"] == "image/webp"
    with Image.open(io.BytesIO(answer.content)) as image:
        assert max(image.size) <= 96
    same = client.get(f"/items/{item.id}/image?size=96", headers={"If-None-Match": answer.headers["etag"]})
    assert same.status_code == 304
    with Index.open(served) as index:
        text = next(item for item in index if not item.image)
    assert client.get(f"/items/{text.id}/image").status_code == 404
    assert client.get("/items/nothing").status_code == 404
    assert client.get("/items/nothing/image").status_code == 404


def test_images_lose_the_metadata_of_their_files(serve: Serve, own_index: Path, tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x010E] = "a secret place"
    content = encoded(Image.new("RGB", (2000, 1000), "red"), "JPEG", exif=exif)
    (tmp_path / "a.jpg").write_bytes(content)
    assert b"a secret place" in content
    with Index.open(own_index) as index:
        index.add([Item("a", image=ImageFile(str(tmp_path), "a.jpg"))])
    answer = serve(own_index).get("/items/a/image?size=192")
    assert b"a secret place" not in answer.content
    with Image.open(io.BytesIO(answer.content)) as image:
        assert image.size == (192, 96)
        assert not image.getexif()


def test_a_panorama_is_shown_but_not_taken_from_strangers() -> None:
    """JPEGs of more than 50 megapixels are read from disk at a part of their size, and refused over HTTP."""
    content = encoded(Image.new("L", (14_000, 4_000), 200), "JPEG")
    with pytest.raises(
        InputError, match="the picture has 14,000 × 4,000 pixels, and 50,000,000 are the most"
    ):
        check_image(content, Limits().pixels)
    thumbnail = ThumbnailCache(10**6).get(ImageBytes(content), 96)
    with Image.open(io.BytesIO(thumbnail.content)) as image:
        assert image.width == 96


def test_an_unchanged_file_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, cache = write_square(tmp_path / "a.jpg"), ThumbnailCache(10**6)
    source, read = ImageFile(str(tmp_path), "a.jpg"), ImageFile.read
    reads: list[ImageFile] = []

    def counted(source: ImageFile) -> bytes:
        reads.append(source)
        return read(source)

    monkeypatch.setattr(ImageFile, "read", counted)
    red = cache.get(source, 96)
    assert cache.get(source, 96) == red and len(reads) == 1
    assert cache.get(source, 192).etag != red.etag and len(reads) == 2
    before = path.stat()
    write_square(path, "blue")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # as tools do that copy files
    assert cache.get(source, 96).etag != red.etag
    path.unlink()
    with pytest.raises(InputError, match="cannot read image"):
        cache.get(source, 96)


def test_a_thumbnail_that_was_forgotten_is_made_again(tmp_path: Path) -> None:
    write_square(tmp_path / "a.jpg")
    source, cache = ImageFile(str(tmp_path), "a.jpg"), ThumbnailCache(0)
    assert cache.get(source, 96) == cache.get(source, 96)


def test_another_process_finds_thumbnails_in_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_square(tmp_path / "a.jpg")
    source, folder = ImageFile(str(tmp_path), "a.jpg"), tmp_path / "cache"
    made = ThumbnailCache(10**6, ThumbnailFiles(folder, 10**6)).get(source, 96)
    monkeypatch.setattr(thumbnails, "_shrink", lambda *_: pytest.fail("it is there already"))
    assert ThumbnailCache(10**6, ThumbnailFiles(folder, 10**6)).get(source, 96) == made
    assert folder.stat().st_mode & 0o077 == 0


def test_a_damaged_thumbnail_is_made_again(tmp_path: Path) -> None:
    files = ThumbnailFiles(tmp_path / "cache", 10**6)
    files.add("0123-96", b"some pixels")
    assert files.get("0123-96") == b"some pixels"
    assert files.get("4567-96") is None
    (path,) = (tmp_path / "cache").glob("*/*")
    content = bytearray(path.read_bytes())
    for place in (0, 20, len(content) - 1):
        content[place] ^= 1
        path.write_bytes(content)
        assert files.get("0123-96") is None
        content[place] ^= 1
    path.write_bytes(b"")
    assert files.get("0123-96") is None


def test_the_least_recently_used_go_first(tmp_path: Path) -> None:
    files = ThumbnailFiles(tmp_path / "cache", 700)
    names = [f"{number}0-96" for number in range(9)]
    for age, name in enumerate(names):
        files.add(name, bytes(100 - CHECK_BYTES))
        (path,) = (tmp_path / "cache").glob(f"*/{name}.webp")
        os.utime(path, ns=(age, age))
    assert files.get(names[0])  # now it is the one that was asked for last
    files.trim()
    assert [name for name in names if files.get(name)] == [names[0], *names[5:]]


def test_what_can_not_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file where the folder should be")
    write_square(tmp_path / "a.jpg")
    cache = ThumbnailCache(10**6, ThumbnailFiles(tmp_path / "cache", 10**6))
    assert cache.get(ImageFile(str(tmp_path), "a.jpg"), 96).content
