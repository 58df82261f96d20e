"""An index whose codes take 208 bits: every mode, and every change, against scores that are all computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from genius.data.records import MODALITIES, ImageBytes, Item, Query
from genius.decode.geometry import Geometry
from genius.errors import InputError
from genius.index.catalogue import Catalogue
from genius.index.item_encoder import EncodedItems, EncodeItems
from genius.index.segments import SegmentFormat
from genius.index.snapshot import create_index_folder, is_index
from genius.model import Model
from genius.quantize.quantizer import Quantizer
from genius.search.engine import MODES
from tests.index.made_up import WIDTH, made_up_codes, quantized
from tests.index.made_up_index import MadeUpIndex, MadeUpModel

FORMAT = SegmentFormat((3, *[8192] * 16), semantic=1, modality_given=True)
BOOKS = [
    np.random.default_rng([9, level]).normal(size=(size, WIDTH)) * 0.8**level
    for level, size in enumerate(FORMAT.sizes)
]
TEXT = "the sea"


class WideModel(MadeUpModel):
    """A made-up model of 16 semantic levels of 8192 codes."""

    def __init__(self) -> None:
        super().__init__()
        self.quantizer = self.code_space = Quantizer(BOOKS, modality_code="given")
        self.geometry = Geometry(BOOKS, 2.0)


class WideIndex(MadeUpIndex):
    """Its index."""

    @contextmanager
    def _item_encoder(self, cache: Path | None, workers: int) -> Iterator[EncodeItems]:
        yield encode


def encode(items: Sequence[Item]) -> EncodedItems:
    """Codes that are alike in most levels, and differ in one of the last at least for most items."""
    encoded = made_up_codes(items)
    codes = np.full((len(encoded.places), len(FORMAT.sizes)), 8191, np.uint16)
    for row, place in enumerate(encoded.places):
        random = np.random.default_rng(list(items[place].id.encode()))
        codes[row, 0] = MODALITIES.index(items[place].modality)
        codes[row, random.integers(1, 17, 3)] = random.integers(8000, 8192, 3)
        codes[row, 16] = random.integers(0, 4)
    norms = 0.5 * (quantized(BOOKS, codes) ** 2).sum(axis=1)
    return replace(encoded, codes=codes, half_sq_norms=norms.astype(np.float32))


def open_wide(path: Path) -> WideIndex:
    if not is_index(path):
        create_index_folder(path, {"model": {"path": "", "fingerprint": ""}, "codes": asdict(FORMAT)})
    return WideIndex(path, Catalogue(path), cast(Model, WideModel()))


def scores(items: Mapping[str, Item], modality: str) -> dict[str, float]:
    """What items of a modality are re-ranked by, from the formula."""
    chosen = {id: item for id, item in items.items() if item.modality == modality}
    embedding = WideModel().fusion_inputs([Query(text=TEXT)]).embeddings[0]
    encoded = encode(list(chosen.values()))
    vectors = quantized(BOOKS, encoded.codes)
    code_scores = vectors @ embedding[::-1] - (vectors**2).sum(axis=1) / 2
    weight = WideModel.rerank_weight
    blended = weight * (encoded.embeddings.astype(np.float32) @ embedding) + (1 - weight) * code_scores
    return dict(zip(chosen, blended.tolist(), strict=True))


def check_searches(index: WideIndex, items: Mapping[str, Item]) -> None:
    """All modes find the best items: beams are as many as there are codes, so none is lost."""
    codes = dict(zip(items, encode(list(items.values())).codes.tolist(), strict=True))
    for modality in MODALITIES:
        expected = scores(items, modality)
        best = sorted(expected.values(), reverse=True)[:7]
        for mode in MODES:
            hits = index.search(TEXT, only=str(modality), k=7, mode=mode, beam=200).reranked
            assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-3)
            for hit in hits:
                assert hit.score == pytest.approx(expected[hit.item.id], abs=1e-3)
                assert list(hit.code) == codes[hit.item.id]
                shared = [
                    sum(code[:depth] == codes[hit.item.id][:depth] for code in codes.values())
                    for depth in range(1, 18)
                ]
                assert list(hit.path.prefix_counts) == shared


def items_numbered(numbers: range) -> dict[str, Item]:
    """Texts, images and both."""
    made = {}
    for number in numbers:
        image = None if number % 3 == 1 else ImageBytes(f"image {number}".encode(), f"{number}.png")
        made[f"item-{number}"] = Item(f"item-{number}", None if number % 3 == 0 else f"text {number}", image)
    return made


@pytest.mark.long
def test_codes_of_208_bits_are_added_searched_removed_compacted_and_reopened(tmp_path: Path) -> None:
    items = items_numbered(range(90))
    with open_wide(tmp_path / "index") as index:
        index.add(list(items.values()))
        check_searches(index, items)
        more = items_numbered(range(90, 110))
        items |= more
        index.add(list(more.values()))
        check_searches(index, items)
        removed = [f"item-{number}" for number in range(0, 110, 4)]
        index.remove(removed)
        items = {id: item for id, item in items.items() if id not in removed}
        check_searches(index, items)
        index.compact()
        check_searches(index, items)
    segment = next((tmp_path / "index" / "segments").iterdir())
    sizes = {name: np.load(segment / f"{name}.npy").itemsize for name in ("hi", "lo", "lo_2", "lo_3")}
    assert sizes == {"hi": 8, "lo": 8, "lo_2": 8, "lo_3": 2}
    with open_wide(tmp_path / "index") as reopened:
        check_searches(reopened, items)


def test_codes_of_more_than_256_bits_are_refused_before_any_is_made() -> None:
    with pytest.raises(InputError, match="260 bits can't be searched, only 256: use fewer or smaller levels"):
        replace(FORMAT, sizes=(3, *[8192] * 20))
