from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from genius import ImageFile, Item, storage
from genius.errors import DamagedError
from genius.index.inspect import describe
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, open_made_up


@pytest.fixture
def index(tmp_path: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(tmp_path / "index") as index:
        index.add(made_up_items(9))
        yield index


def test_what_is_in_an_index(index: MadeUpIndex) -> None:
    index.remove("item-1")
    about = describe(index.path, verify=True)
    assert (about["kind"], about["items"], about["segments"], about["tombstones"]) == ("index", 8, 1, 1)
    assert about["modalities"] == {"image": 3, "text": 2, "pair": 3}
    assert about["version"] == index.version
    files = sum(path.stat().st_size for path in index.path.rglob("*") if path.is_file())
    assert about["bytes"] == files


def test_verify_counts_images_that_are_not_where_they_were(index: MadeUpIndex, tmp_path: Path) -> None:
    for name in ("a.jpg", "b.jpg"):
        (tmp_path / name).write_bytes(name.encode())
    index.add([Item(name, image=ImageFile(str(tmp_path), name)) for name in ("a.jpg", "b.jpg")])
    assert describe(index.path, verify=True)["missing_images"] == 0
    (tmp_path / "b.jpg").rename(tmp_path / "c.jpg")
    assert describe(index.path, verify=True)["missing_images"] == 1
    assert "missing_images" not in describe(index.path)


def test_verify_notices_items_that_only_the_segments_have(index: MadeUpIndex) -> None:
    index._catalogue._query("DELETE FROM items WHERE item_key = 2")
    describe(index.path)
    with pytest.raises(DamagedError, match="don't name the same items"):
        describe(index.path, verify=True)


def test_a_wrong_count_of_a_segment_is_noticed(index: MadeUpIndex) -> None:
    index._catalogue._query("UPDATE segments SET items = 8")
    with pytest.raises(DamagedError, match="names 8 items of segment 1, which has 9"):
        describe(index.path)


def test_an_altered_item_is_refused_when_it_is_read(index: MadeUpIndex) -> None:
    index._catalogue._query("UPDATE items SET text = 'another text' WHERE id = 'item-1'")
    for read in (lambda: index.get("item-1"), lambda: list(index), lambda: index.search("text", k=9)):
        with pytest.raises(DamagedError, match="item 'item-1' is not what was written"):
            read()


def test_what_samples_miss_in_a_large_file_verify_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "FULL_CHECK_BYTES", 100)
    monkeypatch.setattr(storage, "SAMPLED_BLOCKS", 2)
    monkeypatch.setattr(storage, "BLOCK_BYTES", 8)
    path = tmp_path / "index"
    with open_made_up(path) as index:
        index.add(made_up_items(8))
    for name in ("hi", "item_keys", "embeddings_int8", "embeddings", "half_sq_norms"):
        file = path / f"segments/00000001/{name}.npy"
        whole = bytearray(file.read_bytes())
        altered = bytes([*whole[:130], whole[130] ^ 32, *whole[131:]])  # behind the header
        file.write_bytes(altered)
        describe(path)
        with pytest.raises(DamagedError, match=rf"{name}\.npy is damaged"):
            describe(path, verify=True)
        file.write_bytes(whole[:-1])
        with pytest.raises(DamagedError, match=rf"{name}\.npy is damaged"):
            describe(path)
        file.write_bytes(whole)
    describe(path, verify=True)
