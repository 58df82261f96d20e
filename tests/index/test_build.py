from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from genius import storage as manifest
from genius.data.records import ImageBytes, Item
from genius.errors import DamagedError, GeniusError, InputError
from genius.index import ingest as build
from genius.index import writer as committing
from genius.index.catalogue import Catalogue
from genius.index.entries import item_of
from genius.index.ingest import Added, Builder, only_writer
from genius.index.inspect import describe
from genius.index.segments import open_segment, segment_path
from genius.index.snapshot import is_index, make_folder
from genius.index.writer import Committer
from tests.index.made_up import CODING, made_up_codes, made_up_items


@pytest.fixture
def index(tmp_path: Path) -> Path:
    make_folder(tmp_path / "index", {"model": {"path": "", "fingerprint": ""}, "coding": vars(CODING)})
    return tmp_path / "index"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "CHUNK", 4)
    monkeypatch.setattr(committing, "BLOCK", 8)


def add(index: Path, items: Iterator[Item] | list[Item], *, strict: bool = False) -> Added:
    catalogue = Catalogue(index)
    try:
        committer = Committer(index, catalogue, CODING, "model")
        return Builder(catalogue, committer, made_up_codes, strict=strict).add(items)
    finally:
        catalogue.close()


def held(index: Path) -> dict[str, tuple[Item, tuple[int, ...]]]:
    """Every live item with the code that a segment holds for it."""
    catalogue = Catalogue(index)
    codes: dict[int, tuple[int, ...]] = {}
    for entry in catalogue.segments():
        segment = open_segment(segment_path(index, entry.number), CODING, entry.fingerprint)
        codes |= {
            int(row): tuple(code) for row, code in zip(segment.rows, segment.codes.tolist(), strict=True)
        }
    for row in catalogue.removed():
        del codes[int(row)]
    found = {entry.id: (item_of(entry, catalogue.path), codes.pop(row)) for row, entry in catalogue.walk()}
    assert not codes
    catalogue.close()
    return found


def expected(items: list[Item]) -> dict[str, tuple[int, ...]]:
    return dict(
        zip([item.id for item in items], map(tuple, made_up_codes(items).codes.tolist()), strict=True)
    )


def test_all_items_are_there_with_their_codes(index: Path) -> None:
    items = made_up_items(21)
    report = add(index, iter(items))
    assert (report.added, report.replaced, report.known, report.failures.count) == (21, 0, 0, 0)
    found = held(index)
    assert {id: code for id, (_, code) in found.items()} == expected(items)
    for item in items:
        kept = found[item.id][0]
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
    found = held(index)
    assert len(found) == 13
    assert found["item-1"][0].text == "Another text"
    assert found["item-3"][0].image is not None
    assert found["item-3"][0].image.read() == b"another picture"
    assert found["item-4"][0].metadata == {"number": 44}
    assert describe(index, verify=True)["removed"] == 2  # new metadata alone needs no new row


def test_of_an_id_that_comes_twice_the_last_stays(index: Path) -> None:
    items = [Item("a", "one"), Item("b", "b"), Item("a", "two"), Item("a", "two"), Item("a", "three")]
    report = add(index, items)
    assert (report.added, report.replaced, report.known) == (2, 2, 1)
    assert held(index)["a"][0].text == "three"


def test_what_fails_is_reported_with_its_id(index: Path) -> None:
    items = [*made_up_items(10), Item("worse", "bad"), Item("half", "a \ud800"), Item("\udfff", "b")]
    report = add(index, items)
    assert report.added == 10
    assert {str(error).split("'")[1] for error in report.failures.first} == {"worse", "half", "\\udfff"}
    with pytest.raises(InputError, match="item 'worse': is bad"):
        add(index, [Item("fine", "fine"), *items], strict=True)
    assert "fine" not in held(index)
    with pytest.raises(InputError, match="takes items, and this is a str"):
        add(index, ["item"])  # type: ignore[list-item]


def test_what_stops_a_build_leaves_the_blocks_before(index: Path) -> None:
    items = made_up_items(20)

    def broken() -> Iterator[Item]:
        yield from items[:11]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        add(index, broken())
    assert list(held(index)) == [item.id for item in items[:8]]
    report = add(index, items)
    assert (report.added, report.known) == (12, 8)
    assert {id: code for id, (_, code) in held(index).items()} == expected(items)


def test_segments_that_nobody_names_are_cleared_away(index: Path) -> None:
    add(index, made_up_items(3))
    (index / "segments/00000002").mkdir()
    (index / "segments/00000002/manifest.json").write_text("{")
    add(index, [Item("new", "new")])
    assert sorted(path.name for path in (index / "segments").iterdir()) == ["00000001", "00000002"]
    assert len(held(index)) == 4


def test_one_writer_at_a_time(index: Path) -> None:
    with (
        only_writer(index),
        pytest.raises(GeniusError, match="being written to by another process"),
        only_writer(index),
    ):
        pass
    with only_writer(index):
        pass


def test_an_index_is_made_where_nothing_stands(index: Path, tmp_path: Path) -> None:
    assert is_index(index)
    assert not is_index(tmp_path)
    with pytest.raises(InputError, match="is an index already"):
        make_folder(index, {})
    (tmp_path / "full").mkdir()
    (tmp_path / "full/photo.jpg").touch()
    with pytest.raises(InputError, match="holds something else"):
        make_folder(tmp_path / "full", {})
    (tmp_path / "empty").mkdir()
    make_folder(tmp_path / "empty", {"coding": vars(CODING)})
    assert describe(tmp_path / "empty", verify=True)["items"] == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "full", "index"]


def test_verify_notices_rows_that_do_not_fit(index: Path) -> None:
    add(index, made_up_items(9))
    catalogue = Catalogue(index)
    catalogue._ask("DELETE FROM items WHERE row = 2")
    catalogue.close()
    describe(index)
    with pytest.raises(DamagedError, match="don't name the same rows"):
        describe(index, verify=True)


def test_what_samples_miss_in_a_large_file_verify_finds(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest, "FULL_CHECK_BYTES", 100)
    monkeypatch.setattr(manifest, "SAMPLED_BLOCKS", 2)
    monkeypatch.setattr(manifest, "BLOCK_BYTES", 8)
    add(index, made_up_items(8))
    for name in ("hi", "rows", "coarse", "exact", "halves"):
        file = index / f"segments/00000001/{name}.npy"
        whole = bytearray(file.read_bytes())
        altered = bytes([*whole[:130], whole[130] ^ 32, *whole[131:]])  # behind the header
        file.write_bytes(altered)
        describe(index)
        with pytest.raises(DamagedError, match=rf"{name}\.npy is damaged"):
            describe(index, verify=True)
        file.write_bytes(whole[:-1])
        with pytest.raises(DamagedError, match=rf"{name}\.npy is damaged"):
            describe(index)
        file.write_bytes(whole)
    describe(index, verify=True)


def test_a_full_disk_is_an_error_that_leaves_the_old_state(index: Path) -> None:
    add(index, made_up_items(8))
    catalogue = Catalogue(index)
    pages = catalogue._ask("PRAGMA page_count")[0][0]
    catalogue._ask(f"PRAGMA max_page_count = {pages}")
    committer = Committer(index, catalogue, CODING, "model")
    builder = Builder(catalogue, committer, made_up_codes, strict=False)
    with pytest.raises(GeniusError, match="full"):
        builder.add([Item(f"long-{n}", "x" * 5000) for n in range(8)])
    catalogue.close()
    assert len(held(index)) == 8
    assert np.array_equal(sorted(held(index)), sorted(item.id for item in made_up_items(8)))
    describe(index, verify=True)
