from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from genius.data.records import ImageBytes, Item
from genius.errors import GeniusError, InputError
from genius.index import ingest, writer
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.ingest import Added, Ingest
from genius.index.inspect import describe
from genius.index.segments import open_segment, segment_path
from genius.index.snapshot import create_index_folder
from genius.index.writer import SegmentWriter
from tests.index.made_up import GIVEN, made_up_codes, made_up_items


@pytest.fixture
def index(tmp_path: Path) -> Path:
    settings = {"model": {"path": "", "fingerprint": ""}, "codes": asdict(GIVEN)}
    create_index_folder(tmp_path / "index", settings)
    return tmp_path / "index"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ingest, "CHUNK", 4)
    monkeypatch.setattr(writer, "FULL_BLOCK", 8)


def add(index: Path, items: Iterator[Item] | list[Item], *, strict: bool = False) -> Added:
    catalogue = Catalogue(index)
    try:
        segment_writer = SegmentWriter(index, catalogue, GIVEN, "model")
        return Ingest(catalogue, segment_writer, made_up_codes, strict=strict).add(items)
    finally:
        catalogue.close()


def stored_items(index: Path) -> dict[str, tuple[Item, tuple[int, ...]]]:
    """Every live item with the code that a segment holds for it."""
    catalogue = Catalogue(index)
    codes: dict[int, tuple[int, ...]] = {}
    for entry in catalogue.segments():
        segment = open_segment(segment_path(index, entry.number), GIVEN, entry.fingerprint)
        codes |= {
            int(key): tuple(code) for key, code in zip(segment.item_keys, segment.codes.tolist(), strict=True)
        }
    for key in catalogue.tombstones():
        del codes[int(key)]
    items = {entry.id: (item_of(entry, catalogue.path), codes.pop(key)) for key, entry in catalogue.walk()}
    assert not codes
    catalogue.close()
    return items


def expected(items: list[Item]) -> dict[str, tuple[int, ...]]:
    return dict(
        zip([item.id for item in items], map(tuple, made_up_codes(items).codes.tolist()), strict=True)
    )


def test_all_items_are_stored_with_their_codes(index: Path) -> None:
    items = made_up_items(21)
    report = add(index, iter(items))
    assert (report.added, report.replaced, report.known, report.failures.count) == (21, 0, 0, 0)
    stored = stored_items(index)
    assert {id: code for id, (_, code) in stored.items()} == expected(items)
    for item in items:
        kept = stored[item.id][0]
        assert (kept.text, kept.metadata, kept.modality) == (item.text, item.metadata, item.modality)
        if item.image is not None and kept.image is not None:
            assert (kept.image.name, kept.image.read()) == (item.image.name, item.image.read())
    about = describe(index, verify=True)
    assert (about["items"], about["segments"], about["version"]) == (21, 3, 3)
    assert about["modalities"] == {"image": 7, "text": 7, "pair": 7}


def test_what_is_known_is_left_alone_and_what_changed_is_replaced(index: Path) -> None:
    items = made_up_items(12)
    add(index, items)
    assert add(index, items).known == 12
    assert describe(index)["version"] == 2
    changed = [
        Item("item-1", "Another text"),
        Item("item-3", None, ImageBytes(b"another picture", "3.png"), {"number": 3, "even": False}),
        Item("item-4", "The text of 4", None, {"number": 44}),
        *items[5:7],
        Item("new", "New"),
    ]
    report = add(index, changed)
    assert (report.added, report.replaced, report.known) == (1, 3, 2)
    stored = stored_items(index)
    assert len(stored) == 13
    assert stored["item-1"][0].text == "Another text"
    assert stored["item-3"][0].image is not None
    assert stored["item-3"][0].image.read() == b"another picture"
    assert stored["item-4"][0].metadata == {"number": 44}
    assert describe(index, verify=True)["tombstones"] == 2  # new metadata alone needs no new key


def test_of_an_id_that_comes_twice_the_last_stays(index: Path) -> None:
    items = [Item("a", "one"), Item("b", "b"), Item("a", "two"), Item("a", "two"), Item("a", "three")]
    report = add(index, items)
    assert (report.added, report.replaced, report.known) == (2, 2, 1)
    assert stored_items(index)["a"][0].text == "three"


def test_what_fails_is_reported_with_its_id(index: Path) -> None:
    items = [*made_up_items(10), Item("worse", "bad"), Item("half", "a \ud800"), Item("\udfff", "b")]
    report = add(index, items)
    assert report.added == 10
    assert {str(error).split("'")[1] for error in report.failures.first} == {"worse", "half", "\\udfff"}
    with pytest.raises(InputError, match="item 'worse': is bad"):
        add(index, [Item("fine", "fine"), *items], strict=True)
    assert "fine" not in stored_items(index)
    with pytest.raises(InputError, match="takes items, and this is a str"):
        add(index, ["item"])  # type: ignore[list-item]


def test_what_stops_a_build_leaves_the_blocks_before(index: Path) -> None:
    items = made_up_items(20)

    def broken() -> Iterator[Item]:
        yield from items[:11]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(index, broken())
    assert list(stored_items(index)) == [item.id for item in items[:8]]
    report = add(index, items)
    assert (report.added, report.known) == (12, 8)
    assert {id: code for id, (_, code) in stored_items(index).items()} == expected(items)


def test_orphaned_segments_are_removed(index: Path) -> None:
    add(index, made_up_items(3))
    (index / "segments/00000002").mkdir()
    (index / "segments/00000002/manifest.json").write_text("{")
    add(index, [Item("new", "new")])
    assert sorted(path.name for path in (index / "segments").iterdir()) == ["00000001", "00000002"]
    assert len(stored_items(index)) == 4


def test_a_full_disk_is_an_error_that_leaves_the_old_state(index: Path) -> None:
    add(index, made_up_items(8))
    catalogue = Catalogue(index)
    pages = catalogue._query("PRAGMA page_count")[0][0]
    catalogue._query(f"PRAGMA max_page_count = {pages}")
    segment_writer = SegmentWriter(index, catalogue, GIVEN, "model")
    with pytest.raises(GeniusError, match="full"):
        Ingest(catalogue, segment_writer, made_up_codes, strict=False).add(
            [Item(f"long-{n}", "x" * 5000) for n in range(8)]
        )
    catalogue.close()
    assert len(stored_items(index)) == 8
    assert np.array_equal(sorted(stored_items(index)), sorted(item.id for item in made_up_items(8)))
    describe(index, verify=True)
