"""Pairs from spreadsheets and from captions beside photos."""

from __future__ import annotations

from pathlib import Path

import pytest

from genius.data.pair_table import read_pairs
from genius.data.pairs import Pair
from genius.data.records import ImageFile
from genius.errors import InputError
from tests.pictures import write_square


def pairs_of(path: Path, **options: Path) -> list[Pair]:
    errors: list[InputError] = []
    pairs = list(read_pairs(path, errors.append, **options))
    assert not errors
    return pairs


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_all_columns(tmp_path: Path) -> None:
    table = write(
        tmp_path / "pairs.csv",
        "Query,query image,item,Item_Image,instruction,split,price",
        "in black,a.jpg,,b.jpg,Find the same in another colour.,train,3",
        "1984,,a novel,,,validation,",
        ",a.jpg,0010,,,,",
    )
    first, second, third = pairs_of(table)
    assert (first.query.text, first.query.image) == ("in black", ImageFile(str(tmp_path), "a.jpg"))
    assert (first.item.text, first.item.image) == (None, ImageFile(str(tmp_path), "b.jpg"))
    assert (first.query.instruction, first.split) == ("Find the same in another colour.", "train")
    assert (second.query.text, second.item.text, second.split) == ("1984", "a novel", "val")
    assert (third.query.text, third.item.text, third.split) == (None, "0010", None)  # digits stay as they are


def test_equal_items_are_one(tmp_path: Path) -> None:
    table = write(tmp_path / "pairs.tsv", "question\tanswer", "who?\tme", "whom?\tme", "who?\tyou")
    ids = [pair.item.id for pair in pairs_of(table)]
    assert ids[0] == ids[1] != ids[2]


def test_images_below_another_root(tmp_path: Path) -> None:
    table = write(tmp_path / "pairs.jsonl", '{"query": "red", "item_image": "a.jpg"}')
    (pair,) = pairs_of(table, root=tmp_path / "photos")
    assert pair.item.image == ImageFile(str(tmp_path / "photos"), "a.jpg")


def test_captions_ask_for_the_images_beside_them(tmp_path: Path) -> None:
    write_square(tmp_path / "red.png", "red")
    write(tmp_path / "red.txt", "a red square")
    write_square(tmp_path / "blue.png", "blue")
    (pair,) = pairs_of(tmp_path)
    assert (pair.query.text, pair.item.text) == ("a red square", None)
    assert pair.item.image == ImageFile(str(tmp_path), "red.png")
    table = write(tmp_path / "captions.csv", "caption,image", "a blue square,blue.png")
    (pair,) = pairs_of(table)
    assert (pair.query.text, pair.item.image) == ("a blue square", ImageFile(str(tmp_path), "blue.png"))


def test_bad_rows_are_reported_with_their_lines(tmp_path: Path) -> None:
    table = write(
        tmp_path / "pairs.csv",
        "query,item,split",
        "red,a red square,",
        "blue,,",
        ",a text,",
        "green,grass,some",
    )
    errors: list[InputError] = []
    assert len(list(read_pairs(table, errors.append))) == 1
    assert [(error.line, error.reason) for error in errors] == [
        (3, "has no item: both its text and its image are empty"),
        (4, "has no query: both its text and its image are empty"),
        (5, "split 'some' is none of train, val and test"),
    ]


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("query,itm", r"has queries but no column item or item_image: is 'itm' meant to be 'item'\?"),
        ("quer,item", r"has items but no column query or query_image: is 'quer' meant to be 'query'\?"),
        ("item,colour", r"has items but no column query or query_image: it has 'item', 'colour'"),
        ("frage,item_image", r"has items but no column query or query_image: it has 'frage', 'item_image'"),
        ("quantity,colour", "nor images with captions: it has 'quantity', 'colour'"),
        ("text,colour", r"nor images with captions: is 'text' meant to be '\w+_text'\?"),
    ],
)
def test_tables_that_are_no_pairs(tmp_path: Path, header: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pairs_of(write(tmp_path / "pairs.csv", header, "red,blue"))


def test_pairs_that_all_fail_are_no_matter_of_columns(tmp_path: Path) -> None:
    table = write(tmp_path / "pairs.csv", "query,item_image", "a dog,/photos/1.jpg", "a cat,/photos/2.jpg")
    errors: list[InputError] = []
    with pytest.raises(InputError, match=r"none of its pairs can be read; the first: .*line 2: .*--root /"):
        list(read_pairs(table, errors.append))
    assert len(errors) == 2
