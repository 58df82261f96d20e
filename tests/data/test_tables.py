from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import genius
from genius.data.read import read_table
from genius.data.records import ImageBytes, ImageFile, Item
from genius.data.tables import write_items
from genius.errors import InputError, MissingError
from tests.pictures import square, write_square


def write(path: Path, *rows: Any) -> Path:
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def test_jsonl(tmp_path: Path) -> None:
    path = write(
        tmp_path / "items.jsonl",
        {"id": "a", "text": "A boat.", "image": "boats/1.jpg", "price": 3.5, "tags": ["x", "y"]},
        "",
        {"id": 7, "caption": "Only words.", "metadata": {"sold": True}, "note": None},
    )
    assert list(genius.read(path)) == [
        Item("a", "A boat.", ImageFile(str(tmp_path), "boats/1.jpg"), {"price": 3.5, "tags": '["x","y"]'}),
        Item("7", "Only words.", None, {"sold": True, "note": None}),
    ]


def test_without_an_id_the_image_or_the_line_names_an_item(tmp_path: Path) -> None:
    path = write(tmp_path / "items.jsonl", {"image": "x/1.jpg"}, {"text": "words"})
    assert [item.id for item in genius.read(path)] == ["x/1.jpg", "2"]


def test_a_folder_of_tables_and_nothing_else_is_one_collection(tmp_path: Path) -> None:
    write(tmp_path / "b.jsonl", {"text": "two"}, "no JSON", {"id": "own", "text": "three"})
    write(tmp_path / "a.csv", "text,image", "one,", "picture,x/1.jpg")
    write(tmp_path / ".hidden.csv", "text", "no")
    collection = genius.read(tmp_path)
    assert [(item.id, item.text) for item in collection] == [
        ("a.csv:2", "one"),
        ("x/1.jpg", "picture"),
        ("b.jsonl:1", "two"),
        ("own", "three"),
    ]
    (error,) = collection.failures.first
    assert str(error).startswith(f"{tmp_path / 'b.jsonl'}, line 2: ")


def test_images_may_be_below_another_root(tmp_path: Path) -> None:
    path = write(tmp_path / "items.jsonl", {"id": "a", "image": "1.jpg"})
    (item,) = genius.read(path, root=tmp_path / "pictures")
    assert item.image == ImageFile(str(tmp_path / "pictures"), "1.jpg")


def test_gzip_and_byte_order_marks(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl.gz"
    path.write_bytes(gzip.compress(b'\xef\xbb\xbf{"id": "a", "text": "b"}\n'))
    assert list(genius.read(path)) == [Item("a", "b")]


def cut_short(content: bytes) -> bytes:
    return content[:-12]


def garbled(content: bytes) -> bytes:
    return content[:20] + bytes(200) + content[220:]


@pytest.mark.parametrize("name", ["items.jsonl.gz", "items.csv.gz"])
@pytest.mark.parametrize("damage", [cut_short, garbled])
def test_a_damaged_gzip_file_is_named(tmp_path: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    row = '{{"text": "{}"}}\n' if ".jsonl" in name else "{}\n"
    rows = ["" if ".jsonl" in name else "text\n", *(row.format(number**9) for number in range(500))]
    path = tmp_path / name
    path.write_bytes(damage(gzip.compress("".join(rows).encode())))
    with pytest.raises(InputError, match=rf"{name}: is damaged"):
        list(genius.read(path, strict=True))


BAD_LINES = {
    "broken JSON: ": '{"id": "b", "text": ',
    "expected a JSON object, found a list": "[1, 2]",
    "item 'b' has neither text nor image": '{"id": "b", "text": "", "image": null}',
    "field 'id' is empty: every item needs an id": '{"id": "", "text": "words"}',
    "field 'id' should be text or a whole number, but is a float": '{"id": 1.5, "text": "words"}',
    "field 'text' should be text, but is a int": '{"id": "b", "text": 3}',
    "id 'a' was used before: ids must be unique": '{"id": "a", "text": "again"}',
    "path '../secret.jpg' leaves the folder": '{"id": "b", "image": "../secret.jpg"}',
    "path 'x/../../secret.jpg' leaves the folder": '{"id": "b", "image": "x/../../secret.jpg"}',
    ": name another root (--root / allows every path)": '{"id": "b", "image": "/etc/secret.jpg"}',
    r"path 'C:\\secret.jpg' leaves the folder": '{"id": "b", "image": "C:\\\\secret.jpg"}',
    "is an address: nothing is fetched": '{"id": "b", "image": "https://example.org/1.jpg"}',
    "an image should be a path, but is a list": '{"id": "b", "image": ["1.jpg"]}',
    "no column for a text or an image, only 'id', 'words': rename them to": '{"id": "b", "words": "x"}',
    "field 'metadata' should be an object, but is a int": '{"id": "b", "text": "x", "metadata": 3}',
}


@pytest.mark.parametrize(("message", "line"), BAD_LINES.items(), ids=BAD_LINES)
def test_a_bad_line_is_recorded_with_its_place_and_left_out(tmp_path: Path, message: str, line: str) -> None:
    path = write(tmp_path / "items.jsonl", {"id": "a", "text": "one"}, line, {"id": "c", "text": "three"})
    collection = genius.read(path)
    assert [item.id for item in collection] == ["a", "c"]
    assert collection.failures.count == 1
    (failure,) = collection.failures.first
    assert f"{path}, line 2: " in str(failure)
    assert message in str(failure)
    assert [item.id for item in collection] == ["a", "c"]  # a second pass counts anew
    assert collection.failures.count == 1
    with pytest.raises(InputError, match="line 2"):
        list(genius.read(path, strict=True))


def test_a_file_without_a_single_item(tmp_path: Path) -> None:
    path = write(tmp_path / "items.jsonl", "nonsense", "more")
    with pytest.raises(InputError, match="line 1: broken JSON"):
        list(genius.read(path))
    with pytest.raises(InputError, match=r"blank.jsonl: holds no item"):
        list(genius.read(write(tmp_path / "blank.jsonl", "", "")))
    with pytest.raises(InputError, match=r"empty.jsonl: is empty"):
        list(genius.read(write(tmp_path / "empty.jsonl")))


def test_many_failures_are_counted_and_the_first_kept(tmp_path: Path) -> None:
    collection = genius.read(write(tmp_path / "items.jsonl", {"id": "a", "text": "b"}, *["{"] * 2500))
    assert len(list(collection)) == 1
    assert (collection.failures.count, len(collection.failures.first)) == (2500, 1000)


def test_ids_that_repeat_far_apart_are_noticed(tmp_path: Path) -> None:
    rows = [{"id": str(number % 3000), "text": "x"} for number in range(3001)]
    collection = genius.read(write(tmp_path / "items.jsonl", *rows))
    assert len(list(collection)) == 3000
    assert "line 3001: id '0' was used before" in str(collection.failures.first[0])


def test_csv(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(
        b"\xef\xbb\xbfid,text,image,price,code,colour\r\n"
        b'12,"Two, words\nand a line",1.jpg,3.50,007,red\r\n'
        b"b,1984,,-2,,\r\n"
    )
    assert list(genius.read(path)) == [
        Item(
            "12",
            "Two, words\nand a line",
            ImageFile(str(tmp_path), "1.jpg"),
            {"price": 3.5, "code": "007", "colour": "red"},
        ),
        Item("b", "1984", None, {"price": -2}),
    ]


@pytest.mark.parametrize(
    ("name", "delimiter"), [("a.tsv", "\t"), ("a.csv", "\t"), ("a.csv", ";"), ("a.csv", ",")]
)
def test_delimiters(tmp_path: Path, name: str, delimiter: str) -> None:
    path = tmp_path / name
    path.write_text(f"id{delimiter}text\na{delimiter}words\n")
    assert list(genius.read(path)) == [Item("a", "words")]


def test_an_empty_caption_does_not_let_another_column_take_its_place(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("id,text,title,image\na,,A title,1.jpg\n")
    (item,) = genius.read(path)
    assert item.text is None
    assert item.metadata == {"title": "A title"}


def write_shoes(folder: Path, header: str, row: str) -> Path:
    path = folder / "shoes.csv"
    path.write_text(f"{header}\n{row}\n")
    return path


@pytest.mark.parametrize(
    ("header", "item"),
    [
        ("sku,title,description,picture", Item("7", "Shoe\nRed.", ImageFile("", "1.jpg"))),
        ("SKU,Product Name,Summary,Photo", Item("7", "Shoe\nRed.", ImageFile("", "1.jpg"))),
        ("product_id,name,colour,img", Item("7", "Shoe", ImageFile("", "1.jpg"), {"colour": "Red."})),
        ("key,title,caption,image", Item("7", "Red.", ImageFile("", "1.jpg"), {"title": "Shoe"})),
        ("item-id,title,note,image file", Item("7", "Shoe", ImageFile("", "1.jpg"), {"note": "Red."})),
    ],
)
def test_columns_are_recognised_by_many_names(header: str, item: Item, tmp_path: Path) -> None:
    """A title and a description are searched together; a column that is the whole text is searched alone."""
    image = ImageFile(str(tmp_path), "1.jpg")
    (read,) = genius.read(write_shoes(tmp_path, header, "7,Shoe,Red.,1.jpg"))
    assert read == Item(item.id, item.text, image, item.metadata)


def test_a_user_may_name_the_columns(tmp_path: Path) -> None:
    path = write_shoes(tmp_path, "id,ean,notes,text,scan", "1,042,Good.,Shoe,x/1.jpg")
    columns = {"id": "ean", "text": ["text", "notes"], "image": "scan"}
    (item,) = genius.read(path, columns=columns)
    assert item == Item("042", "Shoe\nGood.", ImageFile(str(tmp_path), "x/1.jpg"), {"id": 1})
    (item,) = genius.read(path, columns={"text": "notes"})
    assert (item.id, item.text, item.metadata["text"]) == ("1", "Good.", "Shoe")
    with pytest.raises(InputError, match=r"shoes.csv, line 1: has no column 'scann': did you mean 'scan'\?"):
        list(genius.read(path, columns={"image": "scann"}))
    with pytest.raises(InputError, match="unknown field 'picture' of columns: expected id, text, image"):
        genius.read(path, columns={"picture": "scan"})


@pytest.mark.parametrize(
    ("header", "advice"),
    [
        ("sku,titel,price", "is 'titel' meant to be 'title'?"),
        ("sku,farbe,imgage", "is 'imgage' meant to be 'image'?"),
        ("sku,farbe,preis", "rename them to 'text' and 'image', or name them with --text-column"),
    ],
)
def test_a_table_without_usable_columns_is_refused_at_once(header: str, advice: str, tmp_path: Path) -> None:
    path = write_shoes(tmp_path, header, "1,2,3")
    with pytest.raises(
        InputError, match=r"shoes.csv, line 1: has no column for a text or an image"
    ) as caught:
        list(genius.read(path))
    assert advice in str(caught.value)
    assert all(name in str(caught.value) for name in header.split(","))


def test_a_parquet_file_without_usable_columns(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"titel": ["x"]}), tmp_path / "items.parquet")
    with pytest.raises(
        InputError, match=r"items.parquet: has no column for .* is 'titel' meant to be 'title'"
    ):
        list(genius.read(tmp_path / "items.parquet"))


def test_absolute_paths_below_the_root_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, elsewhere = tmp_path / "shop", tmp_path / "elsewhere"
    for place in (folder, elsewhere):
        write_square(place / "1.jpg")
    (tmp_path / "link").symlink_to(folder)
    inside, outside = str(folder / "1.jpg"), str(elsewhere / "1.jpg")
    rows = [{"image": inside}, {"image": outside}, {"image": f"{folder}/../elsewhere/1.jpg"}]
    path = write(folder / "items.jsonl", *rows)
    collection = genius.read(path)
    assert list(collection) == [Item("1.jpg", None, ImageFile(str(folder), "1.jpg"))]
    assert [f"is not below {folder}: name another root" in str(e) for e in collection.failures.first] == [
        True
    ] * 2
    (linked,) = genius.read(tmp_path / "link/items.jsonl")
    assert linked.image is not None and linked.image.read() == square()
    monkeypatch.chdir(folder)
    assert [item.id for item in genius.read("items.jsonl")] == ["1.jpg"]
    everywhere = list(genius.read(path, root="/"))
    assert [item.image for item in everywhere] == [ImageFile("/", inside[1:]), ImageFile("/", outside[1:])]
    assert all(item.image is not None and item.image.read() == square() for item in everywhere)


def test_rows_as_changes_of_items(tmp_path: Path) -> None:
    path = write_shoes(tmp_path, "sku,price,colour,title", "007,12.5,,")
    changes = read_table(path)
    assert list(changes.changes()) == [{"id": "007", "metadata": {"price": 12.5}}]
    path = write_shoes(tmp_path, "id,text,image", "7,Shoe,1.jpg")
    image = ImageFile(str(tmp_path), "1.jpg")
    assert list(read_table(path).changes()) == [{"id": "7", "text": "Shoe", "image": image}]
    path = write_shoes(tmp_path, "image,rating", "x/1.jpg,5")
    assert list(read_table(path).changes()) == [{"id": "x/1.jpg", "metadata": {"rating": 5}}]
    with pytest.raises(InputError, match="line 1: has no column for an id, only 'ean', 'price': rename one"):
        list(read_table(write_shoes(tmp_path, "ean,price", "7,1")).changes())
    changes = read_table(write_shoes(tmp_path, "id,price", ",1"))
    assert list(changes.changes()) == []
    assert "line 2: field 'id' is empty" in str(changes.failures.first[0])
    with pytest.raises(InputError, match=r"a.txt: is no table: expected a file ending in .jsonl"):
        read_table(write(tmp_path / "a.txt", "x"))


BAD_CSV = {
    "3 fields under 2 column names: is a quote missing?": b"a,b,c",
    "is not UTF-8: save the file as UTF-8": b"a,caf\xe9",
    "field 'id' is empty": b",words",
    "unexpected end of data": b'a,"words',
}


@pytest.mark.parametrize(("message", "line"), BAD_CSV.items(), ids=BAD_CSV)
def test_a_bad_csv_line(tmp_path: Path, message: str, line: bytes) -> None:
    path = tmp_path / "items.csv"
    path.write_bytes(b"id,text\nok,fine\n" + line + b"\n")
    collection = genius.read(path)
    assert [item.id for item in collection] == ["ok"]
    assert f"{path}, line 3: " in str(collection.failures.first[0])
    assert message in str(collection.failures.first[0])


def test_a_csv_header_that_names_a_column_twice(tmp_path: Path) -> None:
    path = tmp_path / "items.csv"
    path.write_text("id,text,text\na,b,c\n")
    with pytest.raises(InputError, match="line 1: column 'text' occurs twice"):
        list(genius.read(path))


def test_parquet(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "items.parquet"
    images = [{"bytes": b"jpeg", "path": "1.jpg"}, {"bytes": None, "path": "2.jpg"}, None]
    columns = {
        "id": ["a", "b", "a"],
        "text": ["one", None, "three"],
        "image": images,
        "price": [1, None, 3],
    }
    pyarrow.parquet.write_table(pa.table(columns), path)
    collection = genius.read(path)
    assert list(collection) == [
        Item("a", "one", ImageBytes(b"jpeg", "1.jpg"), {"price": 1}),
        Item("b", None, ImageFile(str(tmp_path), "2.jpg"), {"price": None}),
    ]
    assert f"{path}, line 3: id 'a' was used before" in str(collection.failures.first[0])
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(InputError, match=r"items.parquet: is no whole Parquet file"):
        list(genius.read(path))


def test_parquet_without_its_library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    path = write(tmp_path / "items.parquet", "x")
    with pytest.raises(MissingError, match=r"needs pyarrow; install it with: pip install .*\[parquet\]'"):
        list(genius.read(path))


def test_write_refuses_what_it_could_not_give_back(tmp_path: Path) -> None:
    path = tmp_path / "items.jsonl"
    write_items(path, [Item("a", "old")])
    with pytest.raises(InputError, match="item 'b': its image"):
        write_items(path, [Item("b", image=ImageFile("/elsewhere", "1.jpg"))])
    with pytest.raises(InputError, match="can't be written"):
        write_items(path, [Item("b", "\ud800")])
    assert list(genius.read(path)) == [Item("a", "old")]  # and what was there is untouched
    assert [file.name for file in tmp_path.iterdir()] == ["items.jsonl"]
