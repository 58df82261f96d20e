from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from genius.data.records import ImageBytes, ImageFile, ImageInTar, Item, Modality, Query
from genius.errors import InputError
from tests.pictures import write_square


@pytest.mark.parametrize("name", ["pair", "image,text", "text,image", "image, text", "Image,Text"])
def test_every_spelling_of_a_pair(name: str) -> None:
    assert Modality.parse(name) is Modality.PAIR
    assert Modality.PAIR.mbeir == "image,text"


@pytest.mark.parametrize("name", ["video", "", "image,video", 3, None, ["image"]])
def test_unknown_modalities(name: object) -> None:
    with pytest.raises(InputError, match="expected image, text or pair"):
        Modality.parse(name)


def test_the_content_decides_the_modality() -> None:
    image = ImageBytes(b"")
    assert Item("a", "x").modality is Modality.TEXT
    assert Item("a", None, image).modality is Modality.IMAGE
    assert Item("a", "", image).modality is Modality.IMAGE
    assert Item("a", "", image).text is None
    assert Item("a", "x", image).modality is Modality.PAIR
    assert Query(text="x", image=image).modality is Modality.PAIR
    assert Query(text="", image=image) == Query(image=image)


def test_items_and_queries_need_content() -> None:
    with pytest.raises(InputError, match="item 'a' has neither text nor image"):
        Item("a", "")
    with pytest.raises(InputError, match="an item needs an id"):
        Item("", "x")
    with pytest.raises(InputError, match="an empty query"):
        Query(instruction="Find a picture")


def test_an_image_may_be_given_as_a_path_bytes_or_a_pillow_image(tmp_path: Path) -> None:
    path = write_square(tmp_path / "red.png", "red")
    given: list[Any] = [
        path,
        str(path),
        path.read_bytes(),
        Image.open(path),
        ImageFile(str(tmp_path), "red.png"),
    ]
    for image in given:
        for record in (Query(image=image), Item("a", image=image)):
            assert record.image is not None
            with Image.open(io.BytesIO(record.image.read())) as shown:
                assert shown.convert("RGB").getpixel((0, 0)) == Image.open(path).convert("RGB").getpixel(
                    (0, 0)
                )
    not_images: list[tuple[Any, str]] = [
        (tmp_path / "none.png", "none.png: there is no such image"),
        (7, "an image is a path, bytes or a Pillow image, not a int"),
    ]
    for image, message in not_images:
        with pytest.raises(InputError, match=message):
            Query(image=image)
        with pytest.raises(InputError, match=message):
            Item("a", image=image)
    with pytest.raises(InputError, match="the text of a query is a int"):
        Query(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([1], "metadata 'k' is a list: it may be text, a number, true, false or null"),
        (float("nan"), "metadata 'k' is nan, which JSON can't write"),
        (2**63, "metadata 'k' is an integer of more than 64 bits"),
    ],
)
def test_metadata_holds_the_scalars_of_json(value: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Item("a", "x", metadata={"k": value})  # type: ignore[dict-item]


def test_an_image_that_leaves_its_root_by_a_link(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    root = tmp_path / "root"
    root.mkdir()
    (root / "inside.jpg").write_bytes(b"picture")
    (root / "link.jpg").symlink_to(root / "inside.jpg")
    (root / "escape.jpg").symlink_to(tmp_path / "secret.jpg")
    assert ImageFile(str(root), "link.jpg").read() == b"picture"
    with pytest.raises(InputError, match=r"image 'escape.jpg' leaves its folder by a link"):
        ImageFile(str(root), "escape.jpg").read()


def test_a_tar_member_that_is_cut_short(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(b"12345")
    assert ImageInTar(str(path), "a.jpg", 1, 3).read() == b"234"
    with pytest.raises(InputError, match=r"x.tar: cut short: member 'a.jpg' is not whole"):
        ImageInTar(str(path), "a.jpg", 1, 30).read()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"id": 42, "text": "a"}, "an item's id is a text without zero bytes, not 42"),
        ({"id": "a\0b", "text": "a"}, "an item's id is a text without zero bytes"),
        ({"id": "a", "text": 5}, "the text of item 'a' is a int"),
        ({"id": "a", "text": "b", "metadata": None}, "the metadata of item 'a' are no mapping"),
    ],
)
def test_what_an_item_cannot_be(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Item(**fields)
