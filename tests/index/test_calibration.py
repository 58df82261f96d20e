"""Confidences of an index: measured by its own searches, kept with it, and renewed as it changes."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.data.records import ImageBytes, ImageSource, Item, Modality, Query
from genius.errors import InputError
from genius.index import calibration as module
from genius.index.background import RANKS
from genius.index.calibration import (
    COUNTED,
    COUNTED_IMAGES,
    HUBNESS_WEIGHT,
    LEVEL,
    LEVEL_WEIGHT,
    LEVEL_WEIGHT_OF_IMAGES,
    MAX_SAMPLE,
    NEAREST,
    Calibration,
    Sample,
    empty_images,
    everyday_queries,
    query_kind,
)
from genius.index.confidence import parse_confidence
from genius.index.hits import Hits, hit_to_dict, hits_to_dict
from genius.index.query import SearchOptions
from genius.index.query_batch import embed_item
from tests.encode.small_clip import noise
from tests.index.made_up import made_up_items, quantized
from tests.index.made_up_index import CODEBOOKS, MadeUpIndex, MadeUpModel, encode, open_made_up
from tests.pictures import encoded

ITEMS = 60


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("calibrated") / "index"
    with open_made_up(path) as index:
        index.add(made_up_items(ITEMS))
    return path


@pytest.fixture
def index(path: Path) -> Iterator[MadeUpIndex]:
    with open_made_up(path) as opened:
        yield opened


@pytest.fixture
def own(path: Path, tmp_path: Path) -> Iterator[MadeUpIndex]:
    shutil.copytree(path, tmp_path / "index", ignore=shutil.ignore_patterns("background"))
    with open_made_up(tmp_path / "index") as opened:
        yield opened


def calibration_of(index: MadeUpIndex, kind: Any = "text", *modalities: Modality) -> Calibration:
    with index._reading() as snapshot:
        return index._calibrations.get(snapshot, kind, modalities)


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds that were measured."""
    measured: list[str] = []
    measure = module.Calibrations._measure

    def counted(self: Any, snapshot: Any, kind: Any, modalities: Any, sample: Any) -> Calibration:
        measured.append(kind)
        return measure(self, snapshot, kind, modalities, sample)

    monkeypatch.setattr(module.Calibrations, "_measure", counted)
    return measured


class Oracle:
    """All items' scores for a query, from the formula, in memory."""

    def __init__(self, items: list[Item]) -> None:
        encoded = encode(items)
        self.quantized = quantized(CODEBOOKS, encoded.codes)
        self.embeddings = encoded.embeddings.astype(np.float32)

    def scores(self, embedding: np.ndarray, vector: np.ndarray) -> np.ndarray:
        code_scores = self.quantized @ vector - (self.quantized**2).sum(axis=1) / 2
        weight = MadeUpModel.rerank_weight
        return np.asarray(weight * (self.embeddings @ embedding) + (1 - weight) * code_scores)

    def of(self, query: Query) -> np.ndarray:
        embedding = MadeUpModel().fusion_inputs([query]).embeddings[0]
        return self.scores(embedding, embedding[::-1])

    def judged(self, text: str, hubness: np.ndarray) -> np.ndarray:
        """As hits of a text are judged, from the definition."""
        scores = self.of(Query(text))
        nearest = np.argsort(-scores)[: int(np.ceil(NEAREST * len(scores)))]
        level = np.quantile(scores, LEVEL)
        return np.asarray(scores + LEVEL_WEIGHT * level - HUBNESS_WEIGHT * hubness[nearest].mean())

    def judged_by_level(self, image: ImageSource) -> np.ndarray:
        """As hits of an image are judged, from the definition."""
        scores = self.of(Query(image=image))
        return np.asarray(scores + LEVEL_WEIGHT_OF_IMAGES * np.quantile(scores, LEVEL))


def assert_confidences(
    hits: Hits, judged: dict[str, float], bests: np.ndarray, counted: tuple[float, float]
) -> None:
    """That each hit's confidence is its rank among the counted share of background queries, best first."""
    first, last = (round(share * len(bests)) for share in counted)
    background = np.sort(bests)[::-1][first:last]
    assert 0 < len(background) < len(bests)
    for hit in hits:
        above = (background >= judged[hit.item.id]).sum()
        # scores of close calls may differ by rounding, and a query changes sides
        expected = 1 - (1 + above) / (len(background) + 1)
        assert hit.confidence == pytest.approx(expected, abs=2.5 / len(background))


def test_confidence_of_a_text_from_its_definition(index: MadeUpIndex) -> None:
    items = list(index)
    oracle = Oracle(items)
    hubness = np.mean([oracle.of(Query(text)) for text in everyday_queries()], axis=0)
    bests = np.array([oracle.judged(text, hubness).max() for text in everyday_queries()])
    judged = dict(zip((item.id for item in items), oracle.judged("a red shoe", hubness), strict=True))
    assert_confidences(index.search("a red shoe", k=ITEMS), judged, bests, COUNTED)


def test_confidence_of_an_image_from_its_definition(index: MadeUpIndex) -> None:
    items = list(index)
    oracle = Oracle(items)
    bests = np.array([oracle.judged_by_level(image).max() for image in empty_images()])
    image = ImageBytes(encoded(noise(30, 20, seed=7)), "image")
    judged = dict(zip((item.id for item in items), oracle.judged_by_level(image), strict=True))
    assert_confidences(index.search(image=image, k=ITEMS), judged, bests, COUNTED_IMAGES)


def test_what_is_taken_away_changes_the_order_and_not_how_sure_a_hit_is(index: MadeUpIndex) -> None:
    plain = {hit.item.id: hit.confidence for hit in index.search("a red shoe", k=ITEMS)}
    less = index.search(Query("a red shoe").minus("a blue square"), k=ITEMS)
    assert {hit.item.id: hit.confidence for hit in less} == plain
    assert [hit.item.id for hit in less] != list(plain)
    least = sorted(plain.values())[ITEMS // 2]
    kept = index.search(Query("a red shoe").minus("a blue square"), k=ITEMS, at_least=least)
    assert [hit.item.id for hit in kept] == [hit.item.id for hit in less if hit.confidence >= least]


def test_confidence_falls_with_the_score_and_does_not_depend_on_the_page(index: MadeUpIndex) -> None:
    hits = index.search("a blue square", k=ITEMS)
    confidences = [hit.confidence for hit in hits]
    assert confidences == sorted(confidences, reverse=True)
    assert 0 <= confidences[-1] <= confidences[0] < 1
    assert [hit.confidence for hit in index.search("a blue square", k=1)] == confidences[:1]
    page = index.search("a blue square", k=5, offset=20)
    assert [hit.confidence for hit in page] == confidences[20:25]
    plain = index.search("a blue square", k=ITEMS, rerank=False)
    by_id = {hit.item.id: hit.confidence for hit in hits}
    assert {hit.item.id: hit.confidence for hit in plain} == by_id


def test_a_filter_leaves_fewer_to_be_the_best_by_chance(index: MadeUpIndex) -> None:
    everything = {hit.item.id: hit.confidence for hit in index.search("round", k=ITEMS)}
    few = index.search("round", k=ITEMS, filter={"number": {"$lt": 6}})
    assert len(few) == 6
    for hit in few:
        assert hit.confidence >= everything[hit.item.id]
    assert any(hit.confidence > everything[hit.item.id] for hit in few)


@pytest.mark.parametrize("want", [None, "image", "text", "pair"])
def test_every_kind_of_query_and_want(index: MadeUpIndex, want: str | None) -> None:
    hits = index.search("x", want=want, k=3)
    assert all(0 <= hit.confidence < 1 for hit in hits)
    near = index.search(near="item-3", want=want, k=3)
    assert all(0 <= hit.confidence < 1 for hit in near)


def test_an_item_as_query_leaves_out_what_is_like_it(index: MadeUpIndex) -> None:
    measured = calibration_of(index, "item")
    assert measured.mean_query is None and len(measured.background) == ITEMS
    items = list(index)
    oracle, expected = Oracle(items), []
    with index._reading() as snapshot:
        for place, item in enumerate(items):
            key = index._catalogue.keys_of([item.id])[item.id]
            batch = embed_item(index.model, snapshot.stored(key), ())
            others = np.delete(oracle.scores(batch.embeddings[0], batch.vectors[0]), place)
            expected.append(np.sort(others)[::-1][int(np.ceil((1 - LEVEL) * len(others)))])
    np.testing.assert_allclose(np.sort(measured.background.tails[:, 0]), np.sort(expected), atol=2e-3)


def test_it_is_measured_once_and_kept(own: MadeUpIndex, measurements: list[str]) -> None:
    first = own.search("x", k=3)
    assert measurements == []  # nobody has image yet
    known = [hit.confidence for hit in first]
    assert [hit.confidence for hit in own.search("x", k=3)] == known
    assert measurements == ["text"]
    with open_made_up(own.path) as again:
        assert [hit.confidence for hit in again.search("x", k=3)] == known
    assert measurements == ["text"]
    own.calibrate(["text", "item"], want="image")
    assert measurements == ["text", "text", "item"]


def test_it_is_renewed_when_the_index_has_changed_much(own: MadeUpIndex, measurements: list[str]) -> None:
    own.calibrate()
    own.add([Item(f"more-{n}", f"More {n}") for n in range(ITEMS // 2 - 1)])
    own.calibrate()
    assert measurements == ["text"]
    own.add([Item(f"even more-{n}", f"Even more {n}") for n in range(5)])
    own.calibrate()
    assert measurements == ["text"] * 2
    assert calibration_of(own).background.items == len(own)
    own.remove([f"item-{n}" for n in range(ITEMS)])
    own.calibrate()
    assert measurements == ["text"] * 3


@pytest.mark.parametrize("damage", ["altered", "cut off", "gone"])
def test_what_is_damaged_is_measured_again(own: MadeUpIndex, measurements: list[str], damage: str) -> None:
    own.calibrate()
    file = own.path / "background" / "text" / "background.npz"
    content = file.read_bytes()
    if damage == "gone":
        file.unlink()
    else:
        file.write_bytes(content[:-9] if damage == "cut off" else content[:-9] + b"XXXXXXXXX")
    with open_made_up(own.path) as again:
        again.calibrate()
    assert measurements == ["text"] * 2
    assert file.read_bytes()[-9:] == content[-9:]


def test_a_folder_that_can_not_be_written_to_is_no_error(
    own: MadeUpIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **options: Any) -> Any:
        raise PermissionError("read-only file system")

    monkeypatch.setattr("genius.storage.create", refuse)
    assert own.search("x", k=1)[0].confidence < 1
    assert not (own.path / "background").exists()


def test_nothing_matches(index: MadeUpIndex) -> None:
    all_hits = index.search("x", k=ITEMS)
    sure = all_hits[4].confidence
    kept = index.search("x", k=ITEMS, at_least=sure)
    assert [hit.item.id for hit in kept] == [hit.item.id for hit in all_hits if hit.confidence >= sure]
    assert kept.nearest is None and kept.notes == ()
    nothing = index.search("x", k=5, at_least=1.0)
    assert list(nothing) == nothing.plain == nothing.reranked == []
    assert nothing.nearest == all_hits[0] and nothing.nearest is not None
    assert nothing.notes == (
        f"nothing matches: the nearest is {all_hits[0].item.id!r}, with a confidence of "
        f"{all_hits[0].confidence:.2f} where 1.00 is asked for",
    )
    assert hits_to_dict(nothing, explain=False)["nearest"] == hit_to_dict(all_hits[0], explain=False)
    assert len(index.search("x", k=5, at_least=0)) == 5


@pytest.mark.parametrize(
    ("given", "value"), [("likely", 0.8), ("SURE", 0.95), ("0.3", 0.3), (0, 0.0), (1, 1.0), (None, None)]
)
def test_words_for_a_confidence(given: Any, value: float | None) -> None:
    assert value is None or parse_confidence(given) == value
    assert SearchOptions.of(at_least=given).at_least == value


@pytest.mark.parametrize("given", ["certain", -0.1, 1.01, float("nan"), True, "", []])
def test_a_confidence_that_is_none(given: Any) -> None:
    with pytest.raises(InputError, match=r"at_least must be likely \(0.8\), sure \(0.95\) or a number from"):
        SearchOptions.of(at_least=given)


def test_browsing_knows_no_confidence(index: MadeUpIndex) -> None:
    hits = index.browse(k=2)
    assert np.isnan([hit.confidence for hit in hits]).all()
    with pytest.raises(InputError, match="without a query, at_least means nothing"):
        index.browse(at_least=0.5)  # type: ignore[call-arg]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_the_smallest_indexes(tmp_path: Path, count: int) -> None:
    with open_made_up(tmp_path / "index") as index:
        index.add(made_up_items(count))
        index.calibrate(["text", "image", "both", "item"])
        hits = index.search("x", at_least=0)
        assert len(hits) == count and all(0 <= hit.confidence <= 1 for hit in hits)
        if count:
            assert len(index.search(near="item-0", at_least=0)) == count - 1


def test_a_sample_is_bounded_and_has_each_modality(own: MadeUpIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    own.remove(["item-0", "item-7"])
    wanted = (Modality.IMAGE, Modality.PAIR)
    with own._reading() as snapshot:
        sample = Sample.draw(snapshot.searcher, wanted)
        keys = snapshot.item_keys(sample.rows)
        removed = set(range(1, ITEMS + 1)) - set(own._catalogue.entries(range(1, ITEMS + 1)))
        assert len(removed) == 2 and not removed & set(keys.tolist())
        modality = [item.modality for item in snapshot.stored_rows(sample.rows)]
        assert modality == [[0, 2][place] for place in sample.places]
        assert len(sample) == sum(item.modality in wanted for item in own) <= MAX_SAMPLE
        monkeypatch.setattr(module, "MAX_SAMPLE", 10)
        assert len(Sample.draw(snapshot.searcher, wanted)) in (10, 11)


def test_background_queries_are_many_and_the_same_everywhere() -> None:
    texts = everyday_queries()
    assert len(texts) == len(set(texts)) >= 100
    assert all(len(re.findall(r"[.?](?: |$)", text)) == module.AT_ONCE for text in texts)
    images = empty_images()
    assert len({image.read() for image in images}) == len(images) == module.MAX_IMAGES
    assert RANKS[0] == 1


def test_kinds_of_queries() -> None:
    assert [query_kind(number) for number in range(3)] == ["image", "text", "both"]
    assert isinstance(empty_images()[0], ImageBytes)
