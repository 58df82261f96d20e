from __future__ import annotations

import os
from pathlib import Path

import pytest

import genius
from genius.data.folder import LEAVING_LINK, Folder
from genius.data.records import ImageFile, Item
from genius.errors import InputError
from tests.pictures import write_square


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    root = tmp_path / "photos"
    for name in ("b.jpg", "a.png", "trip/sea.JPEG", "trip/.hidden.jpg"):
        write_square(root / name)
    (root / "trip/sea.txt").write_text("  The sea.\n")
    (root / "notes.md").write_text("Some notes.")
    (root / "table.xlsx").write_bytes(b"not ours")
    return root


def read_by_id(root: Path) -> dict[str, Item]:
    return {item.id: item for item in genius.read(root)}


def test_images_and_texts_by_their_relative_paths(photos: Path) -> None:
    items = list(genius.read(photos))
    assert items == [
        Item("a.png", None, ImageFile(str(photos), "a.png")),
        Item("b.jpg", None, ImageFile(str(photos), "b.jpg")),
        Item("notes.md", "Some notes."),
        Item("trip/sea.JPEG", "The sea.", ImageFile(str(photos), "trip/sea.JPEG")),
    ]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("captions.csv", "image,text,price\nb.jpg,A boat.,3\nb.jpg,On a lake.,3\ntrip/sea.JPEG,Blue.,9\n"),
        (
            "anything.jsonl",
            '{"file_name": "b.jpg", "text": "A boat.\\nOn a lake.", "price": 3}\n'
            '{"file_name": "trip/sea.JPEG", "text": "Blue.", "price": 9}\n',
        ),
    ],
)
def test_captions_from_a_table(photos: Path, name: str, content: str) -> None:
    (photos / name).write_text(content)
    items = read_by_id(photos)
    assert (items["b.jpg"].text, items["b.jpg"].metadata["price"]) == ("A boat.\nOn a lake.", 3)
    assert items["trip/sea.JPEG"].text == "The sea.\nBlue."
    assert items["a.png"].text is None


def test_a_caption_for_no_image_and_a_broken_line_are_recorded(photos: Path) -> None:
    (photos / "captions.csv").write_text("image,text\nz.jpg,Nothing.\nb.jpg,A boat.,too many\n,words\n")
    collection = genius.read(photos)
    assert len(list(collection)) == 4
    messages = sorted(str(error).split("captions.csv")[1] for error in collection.failures.first)
    assert messages == [
        ", line 3: 3 fields under 2 column names: is a quote missing?",
        ", line 4: names no image",
        ": image 'z.jpg' is not in the folder",
    ]


def test_several_tables_are_ambiguous(photos: Path) -> None:
    for name in ("a.csv", "b.csv"):
        (photos / name).write_text("image,text\nb.jpg,A boat.\n")
    with pytest.raises(
        InputError, match=r"has several tables \(a.csv, b.csv\): name the one with the captions"
    ):
        list(genius.read(photos))
    (photos / "captions.csv").write_text("image,text\nb.jpg,This one.\n")
    assert read_by_id(photos)["b.jpg"].text == "This one."


def test_a_table_that_names_no_images_is_left_out(photos: Path) -> None:
    (photos / "expenses.csv").write_text("date,amount\n2020-01-01,3\n")
    (photos / "notes.jsonl").write_text('{"id": "1", "text": "A note."}\n')
    (photos / "empty.csv").write_text("image,text\n")
    collection = genius.read(photos)
    assert len(list(collection)) == 4 and collection.failures.count == 0
    assert collection.notes == [
        f"{name} was left out: its rows name no images, as those of captions do"
        for name in ("empty.csv", "expenses.csv", "notes.jsonl")
    ]
    (photos / "pictures.csv").write_text("image,text\nb.jpg,A boat.\n")
    assert read_by_id(photos)["b.jpg"].text == "A boat."
    (photos / "expenses.csv").rename(photos / "captions.csv")  # that is meant to be one
    with pytest.raises(InputError, match="has no column for a text or an image"):
        list(genius.read(photos))


def test_links_stay_inside(photos: Path, tmp_path: Path) -> None:
    write_square(tmp_path / "elsewhere/secret.jpg")
    (photos / "inside.jpg").symlink_to(photos / "b.jpg")
    (photos / "leak.jpg").symlink_to(tmp_path / "elsewhere/secret.jpg")
    (photos / "leaks").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
    (photos / "loop").symlink_to(photos, target_is_directory=True)
    collection = genius.read(photos)
    assert [item.id for item in collection] == ["a.png", "b.jpg", "inside.jpg", "notes.md", "trip/sea.JPEG"]
    assert [str(error) for error in collection.failures.first] == [
        f"{photos}/leak.jpg: {LEAVING_LINK}",
        f"{photos}/leaks: {LEAVING_LINK}",
    ]


def test_names_and_texts_that_are_no_unicode(photos: Path) -> None:
    Path(os.fsdecode(os.fsencode(photos) + b"/caf\xe9.jpg")).write_bytes(b"x")
    (photos / "b.txt").write_bytes(b"caf\xe9")
    (photos / "empty.txt").write_text(" ")
    collection = genius.read(photos)
    assert [item.id for item in collection] == ["a.png", "notes.md", "trip/sea.JPEG"]
    messages = sorted(error.reason for error in collection.failures.first)
    assert messages[0] == "b.txt is not UTF-8: save it as UTF-8"
    assert messages[1] == "is an empty text"
    assert messages[2].endswith("is not UTF-8: rename it")


def test_read_says_what_it_can_not_take(photos: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere: there is nothing here"):
        genius.read(tmp_path / "nowhere")
    with pytest.raises(
        InputError, match=r"table.xlsx: is no collection: expected a folder or a file ending in .jsonl"
    ):
        genius.read(photos / "table.xlsx")
    (tmp_path / "void").mkdir()
    with pytest.raises(InputError, match=r"void: is empty"):
        genius.read(tmp_path / "void")
    (tmp_path / "void/x.bin").write_bytes(b"")
    with pytest.raises(InputError, match=r"void: holds no item"):
        list(genius.read(tmp_path / "void"))


def test_kinds_that_are_not_read_are_counted_and_named(photos: Path) -> None:
    for name in ("1.HEIC", "trip/2.heic", "3.nef", "film.MOV", "4.psd", "thumbs.db"):
        (photos / name).write_bytes(b"x")
    collection = genius.read(photos)
    assert len(list(collection)) == len(list(collection)) == 4  # a second pass counts anew
    assert collection.notes == [
        "2 HEIC photos were skipped: after pip install pillow-heif they are read",
        "1 camera raw photo was skipped: export them as JPEG",
        "1 image of another format was skipped: save them as JPEG or PNG",
        "1 video was skipped: only images and texts are searched",
    ]


def test_a_folder_of_heic_alone_says_so(tmp_path: Path) -> None:
    for number in range(12):
        (tmp_path / f"{number}.heic").write_bytes(b"x")
    with pytest.raises(
        InputError, match=r"holds no item; 12 HEIC photos were skipped: after pip install pillow"
    ):
        list(genius.read(tmp_path))


def test_single_files_are_what_they_are_in_their_folder(photos: Path) -> None:
    (photos / "captions.csv").write_text("image,text,price\nb.jpg,A boat.,3\n")
    whole = read_by_id(photos)
    for name in ("b.jpg", "notes.md"):
        assert list(genius.read(photos / name)) == [whole[name]]
    assert read_by_id(photos / "trip/sea.JPEG")["sea.JPEG"].text == "The sea."
    several = Folder(photos, files=["trip/sea.JPEG", "a.png"])
    assert list(several) == [whole["a.png"], whole["trip/sea.JPEG"]]
    assert several.failures.count == 0  # captions of other images are nobody's failure
    assert list(several.without_exif()) == list(several)


def test_a_table_beside_a_single_file_may_be_anything(photos: Path) -> None:
    for name in ("accounts.csv", "addresses.csv"):
        (photos / name).write_text("who,what\na,b\n")
    assert [item.id for item in genius.read(photos / "b.jpg")] == ["b.jpg"]


def test_a_folder_that_only_holds_a_table_is_the_table(tmp_path: Path) -> None:
    (tmp_path / "items.jsonl").write_text('{"id": "a", "text": "words"}\n')
    collection = genius.read(tmp_path)
    assert (collection.kind, list(collection)) == ("JSONL", [Item("a", "words")])


def test_an_mbeir_tree_is_recognised(miniature: Path) -> None:
    assert genius.read(miniature).kind == "M-BEIR tree"
