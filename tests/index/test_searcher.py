"""Search over segments against going through all items by hand."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from genius.decode.geometry import Geometry
from genius.index.query import ANY
from genius.index.query_batch import QueryBatch
from genius.index.searcher import RankedItems, RankedPath, Searcher
from genius.index.segments import Block, Segment, SegmentFormat
from genius.quantize.quantizer import Quantizer
from genius.quantize.search_settings import SearchSettings
from genius.search.codes import PackedCodes
from genius.search.engine import MODES, Engine, Mode
from genius.search.segment_view import SegmentView
from tests.index.made_up import FP16, GIVEN, LEARNED, NO_MODALITY_CODE, NONE, WIDTH, made_up_block, quantized

ROUNDING = 1e-3
"""Of scores by codes, whose products with queries are whole numbers of 16 bits."""
NO_TOMBSTONES = np.zeros(0, np.int64)


@dataclass
class SearchedPool:
    """Items as they are, and the same in a searcher."""

    searcher: Searcher
    geometry: Geometry
    format: SegmentFormat
    codes: np.ndarray
    modality: np.ndarray
    embeddings: np.ndarray
    item_keys: np.ndarray

    def wanted(self, want: int) -> np.ndarray:
        """The items of a modality."""
        return np.flatnonzero((self.modality == want) | (want == ANY))

    @property
    def quantized(self) -> np.ndarray:
        return quantized(self.geometry.codebooks, self.codes)

    def scores(self, queries: QueryBatch, query: int) -> np.ndarray:
        """What items are re-ranked by, from the formula."""
        vector, embedding = queries.vectors[query], queries.embeddings[query]
        weight = 0.0 if self.format.embeddings == "none" else queries.embedding_weights[query]
        code_scores = self.quantized @ vector - (self.quantized**2).sum(axis=1) / 2
        return np.asarray(weight * (self.embeddings @ embedding) + (1 - weight) * code_scores)

    def cosines(self, queries: QueryBatch, query: int) -> np.ndarray:
        """Of embeddings, or where none are kept of vectors and codes."""
        if self.format.embeddings != "none":
            return np.asarray(self.embeddings.astype(np.float32) @ queries.embeddings[query])
        vector = queries.vectors[query]
        norms = np.linalg.norm(self.quantized, axis=1) * np.linalg.norm(vector)
        return np.asarray(self.quantized @ vector / norms)

    def level_log_probs(self, vector: np.ndarray, item: int, *, modality_given: bool) -> np.ndarray:
        """Of an item's code, level by level."""
        residual, log_probs = vector.astype(np.float64), []
        for level, code in enumerate(self.codes[item]):
            codebook = self.geometry.codebooks[level]
            logits = -((residual - codebook) ** 2).sum(axis=1) / self.geometry.temperature
            log_probs.append(logits[code] - np.logaddexp.reduce(logits))
            residual = residual - codebook[code]
        return np.array([0.0, *log_probs[1:]] if modality_given else log_probs)


def decoder_and_quantizer(random: np.random.Generator, format: SegmentFormat) -> tuple[Geometry, Quantizer]:
    codebooks = [random.normal(size=(size, WIDTH)) for size in format.sizes]
    kind = "given" if format.modality_given else "learned" if format.semantic else "none"
    return Geometry(codebooks, 2.0), Quantizer(codebooks, modality_code=kind)


def make_pool(seed: int, sizes: list[int], format: SegmentFormat, removed: float = 0.0) -> SearchedPool:
    """Segments of these sizes, of which a share is removed."""
    random = np.random.default_rng(seed)
    geometry, quantizer = decoder_and_quantizer(random, format)
    blocks: list[Block] = []
    for count in sizes:
        first_key = 1 + sum(len(block.item_keys) for block in blocks)
        blocks.append(made_up_block(random, count, format, first_key, geometry.codebooks))
    item_keys = np.concatenate([block.item_keys for block in blocks])
    tombstones = item_keys[random.random(len(item_keys)) < removed]
    segments = [Segment.in_memory(block, format) for block in blocks]
    searcher = Searcher(geometry, quantizer, segments, tombstones)
    live = ~np.isin(item_keys, tombstones)
    codes, modality, embeddings = (
        np.concatenate([np.asarray(getattr(block, name)) for block in blocks])[live]
        for name in ("codes", "modality", "embeddings")
    )
    return SearchedPool(searcher, geometry, format, codes, modality, embeddings, item_keys[live])


def random_queries(seed: int, count: int, format: SegmentFormat, wants: list[int]) -> QueryBatch:
    random = np.random.default_rng(seed)
    want = random.choice(wants, count)
    modality_code = want if format.semantic else np.full(count, ANY)
    vectors = random.normal(size=(count, WIDTH)).astype(np.float32)
    embeddings = (random.integers(-2, 3, (count, WIDTH)) / 2).astype(np.float32)
    weights = random.choice([1.0, 0.4, 0.0], count).astype(np.float32)
    kinds = np.ones(count, np.int64)
    return QueryBatch(vectors, embeddings, want, modality_code, weights, kinds)


FORMATS = st.sampled_from([GIVEN, LEARNED, NO_MODALITY_CODE, FP16, NONE])
SIZES = st.lists(st.integers(1, 25), min_size=1, max_size=3)


@settings(max_examples=60)
@given(
    st.integers(0, 1000),
    SIZES,
    FORMATS,
    st.sampled_from([0.0, 0.3]),
    st.integers(1, 90),
    st.integers(1, 30),
    st.sampled_from(MODES),
)
def test_k_of_what_is_wanted_once_each_and_in_order(
    seed: int, sizes: list[int], format: SegmentFormat, removed: float, k: int, beams: int, mode: Mode
) -> None:
    pool = make_pool(seed, sizes, format, removed)
    queries = random_queries(seed, 3, format, [ANY, 0, 1, 2])
    for query, ranked in enumerate(pool.searcher.search(queries, k, beams, mode)):
        wanted = pool.wanted(int(queries.want[query]))
        item_of = {int(pool.item_keys[item]): int(item) for item in wanted}
        cosines = pool.cosines(queries, query)
        for places in (ranked.plain, ranked.reranked):
            keys = ranked.item_keys[places].tolist()
            assert len(keys) == min(k, len(wanted))
            assert len(set(keys)) == len(keys)
            assert set(keys) <= set(item_of)
        for place, key in enumerate(ranked.item_keys.tolist()):
            item = item_of[key]
            assert ranked.codes[place].tolist() == pool.codes[item].tolist()
            assert ranked.cosines[place] == pytest.approx(cosines[item], abs=1e-5)
            for depth, count in enumerate(ranked.prefix_counts[place], 1):
                assert count == (pool.codes[:, :depth] == pool.codes[item, :depth]).all(axis=1).sum()
        best = [(-ranked.scores[place], ranked.item_keys[place]) for place in ranked.reranked]
        assert best == sorted(best)
        if ranked.mode == "scan":  # nothing was searched, but the path to an item can be worked out
            given_code = format.modality_given and queries.want[query] != ANY
            for place, key in enumerate(ranked.item_keys[:3].tolist()):
                expected = pool.level_log_probs(
                    queries.vectors[query], item_of[key], modality_given=given_code
                )
                np.testing.assert_allclose(ranked.level_log_probs[place], expected, atol=ROUNDING)
                path = RankedPath(ranked, place)
                assert path.log_probabilities == tuple(ranked.level_log_probs[place].tolist())
                assert path.prefix_counts == tuple(ranked.prefix_counts[place].tolist())


@settings(max_examples=40)
@given(st.integers(0, 1000), SIZES, FORMATS, st.integers(1, 90), st.integers(1, 9), st.sampled_from(MODES))
def test_the_plain_ranking_may_be_by_code_score(
    seed: int, sizes: list[int], format: SegmentFormat, k: int, beams: int, mode: Mode
) -> None:
    pool = make_pool(seed, sizes, format)
    queries = random_queries(seed, 2, format, [ANY, 1] if format.modality_given else [ANY])
    for query, ranked in enumerate(pool.searcher.search(queries, k, beams, mode, by_codes=True)):
        sq_distances = ((queries.vectors[query] - pool.quantized) ** 2).sum(axis=1)
        distance_of = dict(zip(pool.item_keys.tolist(), sq_distances.tolist(), strict=True))
        plain = [distance_of[key] for key in ranked.item_keys[ranked.plain].tolist()]
        np.testing.assert_allclose(plain, sorted(plain), atol=ROUNDING)
        code_scores = ((queries.vectors[query] ** 2).sum() - plain) / 2
        np.testing.assert_allclose(ranked.plain_scores[ranked.plain], code_scores, atol=ROUNDING)
        if mode == "scan":
            wanted = pool.wanted(int(queries.want[query]))
            np.testing.assert_allclose(plain, np.sort(sq_distances[wanted])[:k], atol=ROUNDING)


@settings(max_examples=20)
@given(st.integers(0, 1000), SIZES, st.integers(1, 40), st.integers(1, 9))
def test_as_the_reference_code_searches(seed: int, sizes: list[int], k: int, beams: int) -> None:
    """In the mode `paper` beams are not widened, items of one code come as they were added, no first code is
    forced, and queries are rounded to 16 bits."""
    pool = make_pool(seed, sizes, LEARNED)
    pool.searcher._settings = SearchSettings(
        force_modality=False, more_beams=False, bucket_order="added", query_bits=16
    )
    queries = random_queries(seed, 2, LEARNED, [ANY])
    queries = replace(queries, modality_code=np.full(2, ANY), embedding_weights=np.ones(2, np.float32))
    packed, order = PackedCodes.build(pool.codes, LEARNED.sizes, LEARNED.semantic)
    engine = Engine([SegmentView(packed, item_keys=pool.item_keys[order])], pool.geometry)
    result = engine.find(queries.vectors, k=0, beams=beams, mode="paper").beams
    for query, ranked in enumerate(pool.searcher.search(queries, k, beams, "paper")):
        runs = range(result.bounds[query], result.bounds[query + 1])
        keys = [
            np.sort(pool.item_keys[order][result.starts[0, run] : result.ends[0, run]]).tolist()
            for run in runs
        ]
        plain = [key for bucket in keys for key in bucket]
        assert ranked.item_keys[ranked.plain].tolist() == plain[:k]
        assert ranked.num_candidates == len(plain)
        rows = np.searchsorted(pool.item_keys, np.sort(plain))
        rounded = queries.embeddings[query].astype(np.float16).astype(np.float32)
        scores = pool.embeddings[rows].astype(np.float32) @ rounded
        np.testing.assert_allclose(ranked.scores[ranked.reranked], -np.sort(-scores)[:k], atol=1e-5)


@settings(max_examples=40)
@example(seed=1000, sizes=[19, 23, 19], format=LEARNED)
@given(st.integers(0, 1000), SIZES, FORMATS)
def test_wide_beams_give_both_rankings_of_all_items(
    seed: int, sizes: list[int], format: SegmentFormat
) -> None:
    pool = make_pool(seed, sizes, format)
    queries = random_queries(seed, 2, format, [ANY, 1] if format.modality_given else [ANY])
    for query, ranked in enumerate(pool.searcher.search(queries, 1000, 1000, "paper")):
        vector, wanted = queries.vectors[query], pool.wanted(int(queries.want[query]))
        given_code = queries.modality_code[query] != ANY and queries.want[query] != ANY
        by_level = {
            item: pool.level_log_probs(vector, item, modality_given=given_code) for item in wanted.tolist()
        }
        item_of = {int(key): item for item, key in enumerate(pool.item_keys)}
        items = [item_of[key] for key in ranked.item_keys.tolist()]
        scores = pool.scores(queries, query)
        np.testing.assert_allclose(ranked.scores, scores[items], atol=ROUNDING)
        np.testing.assert_allclose(ranked.cosines, pool.cosines(queries, query)[items], atol=1e-5)
        for log_probs, item in zip(ranked.level_log_probs, items, strict=True):
            np.testing.assert_allclose(log_probs, by_level[item], atol=ROUNDING)
        best = scores[[items[place] for place in ranked.reranked]]
        np.testing.assert_allclose(best, np.sort(scores[wanted])[::-1], atol=ROUNDING)
        log_prob = {tuple(pool.codes[item]): round(float(by_level[item].sum()), 4) for item in wanted}
        plain = [log_prob[tuple(ranked.codes[place])] for place in ranked.plain]
        assert plain == sorted(plain, reverse=True)
        order = [(-score, key) for score, key in zip(ranked.scores, ranked.item_keys, strict=True)]
        for place, following in pairwise(ranked.plain):
            if tuple(ranked.codes[place]) == tuple(ranked.codes[following]):
                assert order[place] < order[following]


@settings(max_examples=30)
@given(st.integers(0, 1000), FORMATS, st.integers(1, 6), st.sampled_from(MODES))
def test_results_do_not_depend_on_other_queries(
    seed: int, format: SegmentFormat, beams: int, mode: Mode
) -> None:
    pool = make_pool(seed, [30, 5], format)
    queries = random_queries(seed, 6, format, [ANY, 0, 1, 2])
    for query, ranked in enumerate(pool.searcher.search(queries, 5, beams, mode)):
        alone = pool.searcher.search(queries[np.array([query])], 5, beams, mode)[0]
        assert_same(ranked, alone)


@settings(max_examples=20)
@given(st.integers(0, 1000), FORMATS, st.sampled_from(MODES))
def test_the_segments_that_items_are_in_make_no_difference(
    seed: int, format: SegmentFormat, mode: Mode
) -> None:
    random = np.random.default_rng(seed)
    geometry, quantizer = decoder_and_quantizer(random, format)
    whole = made_up_block(random, 40, format, codebooks=geometry.codebooks)
    queries = random_queries(seed, 4, format, [ANY, 0, 1, 2])
    results = []
    for bounds in ([0, 40], [0, 1, 15, 40]):
        blocks = [
            Block(
                whole.codes[start:end],
                whole.modality[start:end],
                np.asarray(whole.embeddings)[start:end],
                whole.item_keys[start:end],
                whole.half_sq_norms[start:end],
            )
            for start, end in pairwise(bounds)
        ]
        segments = [Segment.in_memory(block, format) for block in blocks]
        searcher = Searcher(geometry, quantizer, segments, NO_TOMBSTONES)
        results.append(searcher.search(queries, 7, 3, mode))
    for in_one, in_three in zip(*results, strict=True):
        assert_same(in_one, in_three)


def assert_same(ranked: RankedItems, other: RankedItems) -> None:
    for places, others in ((ranked.plain, other.plain), (ranked.reranked, other.reranked)):
        np.testing.assert_array_equal(ranked.item_keys[places], other.item_keys[others])
        np.testing.assert_array_equal(ranked.cosines[places], other.cosines[others])
        np.testing.assert_allclose(ranked.level_log_probs[places], other.level_log_probs[others], atol=1e-5)


def test_a_single_item_and_all_items_under_one_code() -> None:
    alone = make_pool(0, [1], GIVEN)
    queries = random_queries(0, 1, GIVEN, [ANY])
    assert alone.searcher.search(queries, 10, 50)[0].item_keys.tolist() == [1]
    random = np.random.default_rng(1)
    geometry, quantizer = decoder_and_quantizer(random, GIVEN)
    block = made_up_block(random, 20, GIVEN)
    same = replace(
        block,
        codes=np.tile(block.codes[:1], (20, 1)),
        modality=np.tile(block.modality[:1], 20),
        half_sq_norms=np.ones(20, np.float32),
    )
    segments = [Segment.in_memory(same, GIVEN)]
    ranked = Searcher(geometry, quantizer, segments, NO_TOMBSTONES).search(queries, 5, 1)[0]
    assert (len(ranked.item_keys), ranked.num_candidates) == (5, 20)
    assert ranked.plain.tolist() == ranked.reranked.tolist()
    assert set(ranked.prefix_counts[:, -1]) == {20}


def test_nothing_is_left() -> None:
    pool = make_pool(0, [5], GIVEN, removed=1.1)
    queries = random_queries(0, 2, GIVEN, [ANY, 0])
    assert [len(ranked.item_keys) for ranked in pool.searcher.search(queries, 3, 3)] == [0, 0]


@settings(max_examples=25)
@given(st.integers(0, 1000), FORMATS, st.sampled_from(MODES))
def test_a_mask_leaves_the_rest_to_be_found(seed: int, format: SegmentFormat, mode: Mode) -> None:
    pool = make_pool(seed, [20, 12], format, removed=0.2)
    random = np.random.default_rng(seed)
    masks = [random.random(count) < 0.5 for count in (20, 12)]
    allowed = {
        int(key)
        for view, mask in zip(pool.searcher.views, masks, strict=True)
        for key in np.asarray(view.item_keys)[mask]
    } & set(pool.item_keys.tolist())
    queries = random_queries(seed, 2, format, [ANY, 0])
    restricted = pool.searcher.restricted(masks)
    assert len(restricted) == len(allowed)
    for query, ranked in enumerate(restricted.search(queries, 40, 3, mode)):
        wanted = {int(key) for key in pool.item_keys[pool.wanted(int(queries.want[query]))]}
        assert set(ranked.item_keys.tolist()) == allowed & wanted
