"""Pairs as an M-BEIR tree: what is written is what was given, and nothing is on both sides of a split."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from genius.data.mbeir import SPLITS, Split, Tree
from genius.data.pairs import Pair, write_pairs_tree
from genius.data.records import ImageBytes, ImageFile, Item, Query
from genius.data.tasks import Task
from genius.errors import InputError


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "my photos"
    folder.mkdir()
    for number in range(30):
        Image.new("RGB", (8, 8), (8 * number, 0, 0)).save(folder / f"photo {number}.png")
    return folder


def captioned(photos: Path, count: int = 30) -> list[Pair]:
    return [
        Pair(
            Query(text=f"caption {number}"),
            Item(f"photo {number}.png", image=ImageFile(str(photos), f"photo {number}.png")),
        )
        for number in range(count)
    ]


def answers(tree: Tree, split: Split) -> dict[str, set[bytes]]:
    """The bytes of the images that answer each text query of a split."""
    images = {item.id: item.image.read() for item in tree if item.image is not None}
    task = Task("pairs", 0)
    return {str(query.text): {images[did] for did in query.positives} for query in tree.queries(split, task)}


def test_every_caption_leads_to_its_image_in_one_split(tmp_path: Path, photos: Path) -> None:
    tree = write_pairs_tree(tmp_path / "tree", captioned(photos))
    train, val = answers(tree, "train"), answers(tree, "val")
    assert not train.keys() & val.keys() and len(val) == 3
    expected = {f"caption {number}": {(photos / f"photo {number}.png").read_bytes()} for number in range(30)}
    assert train | val == expected
    for split in SPLITS[:2]:
        tree.check(split)


def test_images_ask_for_their_captions_too_and_never_across_the_split(tmp_path: Path, photos: Path) -> None:
    tree = write_pairs_tree(tmp_path / "tree", captioned(photos))
    texts = {item.id: item.text for item in tree if item.image is None}
    for split in SPLITS[:2]:
        asks = {texts[did] for query in tree.queries(split, Task("pairs", 3)) for did in query.positives}
        assert asks == set(answers(tree, split))
    one_way = write_pairs_tree(tmp_path / "one-way", captioned(photos), both_ways=False)
    assert one_way.tasks("train") == [Task("pairs", 0)]


def test_a_query_with_several_answers_is_one_query(tmp_path: Path) -> None:
    items = [Item(str(number), f"text {number}") for number in range(6)]
    pairs = [Pair(Query(text="the same"), item, "train") for item in items[:3]]
    pairs += [Pair(Query(text=f"other {item.id}"), item, "val") for item in items[3:]]
    tree = write_pairs_tree(tmp_path / "tree", pairs, both_ways=False)
    (query,) = tree.queries("train")
    assert len(query.positives) == 3
    assert len(list(tree.queries("val"))) == 3


def test_an_instruction_stays_with_its_queries(tmp_path: Path) -> None:
    items = [Item(str(number), f"text {number}") for number in range(8)]
    said = [None, "Find the sequel."]
    pairs = [
        Pair(Query(text=f"{n} {place}", instruction=said[n]), item, "val" if place == 0 else "train")
        for place, item in enumerate(items)
        for n in (0, 1)
    ]
    tree = write_pairs_tree(tmp_path / "tree", pairs, both_ways=False)
    for query in tree.queries("train"):
        own = "Find the sequel." if str(query.text).startswith("1") else "Find a text that matches this text."
        assert query.instruction == own


def test_other_items_are_candidates(tmp_path: Path, photos: Path) -> None:
    others = [Item("stray", image=ImageFile(str(photos), "photo 29.png"))]
    tree = write_pairs_tree(tmp_path / "tree", captioned(photos, 5), others=others)
    assert (photos / "photo 29.png").read_bytes() in {i.image.read() for i in tree if i.image is not None}


def test_images_in_memory_stay_different_though_they_share_a_name(tmp_path: Path, photos: Path) -> None:
    content = [(photos / f"photo {number}.png").read_bytes() for number in (0, 1)]
    pairs = [Pair(Query(text=str(n)), Item(str(n), image=ImageBytes(content[n]))) for n in (0, 1)]
    tree = write_pairs_tree(tmp_path / "tree", pairs)
    assert answers(tree, "train") | answers(tree, "val") == {"0": {content[0]}, "1": {content[1]}}


def test_an_image_that_is_gone_is_reported_or_raised(tmp_path: Path, photos: Path) -> None:
    gone = Pair(Query(text="gone"), Item("gone", image=ImageFile(str(photos), "gone.png")))
    with pytest.raises(InputError, match="cannot read image"):
        write_pairs_tree(tmp_path / "strict", [gone, *captioned(photos)])
    failures: list[InputError] = []
    tree = write_pairs_tree(tmp_path / "tree", [gone, *captioned(photos)], report=failures.append)
    assert len(failures) == 1 and "gone" not in answers(tree, "train") | answers(tree, "val")


def test_one_item_is_too_few(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least two items"):
        write_pairs_tree(tmp_path / "tree", [Pair(Query(text="a"), Item("1", "b"))])


def test_too_many_instructions_are_refused(tmp_path: Path) -> None:
    pairs = [
        Pair(Query(text=str(n), instruction=f"Find number {n}."), Item(str(n), f"text {n}"))
        for n in range(200)
    ]
    with pytest.raises(InputError, match="more than 100 different instructions"):
        write_pairs_tree(tmp_path / "tree", pairs)
