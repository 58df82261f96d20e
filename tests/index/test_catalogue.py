from __future__ import annotations

import sqlite3
import threading
from pathlib import Path

import numpy as np
import pytest

from genius.data.records import ImageBytes, ImageFile, ImageInTar, Item
from genius.errors import DamagedError, GeniusError, InputError, MismatchError
from genius.index.catalogue import FILE, Catalogue, SegmentEntry
from genius.index.checksums import FORMAT
from genius.index.entries import Entry, entry_of, image_hash_of, item_of

ITEMS = [
    Item(
        "a", "a text with \0 and ü and 🙂", None, {"price": 3.5, "brand": "acme", "new": True, "none": None}
    ),
    Item("b/../'; DROP TABLE items; --", None, ImageFile("/photos", "b.jpg"), {"price": 70}),
    Item("c", "both", ImageInTar("/shard.tar", "c.png", 512, 9)),
    Item("d", None, ImageBytes(b"bytes of d", "d.webp")),
]


def entries() -> list[Entry]:
    image_hash = image_hash_of(ITEMS[-1])
    return [entry_of(item, image_hash if item.image else None) for item in ITEMS]


@pytest.fixture
def catalogue(tmp_path: Path) -> Catalogue:
    Catalogue.create(tmp_path, {"model": {"path": "m"}, "width": 7})
    catalogue = Catalogue(tmp_path)
    catalogue.commit(entries(), SegmentEntry(1, len(ITEMS), "abc"))
    kept = [(entry.id, entry.image_hash or b"", b"bytes of d") for entry in entries()[3:]]
    catalogue.keep_images([("other", b"", b"other"), *kept])
    return catalogue


def test_what_is_committed_is_read_again(catalogue: Catalogue) -> None:
    assert catalogue.settings() == {"model": {"path": "m"}, "width": 7}
    assert len(catalogue) == 4
    by_key = catalogue.entries([4, 1, 3, 2, 99])
    assert [by_key[key] for key in (1, 2, 3, 4)] == entries()
    items = [item_of(by_key[key], catalogue.path) for key in (1, 2, 3, 4)]
    assert items[:3] == ITEMS[:3]
    assert (items[3].id, items[3].metadata, items[3].modality) == ("d", {}, ITEMS[3].modality)
    assert items[3].image is not None
    assert items[3].image.read() == b"bytes of d"
    assert list(catalogue.walk()) == [(key, by_key[key]) for key in (1, 2, 3, 4)]
    assert catalogue.modalities() == {0: 2, 1: 1, 2: 1}
    assert catalogue.keys_of(["d", "nobody"]) == {"d": 4}
    assert catalogue.stored(["d", "nobody"]) == {"d": (4, by_key[4])}


def test_relative_images_are_kept_by_their_whole_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.jpg").write_bytes(b"here")
    item = item_of(entry_of(Item("a", None, ImageFile(".", "a.jpg")), None), tmp_path)
    monkeypatch.chdir("/")
    assert item.image is not None
    assert item.image.read() == b"here"


def test_the_content_hash_is_of_everything() -> None:
    item = Item("a", "text", ImageFile("/r", "p.jpg"), {"n": 1})
    others = [
        entry_of(Item("b", "text", ImageFile("/r", "p.jpg"), {"n": 1}), b"k"),
        entry_of(Item("a", "texts", ImageFile("/r", "p.jpg"), {"n": 1}), b"k"),
        entry_of(Item("a", "text", ImageFile("/r", "q.jpg"), {"n": 1}), b"k"),
        entry_of(Item("a", "text", ImageFile("/r", "p.jpg"), {"n": 2}), b"k"),
        entry_of(item, b"l"),
    ]
    assert entry_of(item, b"k") == entry_of(item, b"k")
    assert entry_of(item, b"k").content_hash not in [other.content_hash for other in others]
    with pytest.raises(InputError, match="can't be kept"):
        entry_of(Item("a", "half \ud800"), None)


def test_replacing_is_one_commit(catalogue: Catalogue) -> None:
    before = catalogue.state()
    new = entry_of(Item("a", "another"), None)
    catalogue.commit([new], SegmentEntry(2, 1, "def"), replaced=[1])
    assert catalogue.state().version == before.version + 1
    assert catalogue.stored(["a"]) == {"a": (5, new)}
    assert len(catalogue) == 4
    np.testing.assert_array_equal(catalogue.tombstones(), [1])
    assert catalogue.segments() == [SegmentEntry(1, 4, "abc"), SegmentEntry(2, 1, "def")]
    with pytest.raises(DamagedError):  # an id twice: nothing of it happens
        catalogue.commit([entry_of(Item("z", "z"), None), new], SegmentEntry(3, 2, "ghi"))
    assert len(catalogue) == 4
    assert catalogue.keys_of(["z"]) == {}


def test_a_reader_stays_on_its_version(catalogue: Catalogue) -> None:
    other = Catalogue(catalogue.path.parent)
    with other.reading():
        catalogue.commit([entry_of(Item("new", "new"), None)], SegmentEntry(2, 1, "def"), replaced=[2])
        assert other.state().version == 1
        assert len(other) == 4
        assert set(other.entries([1, 2, 5])) == {1, 2}
    assert other.state().version == 2
    assert set(other.entries([1, 2, 5])) == {1, 5}
    other.close()
    with pytest.raises(GeniusError, match="was closed"):
        len(other)


def test_threads_read_side_by_side(catalogue: Catalogue) -> None:
    """Each on its own version, through one catalogue."""
    counts = []

    def read() -> None:
        with catalogue.reading():
            counts.append(len(catalogue))

    with catalogue.reading():
        catalogue_of_writer = Catalogue(catalogue.path.parent)
        catalogue_of_writer.commit([entry_of(Item("new", "new"), None)], SegmentEntry(2, 1, "def"))
        catalogue_of_writer.close()
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        counts.append(len(catalogue))
    assert counts == [5, 4]


def test_metadata_can_be_queried_by_bound_parameters(catalogue: Catalogue) -> None:
    query = "SELECT id FROM items WHERE json_extract(metadata, ?) < ?"
    assert catalogue._query(query, '$."price"', 50) == [("a",)]


def test_every_altered_byte_of_an_item_is_noticed(catalogue: Catalogue) -> None:
    catalogue.check()
    for change in ("text = 'other'", "metadata = '{}'", "image_hash = x'00'", "modality = 2", "id = 'e'"):
        catalogue._query("BEGIN")
        catalogue._query(f"UPDATE items SET {change} WHERE item_key = 1")
        with pytest.raises(DamagedError, match="is not what was written"):
            catalogue.check()
        catalogue._query("ROLLBACK")


def test_what_is_no_catalogue_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is no index"):
        Catalogue(tmp_path)
    (tmp_path / FILE).write_bytes(b"no database at all" * 100)
    with pytest.raises(DamagedError, match=r"catalogue\.sqlite is damaged"):
        Catalogue(tmp_path)
    (tmp_path / FILE).unlink()
    connection = sqlite3.connect(tmp_path / FILE)
    connection.execute("CREATE TABLE items (item_key)")
    connection.close()
    with pytest.raises(DamagedError, match="no catalogue of genius"):
        Catalogue(tmp_path)


@pytest.mark.parametrize(("format", "way_out"), [(FORMAT + 1, "update genius"), (1, "make the index again")])
def test_another_format_is_refused(catalogue: Catalogue, format: int, way_out: str) -> None:
    catalogue._query(f"PRAGMA user_version = {format}")
    message = f"has format {format}, but this genius reads format {FORMAT}: {way_out}"
    with pytest.raises(MismatchError, match=message):
        Catalogue(catalogue.path.parent)


def test_it_syncs_fully_in_wal(catalogue: Catalogue) -> None:
    assert catalogue._query("PRAGMA journal_mode") == [("wal",)]
    assert catalogue._query("PRAGMA synchronous") == [(2,)]
