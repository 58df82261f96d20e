"""The items of a version as arrays: complete, in order, and cut into cells."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from genius.collection.members import Members
from genius.data.records import Item
from genius.index.segments import KeptEmbeddings
from tests.collection.world import WIDTH, clusters, members_of, open_world, unit


def texts(vectors: np.ndarray) -> tuple[list[Item], dict[str, np.ndarray]]:
    return [Item(str(n), f"text {n}") for n in range(len(vectors))], {
        str(n): row for n, row in enumerate(vectors)
    }


@pytest.mark.parametrize("embeddings", ["int8", "fp16", "none"])
def test_all_live_items_in_the_order_of_their_codes(tmp_path: Path, embeddings: KeptEmbeddings) -> None:
    vectors = unit(np.random.default_rng(0).normal(size=(60, WIDTH)))
    items, world = texts(vectors)
    with open_world(tmp_path / "index", items[:40], world, embeddings=embeddings) as index:
        index.add(items[40:])
        index.remove(["3", "50"])
        with index._reading() as snapshot:
            members, ids = Members.of(snapshot), index._catalogue.ids()
        known = [ids[key] for key in members.item_keys.tolist()]
        assert sorted(known, key=int) == [str(n) for n in range(60) if n not in (3, 50)]
        assert [tuple(code) for code in members.codes.tolist()] == sorted(map(tuple, members.codes.tolist()))
        assert all(
            tuple(code) == index.code(id) for id, code in zip(known, members.codes.tolist(), strict=True)
        )
        expected = vectors[[int(id) for id in known]]
        if embeddings == "none":
            expected = unit(index.model.quantizer.reconstruct(members.codes))
    assert np.einsum("ij,ij->i", members.vectors(), expected).min() > 0.999


def test_cells_are_the_shortest_prefixes_of_few_items() -> None:
    vectors, _ = clusters(np.random.default_rng(1), 500, 4, 3)
    members = members_of(np.concatenate([vectors, np.repeat(vectors[:1], 40, axis=0)]))
    cells = members.cells(16, first_level=0)
    assert cells[0] == 0 and cells[-1] == len(members) and (np.diff(cells) > 0).all()
    assert np.diff(cells).max() <= 16
    for start, end in pairwise(cells.tolist()):
        codes = members.codes[start:end]
        shared = next((n for n in range(4) if len({tuple(code[: n + 1]) for code in codes.tolist()}) > 1), 4)
        prefix = codes[0, :shared]
        under = (members.codes[:, :shared] == prefix).all(1).sum()
        assert shared >= 2, "a cell has at least a modality and a semantic code"
        assert under == end - start or shared == 4, "only a whole code of many items is cut"


def test_the_order_of_meaning_mixes_modalities() -> None:
    vectors = np.random.default_rng(2).normal(size=(80, WIDTH))
    members = members_of(vectors, np.arange(80) % 3)
    ordered = members.in_order_of_meaning()
    meanings = [tuple(code) for code in ordered.codes[:, 1:].tolist()]
    assert meanings == sorted(meanings)
    assert sorted(ordered.item_keys.tolist()) == list(range(80))
    cosines = np.einsum("ij,ij->i", ordered.vectors(), unit(vectors)[ordered.item_keys])
    assert cosines.min() > 0.999
