"""Sources of an index: two folders with files of the same names, single files, tables, moved folders."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import genius
from genius.data.folder import Folder
from genius.data.records import ImageFile, Item
from genius.index.index import Index
from genius.index.inspect import describe
from tests.index.made_up_index import MadeUpIndex, open_made_up


@pytest.fixture
def index(tmp_path: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(tmp_path / "index") as index:
        yield index


def write_files(folder: Path, *names: str) -> Path:
    """Files that are told apart by their paths. (No image is a real one: nothing here decodes it.)"""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(f"{folder.name}/{name}".encode())
    return folder


def places(index: Index) -> dict[str, Path]:
    """The file of each image, by the item's id."""
    return {item.id: item.image.file for item in index if isinstance(item.image, ImageFile)}


def test_a_second_folder_does_not_overwrite_the_first(index: MadeUpIndex, tmp_path: Path) -> None:
    photos = write_files(tmp_path / "photos", "IMG_1.jpg", "IMG_2.jpg")
    holiday = write_files(tmp_path / "holiday", "IMG_2.jpg", "IMG_3.jpg")
    namesake = write_files(tmp_path / "other/holiday", "IMG_2.jpg")
    assert index.add(genius.read(photos)).prefix == ""
    report = index.add(genius.read(holiday))
    assert (report.prefix, report.added, report.replaced) == ("holiday/", 2, 0)
    assert index.add(namesake).prefix == "holiday-2/"
    everything = {
        "IMG_1.jpg": photos / "IMG_1.jpg",
        "IMG_2.jpg": photos / "IMG_2.jpg",
        "holiday/IMG_2.jpg": holiday / "IMG_2.jpg",
        "holiday/IMG_3.jpg": holiday / "IMG_3.jpg",
        "holiday-2/IMG_2.jpg": namesake / "IMG_2.jpg",
    }
    assert places(index) == everything
    for folder in (namesake, photos, holiday):  # again, in any order, and by any way to write the path
        report = index.add(genius.read(folder / "../" / folder.name))
        assert (report.added, report.replaced, report.failures.count) == (0, 0, 0)
    (holiday / "IMG_2.jpg").write_bytes(b"changed")
    report = index.add(holiday)
    assert (report.added, report.replaced, report.known) == (0, 1, 1)
    assert places(index) == everything
    assert [(source["path"], source["prefix"]) for source in describe(index.path)["sources"]] == [
        (str(photos), ""),
        (str(holiday), "holiday/"),
        (str(namesake), "holiday-2/"),
    ]


def test_a_prefix_that_ids_have_already_is_not_used(index: MadeUpIndex, tmp_path: Path) -> None:
    index.add(write_files(tmp_path / "photos", "a.jpg", "trip/a.jpg"))
    assert index.add(write_files(tmp_path / "trip", "a.jpg")).prefix == "trip-2/"


FILES = st.sets(st.sampled_from(["1.jpg", "2.jpg", "3.jpg", "b/1.jpg", "note.txt"]), min_size=1)


@settings(max_examples=40)
@given(st.lists(FILES, min_size=3, max_size=3), st.lists(st.integers(0, 2), max_size=6))
def test_every_file_of_every_source_is_there_once(folders: list[set[str]], again: list[int]) -> None:
    with tempfile.TemporaryDirectory() as home, open_made_up(Path(home, "index")) as index:
        added = [write_files(Path(home, f"{n}/b"), *sorted(names)) for n, names in enumerate(folders)]
        for folder in (*added, *(added[number] for number in again)):
            assert index.add(folder).failures.count == 0
        # (A text that is equal in two sources would be one item; these are told apart by their folders.)
        files = sorted(folder / name for folder, names in zip(added, folders, strict=True) for name in names)
        images = [file.resolve() for file in files if file.suffix == ".jpg"]
        assert sorted(file.resolve() for file in places(index).values()) == images


def test_files_within_a_source_belong_to_it(index: MadeUpIndex, tmp_path: Path) -> None:
    photos = write_files(tmp_path / "photos", "a.jpg")
    index.add(photos)
    write_files(photos, "b.jpg", "trip/c.jpg", "trip/day/d.jpg")
    assert index.add(photos / "b.jpg").added == 1
    assert index.add(str(photos / "trip/day")).added == 1
    assert index.add(Folder(photos / "trip", files=["c.jpg"])).added == 1
    assert places(index) == {
        name: photos / name for name in ("a.jpg", "b.jpg", "trip/c.jpg", "trip/day/d.jpg")
    }
    report = index.add(photos)
    assert (report.known, report.added, report.replaced) == (4, 0, 0)
    elsewhere = write_files(tmp_path / "elsewhere", "a.jpg", "z.jpg")
    assert index.add(elsewhere / "a.jpg").prefix == "elsewhere/"
    assert index.add(elsewhere).added == 1
    assert sorted(places(index))[-3:] == ["elsewhere/z.jpg", "trip/c.jpg", "trip/day/d.jpg"]


def test_a_file_that_comes_later_replaces_no_file_of_another_source(
    index: MadeUpIndex, tmp_path: Path
) -> None:
    photos, holiday = write_files(tmp_path / "photos", "1.jpg"), write_files(tmp_path / "holiday", "2.jpg")
    index.add(photos)
    assert index.add(holiday).prefix == ""  # nothing collides yet
    write_files(photos, "2.jpg", "3.jpg")
    report = index.add(photos)
    assert (report.added, report.replaced, report.failures.count) == (1, 0, 1)
    message = f"item '2.jpg': its id is that of another image, {holiday}/2.jpg: rename one of the two files"
    assert str(report.failures.first[0]) == message
    assert places(index)["2.jpg"] == holiday / "2.jpg"


def test_a_folder_that_was_moved_is_the_same_source(index: MadeUpIndex, tmp_path: Path) -> None:
    photos = write_files(tmp_path / "photos", "1.jpg", "2.jpg")
    index.add(photos)
    moved = photos.rename(tmp_path / "pictures")
    assert index.add(moved).prefix == ""
    assert places(index) == {name: moved / name for name in ("1.jpg", "2.jpg")}


def test_what_is_gone_from_a_folder_is_counted_when_it_is_added_again(
    index: MadeUpIndex, tmp_path: Path
) -> None:
    photos = write_files(tmp_path / "photos", "a.jpg", "b.jpg", "trip/c.jpg", "n.md")
    holiday = write_files(tmp_path / "holiday", "a.jpg")
    assert index.add(photos).gone == 0 and index.add(holiday).gone == 0
    (photos / "a.jpg").rename(photos / "z.jpg")
    (photos / "n.md").unlink()
    report = index.add(photos)
    assert (report.added, report.known, report.gone) == (1, 2, 2)
    assert "a.jpg" in index and "n.md" in index
    assert index.add(photos / "trip").gone == 0
    assert index.add(Folder(photos, files=["b.jpg"])).gone == 0  # single files say nothing of the others
    (photos / "trip/c.jpg").unlink()
    assert index.add(photos).gone == 3
    index.sync(photos, remove=True, all_gone=True)
    assert index.add(photos).gone == 0


def test_other_files_take_no_place_of_files_that_are_gone(index: MadeUpIndex, tmp_path: Path) -> None:
    """As of a memory card that was taken out."""
    card = write_files(tmp_path / "card a", "1.jpg")
    index.add(card)
    card.rename(tmp_path / "taken out")
    assert index.add(write_files(tmp_path / "card b", "1.jpg")).prefix == "card b/"
    assert len(index) == 2


def test_two_tables_with_the_same_ids(index: MadeUpIndex, tmp_path: Path) -> None:
    for name, word in (("shoes.csv", "Shoe"), ("hats.csv", "Hat")):
        (tmp_path / name).write_text("id,text\n" + "".join(f"{n},{word} {n}.\n" for n in range(3)))
    index.add(tmp_path / "shoes.csv")
    assert index.add(tmp_path / "hats.csv").prefix == "hats/"
    assert {item.id: item.text for item in index if "2" in item.id} == {"2": "Shoe 2.", "hats/2": "Hat 2."}
    (tmp_path / "shoes-june.csv").write_text("id,text\n2,New shoe.\n")
    report = index.add(tmp_path / "shoes-june.csv", replace=True)
    assert (report.prefix, report.replaced) == ("", 1)
    item = index.get("2")
    assert item is not None and item.text == "New shoe."


def test_a_source_with_a_prefix_may_replace_after_all(index: MadeUpIndex, tmp_path: Path) -> None:
    (tmp_path / "may.csv").write_text("id,text\n1,Shoe.\n2,Hat.\n")
    (tmp_path / "june.csv").write_text("id,text\n2,New hat.\n3,Belt.\n")
    index.add(tmp_path / "may.csv")
    assert index.add(tmp_path / "june.csv").prefix == "june/"
    report = index.add(tmp_path / "june.csv", replace=True)
    assert (report.prefix, report.added, report.replaced) == ("", 1, 1)
    assert {item.id: item.text for item in index} == {"1": "Shoe.", "2": "New hat.", "3": "Belt."}
    report = index.add(tmp_path / "june.csv")
    assert (report.prefix, report.known, report.added) == ("", 2, 0)
    assert describe(index.path, verify=True)["items"] == 3


def test_items_keep_the_ids_that_they_were_given(index: MadeUpIndex, tmp_path: Path) -> None:
    photos = write_files(tmp_path / "photos", "1.jpg")
    index.add(photos)
    report = index.add([Item("1.jpg", "Something else.")])
    assert (report.replaced, report.prefix) == (1, "")
    assert index.add(write_files(tmp_path / "more", "1.jpg")).prefix == "more/"  # not over what a user gave


def test_an_interrupted_source_keeps_its_prefix(
    index: MadeUpIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.add(write_files(tmp_path / "photos", "1.jpg"))
    holiday = write_files(tmp_path / "holiday", "1.jpg")
    with monkeypatch.context() as patch:
        patch.setattr(index._catalogue, "commit", lambda *_, **__: pytest.fail("stopped"))
        with pytest.raises(BaseException, match="stopped"):
            index.add(holiday)
    assert len(index) == 1
    index.remove("1.jpg")  # nothing collides any more
    assert index.add(holiday).prefix == "holiday/"


def test_what_could_not_be_read_of_a_path_is_in_the_report(index: MadeUpIndex, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"id": "1", "text": "one"}\nnonsense\n{"id": "2", "text": "bad"}\n')
    heard: list[str] = []
    report = index.add(tmp_path / "a.jsonl", on_failure=lambda error: heard.append(str(error)))
    assert (report.added, report.failures.count) == (1, 2)
    assert heard == list(map(str, report.failures.first))
    assert "line 2: broken JSON" in heard[0] and "item '2'" in heard[1]


def test_a_table_of_prices_changes_prices(index: MadeUpIndex, tmp_path: Path) -> None:
    (tmp_path / "shoes.csv").write_text("id,text,price,colour\n1,Shoe.,10,red\n2,Boot.,20,blue\n")
    index.add(tmp_path / "shoes.csv")
    segments = describe(index.path)["segments"]
    (tmp_path / "prices.csv").write_text("id,price\n1,12.5\n2,20\n3,5\n")
    report = index.update(tmp_path / "prices.csv")
    assert (report.replaced, report.known, report.failures.count) == (1, 1, 1)
    assert "item '3': is not in the index" in str(report.failures.first[0])
    shoe = index.get("1")
    assert shoe is not None and shoe == Item("1", "Shoe.", None, {"price": 12.5, "colour": "red"})
    assert describe(index.path)["segments"] == segments  # nothing was encoded
