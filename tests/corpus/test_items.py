from __future__ import annotations

from pathlib import Path

import numpy as np

from genius.corpus.items import read_items, union_members
from genius.corpus.records import item_records
from genius.data.mbeir import UNION, Tree
from genius.data.records import MODALITIES, Item
from genius.encode.features import ABSENT
from genius.encode.inputs import EncoderInputs, InputRows


def test_every_item_of_every_pool_has_a_number(tree: Tree, source: InputRows) -> None:
    items = read_items(tree, source, "test")
    by_id = {item.id: item for name in tree.pools for item in tree.pool(name, "test")}
    assert sorted(items.ids) == sorted(by_id)
    assert [items.numbers[id] for id in items.ids] == list(range(len(items.ids)))
    for number, id in enumerate(items.ids):
        item = by_id[id]
        assert MODALITIES[items.modality[number]] == item.modality
        assert (items.contents.image[number] != ABSENT) == (item.image is not None)
        assert (items.contents.text[number] != ABSENT) == (item.text is not None)
        if item.image is not None:
            assert source.images[items.contents.image[number]].name == item.image.name


def test_the_members_of_the_union_pool(tree: Tree, source: InputRows) -> None:
    items = read_items(tree, source, "test")
    members = union_members(tree, items, "test")
    assert [items.ids[number] for number in members] == [item.id for item in tree.pool(UNION, "test")]


def test_without_a_union_pool_all_items_are_members(own_miniature: Path) -> None:
    for path in (own_miniature / "cand_pool/global").iterdir():
        path.unlink()
    tree, inputs = Tree(own_miniature), EncoderInputs()
    inputs.add_tree(tree)
    items = read_items(tree, InputRows(inputs), "test")
    np.testing.assert_array_equal(union_members(tree, items, "test"), np.arange(len(items.ids)))


def test_records_without_a_known_image_or_text_are_absent(source: InputRows) -> None:
    records = item_records([Item("a", "A red square."), Item("b", "unknown to the source")], source)
    assert records.present.tolist() == [True, False]
    assert records[np.array([1])].text.tolist() == [ABSENT]
