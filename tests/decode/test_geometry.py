from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.decode import geometry as module
from genius.decode.decoder import Decoder
from genius.decode.geometry import MEMORY, Geometry, fit_temperature
from genius.errors import InputError
from genius.search.beam import beam_search
from genius.search.codes import PackedCodes
from genius.search.segment_view import SegmentView
from tests.oracles.geometry import ReadableGeometry

SIZES = [3, 40, 30, 20, 16]
WIDTH = 12


def log_softmax(logits: np.ndarray) -> np.ndarray:
    logits = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))


def by_formula(residuals: np.ndarray, codebook: np.ndarray, temperature: float) -> np.ndarray:
    distances = ((residuals[:, None, :] - codebook[None]).astype(np.float64) ** 2).sum(axis=2)
    return log_softmax(-distances / temperature)


def some_codebooks(rng: np.random.Generator, sizes: list[int], width: int) -> list[np.ndarray]:
    return [rng.normal(size=(size, width)).astype(np.float32) / 2**level for level, size in enumerate(sizes)]


def memory_of(levels: int) -> int:
    """How many bytes the tables of the first levels of SIZES take; -1 is not even the first level's, 0."""
    needed = [4 * sum(SIZES[:level]) * SIZES[level] for level in range(levels)]
    return sum(needed) if needed else -1


# --- scores


@given(
    st.lists(st.integers(1, 9), min_size=1, max_size=4),
    st.integers(1, 6),
    st.sampled_from([-1, 0, 100, MEMORY]),
    st.integers(0, 2**32 - 1),
)
def test_scores_equal_the_formula_after_any_prefix(
    sizes: list[int], width: int, memory: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    codebooks, temperature = some_codebooks(rng, sizes, width), float(rng.uniform(0.1, 2))
    vectors = rng.normal(size=(3, width)).astype(np.float32)
    decoder: Decoder = Geometry(codebooks, temperature, memory)
    state = decoder.begin(vectors)
    query_ids, prefixes = np.arange(3), np.zeros((3, 0), np.int64)
    for level, size in enumerate(sizes):
        chosen = np.array([book[codes] for book, codes in zip(codebooks, prefixes.T, strict=False)])
        residuals = vectors[query_ids] - chosen.sum(axis=0) if level else vectors[query_ids]
        scores = state.scores()
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, by_formula(residuals, codebooks[level], temperature), atol=0.01)
        rows = rng.integers(0, len(query_ids), 5)  # some several times, some not at all
        codes = rng.integers(0, size, 5)
        state.advance(rows, codes)
        query_ids, prefixes = query_ids[rows], np.column_stack([prefixes[rows], codes])


def test_a_modality_code_may_be_known() -> None:
    rng = np.random.default_rng(0)
    geometry = Geometry(some_codebooks(rng, [3, 5], 4), 0.5)
    vectors, codes = rng.normal(size=(6, 4)), np.array([0, 2, 1, 1, 0, 2])
    searched = geometry.begin(vectors)
    searched.advance(np.arange(6), codes)
    np.testing.assert_array_equal(geometry.begin(vectors, codes).scores(), searched.scores())


def test_probabilities_sum_to_one_at_any_temperature() -> None:
    rng = np.random.default_rng(0)
    codebooks = [*some_codebooks(rng, [3, 50], 8), np.ones((1, 8)), np.ones((4, 8))]
    for temperature in (1e-9, 1e-3, 1.0, 1e9):
        state = Geometry(codebooks, temperature).begin(np.ones((2, 8)))
        for _ in codebooks:
            scores = state.scores()
            assert np.isfinite(scores).all()
            np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1, rtol=1e-5)
            state.advance(np.arange(2), np.zeros(2, np.int64))


@pytest.mark.parametrize("levels", range(len(SIZES) + 1))
@pytest.mark.parametrize("known", [False, True])
def test_scores_equal_the_readable_ones_with_tables_for_any_number_of_levels(
    levels: int, known: bool
) -> None:
    rng = np.random.default_rng(1)
    codebooks = some_codebooks(rng, SIZES, WIDTH)
    geometry, readable = Geometry(codebooks, 0.8, memory_of(levels)), ReadableGeometry(codebooks, 0.8)
    assert geometry.tabled_levels == levels and list(geometry.sizes) == SIZES
    geometry.warm_up()
    vectors = rng.normal(size=(4, WIDTH)).astype(np.float32)
    codes = np.array([2, 0, 1, 1]) if known else None
    state, expected = geometry.begin(vectors, codes), readable.begin(vectors, codes)
    for level in range(int(known), len(SIZES)):
        scores = state.scores()
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, expected.scores(), atol=3e-3)  # products in 16 bits
        rows = rng.integers(0, len(scores), 9)  # some are kept several times, some not at all
        chosen = rng.integers(0, SIZES[level], 9)
        state.advance(rows, chosen)
        expected.advance(rows, chosen)


@pytest.mark.parametrize("limit", [None, 0, 100, 1000])
def test_beams_equal_the_readable_ones_and_are_batch_invariant(limit: int | None) -> None:
    rng = np.random.default_rng(2)
    codebooks = some_codebooks(rng, SIZES, WIDTH)
    packed, _ = PackedCodes.build(rng.integers(0, SIZES, (3000, 5)), SIZES, 1)
    vectors, wanted = rng.normal(size=(6, WIDTH)).astype(np.float32), np.array([0, 1, 2, -1, -1, 0])
    geometry, segments = Geometry(codebooks, 0.8, memory_of(3)), [SegmentView(packed)]
    expected = beam_search(
        ReadableGeometry(codebooks, 0.8), segments, vectors, 15, modality_code=wanted, limit=limit
    )
    beams = beam_search(geometry, segments, vectors, 15, modality_code=wanted, limit=limit)
    np.testing.assert_array_equal(beams.starts, expected.starts)
    np.testing.assert_allclose(beams.log_probs, expected.log_probs, atol=3e-3)
    for query in range(6):
        own = slice(query, query + 1)
        alone = beam_search(geometry, segments, vectors[own], 15, modality_code=wanted[own], limit=limit)
        rows = slice(beams.bounds[query], beams.bounds[query + 1])
        np.testing.assert_array_equal(alone.starts, beams.starts[:, rows])
        np.testing.assert_array_equal(alone.log_probs, beams.log_probs[rows])


def test_logits_of_many_rows_round_as_those_of_one_at_any_place() -> None:
    """In whole codebooks of a usual size, whatever the processor's library does."""
    rng = np.random.default_rng(0)
    geometry = Geometry([rng.normal(size=(size, 48)) for size in (3, 70, 512)], 0.7, memory=0)
    rows = rng.normal(size=(150, 48)).astype(np.float32)
    for level in range(3):
        together = geometry.logits(level, rows)
        for number in (0, 1, 7, 8, 40, 63, 64, 100, 149):
            alone = geometry.logits(level, rows[number : number + 1])
            np.testing.assert_array_equal(alone[0], together[number])


def test_tables_keep_to_their_memory() -> None:
    rng = np.random.default_rng(0)
    large = Geometry([rng.normal(size=(size, 2)) for size in [3] + 8 * [4096]], 1.0)
    assert large.tabled_levels == 3 and MEMORY >= 4 * 4096 * (3 + 3 + 4096)
    small = Geometry([rng.normal(size=(size, 2)) for size in [3] + 8 * [1024]], 1.0)
    assert small.tabled_levels == 9


# --- temperature


@pytest.mark.parametrize("true", [0.05, 0.5, 2.0])
def test_fitting_recovers_the_temperature_that_data_was_drawn_with(true: float) -> None:
    rng = np.random.default_rng(0)
    codebooks = some_codebooks(rng, [3, 64, 32], 6)
    vectors = rng.normal(size=(20_000, 6)).astype(np.float32)
    codes, residuals = np.empty((len(vectors), 3), np.uint16), vectors
    for level, book in enumerate(codebooks):
        noise = rng.gumbel(size=(len(vectors), len(book)))  # the argmax of scores + Gumbel noise is a draw
        codes[:, level] = (by_formula(residuals, book, true) + noise).argmax(axis=1)
        residuals = residuals - book[codes[:, level]]
    assert fit_temperature(codebooks, vectors, codes) == pytest.approx(true, rel=0.05)


def test_the_fit_is_the_best_of_a_grid() -> None:
    rng = np.random.default_rng(1)
    book, vectors = rng.normal(size=(20, 4)), rng.normal(size=(300, 4))
    codes = np.where(
        rng.random(300) < 0.5, by_formula(vectors, book, 1).argmax(axis=1), rng.integers(0, 20, 300)
    )
    fitted = fit_temperature([book], vectors, codes[:, None])

    def likelihood(temperature: float) -> float:
        return float(by_formula(vectors, book, temperature)[np.arange(300), codes].mean())

    assert (
        likelihood(fitted)
        >= max(likelihood(fitted * factor) for factor in np.geomspace(0.01, 100, 200)) - 1e-5
    )


def test_a_sample_of_many_pairs_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    book, vectors = rng.normal(size=(8, 4)), rng.normal(size=(4000, 4))
    codes = (by_formula(vectors, book, 1.5) + rng.gumbel(size=(4000, 8))).argmax(axis=1)[:, None]
    whole = fit_temperature([book], vectors, codes)
    monkeypatch.setattr(module, "MAX_DISTANCES", 8 * 1000)
    assert fit_temperature([book], vectors, codes) == fit_temperature([book], vectors[::4], codes[::4])
    assert fit_temperature([book], vectors, codes) == pytest.approx(whole, rel=0.2)


def test_levels_that_say_nothing_get_a_temperature() -> None:
    vectors, codes = np.ones((5, 3)), np.zeros((5, 1), np.uint16)
    assert fit_temperature([np.ones((1, 3))], vectors, codes) == 1.0
    assert fit_temperature([np.ones((4, 3))], vectors, codes) == 1.0
    # All given codes are the nearest, or all the farthest: sharp and flat, and finite.
    near_and_far = np.array([[1.0, 1, 1], [-1, -1, -1]])
    sharp, flat = (fit_temperature([near_and_far], vectors, codes + code) for code in (0, 1))
    assert 0 < sharp < 0.2 and 1000 < flat < np.inf
    assert np.isfinite(Geometry([near_and_far], sharp).begin(vectors).scores()).all()


def test_bad_input() -> None:
    book = np.ones((2, 3))
    with pytest.raises(InputError, match="a temperature must be above zero, not 0"):
        Geometry([book], 0.0)
    with pytest.raises(InputError, match=r"must be matrices, not the shapes \[\(0, 3\)\]"):
        Geometry([np.ones((0, 3))], 1.0)
    with pytest.raises(InputError, match=r"must be of one width, not \[3, 4\]"):
        Geometry([book, np.ones((2, 4))], 1.0)
    with pytest.raises(InputError, match="some hold NaN or infinity"):
        Geometry([book * np.nan], 1.0)
    with pytest.raises(InputError, match=r"vectors of width 3, not of the shape \(5, 4\)"):
        Geometry([book], 1.0).begin(np.ones((5, 4)))
    for codes in ([0, 1], [-1] * 5, [2] * 5):
        with pytest.raises(InputError, match="each query needs a modality code from 0 to 1"):
            Geometry([book], 1.0).begin(np.ones((5, 3)), np.array(codes))
    with pytest.raises(InputError, match=r"not on shapes \(5, 3\) and \(5, 2\)"):
        fit_temperature([book], np.ones((5, 3)), np.zeros((5, 2), np.uint16))
