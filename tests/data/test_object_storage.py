from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from genius.data.chunks import cut, read_chunk
from genius.data.object_storage import ImageInObject, ObjectStorage, url_of
from genius.data.read import read
from genius.errors import InputError
from genius.index.entries import entry_of, item_of, must_be_kept
from tests.data.chunk_sources import in_chunks, whole, write_parquet, write_tables, write_tars

pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("source", "url"),
    [
        ("s3://bucket/a/b.parquet", "s3://bucket/a/b.parquet"),
        (Path("s3://bucket/a"), "s3://bucket/a"),
        (Path("gs://bucket"), "gs://bucket"),
        ("file:///a/b", "file:///a/b"),
        (Path("file:///a/b"), "file:///a/b"),
        ("photos/s3", None),
        ("/s3:/bucket", None),
    ],
)
def test_urls_are_recognised_also_where_they_were_taken_for_paths(
    source: Path | str, url: str | None
) -> None:
    assert url_of(source) == url


def test_tables_below_a_url_are_what_they_are_on_a_disk(tmp_path: Path) -> None:
    for path in (write_tables(tmp_path), write_parquet(tmp_path)):
        stored, local = read(f"file://{path}"), read(path)
        assert isinstance(stored, ObjectStorage)
        items, errors = whole(stored)
        assert items == whole(local)[0]
        assert [error.replace("file://", "") for error in errors] == whole(local)[1]
        assert in_chunks(stored, 6)[0] == items
    assert in_chunks(read(f"file://{tmp_path / 'tables'}"), 6)[2] > 1


def test_images_in_shards_are_read_from_where_they_are(tmp_path: Path) -> None:
    shards = write_tars(tmp_path)
    stored, local = whole(read(f"file://{shards}"))[0], whole(read(shards))[0]
    assert [(item.id, item.text) for item in stored] == [(item.id, item.text) for item in local]
    for item, other in zip(stored, local, strict=True):
        assert item.image is not None and other.image is not None
        assert item.image.read() == other.image.read()
        entry = entry_of(item, b"")
        assert not must_be_kept(item.image) and item_of(entry, tmp_path) == item
    assert isinstance(stored[0].image, ImageInObject)
    shutil.rmtree(shards)
    with pytest.raises(InputError, match=r"file:///.*0.tar cannot be read"):
        stored[0].image.read()


def test_a_file_that_changed_is_named(tmp_path: Path) -> None:
    shards = write_tars(tmp_path)
    collection = read(f"file://{shards}")
    chunks = list(cut(collection, 4))
    assert len(chunks) > 2
    (shards / "1.tar").write_bytes(b"")
    with pytest.raises(InputError, match=r"1.tar: has changed since"):
        for chunk in chunks:
            list(read_chunk(collection, chunk, lambda error: None))


def test_images_by_path_need_a_root_on_a_disk(tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text(json.dumps({"image": "red.jpg"}) + "\n")
    url = f"file://{tmp_path / 'items.jsonl'}"
    items, errors = whole(read(url))
    assert not items and "items.jsonl, line 1: names an image by its path: say with --root" in errors[0]
    (item,) = whole(read(url, root=tmp_path))[0]
    assert item.image_path == tmp_path / "red.jpg"


def test_what_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="neither a table nor a tar file at file:///"):
        whole(read(f"file://{tmp_path}/nothing"))


@pytest.mark.parametrize(
    ("url", "given"),
    [
        ("gs://bucket/shards", "gs://bucket/shards?retry_limit_seconds=30"),
        ("gs://b/shards?scheme=http", "gs://b/shards?scheme=http&retry_limit_seconds=30"),
        ("gs://bucket/shards?retry_limit_seconds=5", "gs://bucket/shards?retry_limit_seconds=5"),
        ("s3://bucket/shards", "s3://bucket/shards"),
    ],
)
def test_google_is_not_tried_for_a_quarter_of_an_hour(
    monkeypatch: pytest.MonkeyPatch, url: str, given: str
) -> None:
    def refuse(uri: str) -> None:
        raise OSError(f"{uri} is tried")

    monkeypatch.setattr("pyarrow.fs.FileSystem", SimpleNamespace(from_uri=refuse))
    with pytest.raises(InputError, match=re.escape(f"{given} is tried")):
        whole(read(url))
