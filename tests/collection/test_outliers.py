"""Odd ones out: planted ones come first, each with its reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from genius.collection.outliers import deviations, find_outliers, flaw_of, misfit_shares, outliers_to_dict
from genius.data.records import ImageBytes, ImageFile, Item
from genius.errors import InputError
from genius.index.item_encoder import EmbeddedItems
from tests.collection.world import WIDTH, clusters, image_item, members_of, open_world, scene, unit
from tests.pictures import encoded


def test_planted_foreign_items_are_far() -> None:
    random = np.random.default_rng(0)
    vectors, _ = clusters(random, 990, 8, 3, noise=0.5)
    foreign = unit(random.normal(size=(10, WIDTH)))
    members = members_of(np.concatenate([vectors, foreign]))
    first = members.item_keys[np.argsort(-deviations(members))][:30]
    assert (first >= 990).sum() >= 8


def test_planted_wrong_pairs_misfit() -> None:
    random = np.random.default_rng(1)
    meaning, _ = clusters(random, 1000, 8, 3)
    images = unit(meaning + 0.12 * random.normal(size=meaning.shape)) + 0.5
    texts = unit(meaning + 0.12 * random.normal(size=meaning.shape)) - 0.5
    texts[:10] = texts[np.roll(np.arange(10), 3)]
    shares = misfit_shares(images, texts)
    assert (np.argsort(-shares)[:30] < 10).sum() >= 8
    seen, read = (unit(unit(part) - unit(part).mean(0)) for part in (images, texts))
    for n in (0, 5, 500):
        assert shares[n] == pytest.approx((seen[n] @ read.T > seen[n] @ read[n] + 1e-6).mean())


def test_flaws_of_images(tmp_path: Path) -> None:
    flat = Image.new("RGB", (200, 100), "#101010")
    assert flaw_of(image_item("flat", flat)) == "its image is all of one colour"
    assert flaw_of(image_item("tiny", scene(1, 12, 12))) == "its image is tiny: 12 × 12 pixels"
    cut = Item("cut", image=ImageBytes(encoded(scene(1), "JPEG")[:300], "cut"))
    assert str(flaw_of(cut)).startswith("its image can't be read: ")
    assert str(flaw_of(Item("gone", image=ImageFile(str(tmp_path), "gone.jpg")))).startswith(
        "its image can't"
    )
    assert flaw_of(image_item("fine", scene(1))) is None
    assert flaw_of(Item("text", "a text")) is None


@contextmanager
def encoder(parts: dict[str, tuple[np.ndarray, np.ndarray]]) -> Iterator[Any]:
    """What embeds images and texts apart, as the test says."""

    def embed(items: Sequence[Item]) -> EmbeddedItems:
        rows = np.array([parts[item.id][item.image is None] for item in items], np.float32)
        block: Any = SimpleNamespace(embeddings=rows)
        return EmbeddedItems(list(range(len(items))), [block], {}, {})

    yield embed


def test_all_kinds_in_turn_each_with_its_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(2)
    vectors, _ = clusters(random, 60, 3, 2, noise=0.3)
    meaning = unit(random.normal(size=(60, WIDTH)))
    monkeypatch.setattr("genius.collection.outliers.concatenate", lambda blocks: blocks[0])
    items = [image_item(str(n), scene(n), text=f"text {n}") for n in range(60)]
    items[7] = image_item("7", Image.new("RGB", (64, 64), "black"), text="text 7")
    vectors[11] = -vectors.mean(0)
    parts = {str(n): (meaning[n], meaning[n]) for n in range(60)}
    parts["3"] = (meaning[3], -meaning[3])
    world = {str(n): unit(row) for n, row in enumerate(vectors)}
    with open_world(tmp_path / "index", items, world) as index, index._reading() as snapshot:
        odd = find_outliers(snapshot, index._catalogue, lambda: encoder(parts), n=3)
        few = find_outliers(snapshot, index._catalogue, lambda: encoder(parts), pairs=20)
    assert {outlier.item.id: outlier.reason for outlier in odd} == {
        "7": "broken",
        "3": "mismatched",
        "11": "far",
    }
    assert "of other texts fit its image better" in next(o.says for o in odd if o.reason == "mismatched")
    assert few.notes == ("of 60 pairs of image and text, 20 were compared",)
    fields = outliers_to_dict(odd)
    assert [outlier["item"]["id"] for outlier in fields["outliers"]] == [outlier.item.id for outlier in odd]


def test_few_items_and_bad_numbers(tmp_path: Path) -> None:
    with open_world(tmp_path / "index", [], {"one": np.ones(WIDTH)}) as index:
        assert not len(index.outliers())
        index.add([Item("one", "a text")])
        assert index.outliers().notes == ("the index has only 1 item: none is odd among so few",)
        for n in (0, -3, 10_001):
            with pytest.raises(InputError, match="n must be a number from 1 to 10,000"):
                index.outliers(n)
