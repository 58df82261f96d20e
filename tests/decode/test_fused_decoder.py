"""Geometric score fusion against its formula, computed directly over all codes of a small tree."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

pytest.importorskip("torch")
pytest.importorskip("onnx")

from genius.decode.decoder import Decoder
from genius.decode.fused_decoder import FusedDecoder, GeometricFusionSettings, standardise
from genius.decode.geometry import Geometry
from genius.decode.t5 import T5Decoder
from genius.decode.torch_decoder import TorchDecoder
from genius.errors import InputError, MismatchError
from genius.search.code_pool import CodePool
from genius.search.explain import level_log_probs
from tests.decode.small_decoder import WIDTH, changed, network, onnx, queries

SIZES = (3, 5, 4, 6)
ALL_CODES = np.array(list(itertools.product(*map(range, SIZES))))
BOOKS = [
    np.random.default_rng([4, level]).normal(size=(size, WIDTH)).astype(np.float32) * 0.6**level
    for level, size in enumerate(SIZES)
]


def log_softmax(logits: np.ndarray) -> np.ndarray:
    return np.asarray(logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max())


def direct_log_probs(
    made: T5Decoder, vector: np.ndarray, code: np.ndarray, weight: float, semantic: int
) -> list[float]:
    """log p of each of a code's numbers, term by term in double precision: the network's logits by teacher
    forcing, and beside them 2 (q − r̂)·e − ‖e‖², less its mean and by its deviation over the level's codes."""
    import torch

    with torch.no_grad():
        level_logits = made(torch.from_numpy(vector[None]), torch.from_numpy(code[None]))
    added, prefix_sum = [], np.zeros(WIDTH)
    for level, book in enumerate(BOOKS):
        logits = level_logits[level][0].double().numpy()
        if made.settings.normalisation == "vocabulary":
            first = made.offsets[level]
            log_probs = log_softmax(logits)[first : first + SIZES[level]]
        else:
            log_probs = log_softmax(logits)
        if level >= semantic:
            raw = np.array(
                [
                    2 * (vector - prefix_sum) @ e.astype(float) - e.astype(float) @ e.astype(float)
                    for e in book
                ]
            )
            log_probs = log_softmax(log_probs + weight * (raw - raw.mean()) / raw.std())
        added.append(float(log_probs[code[level]]))
        prefix_sum = prefix_sum + book[code[level]].astype(float)
    return added


@pytest.mark.parametrize("normalisation", ["level", "vocabulary"])
@pytest.mark.parametrize("runtime", ["torch", "onnx"])
@pytest.mark.parametrize("memory", [-1, 1 << 27])
@pytest.mark.parametrize("semantic", [0, 1])
def test_the_score_of_every_code_equals_a_direct_computation(
    normalisation: str, runtime: str, memory: int, semantic: int
) -> None:
    special = 2 if normalisation == "vocabulary" else 0
    made = network(SIZES, changed(normalisation=normalisation, special_tokens=special))
    learned: Decoder = TorchDecoder(made) if runtime == "torch" else onnx(made)
    weight, vectors = 10.0, queries(2)
    decoder = FusedDecoder(learned, Geometry(BOOKS, 0.3, memory), weight, semantic)
    assert tuple(decoder.sizes) == SIZES
    query_ids = np.repeat(np.arange(2), len(ALL_CODES))
    scores = level_log_probs(decoder, vectors, query_ids, np.tile(ALL_CODES, (2, 1)))
    checked = np.random.default_rng(1).choice(len(query_ids), 80, replace=False)
    for row in checked:
        code = ALL_CODES[row % len(ALL_CODES)]
        expected = direct_log_probs(made, vectors[query_ids[row]], code, weight, semantic)
        np.testing.assert_allclose(scores[row], expected, atol=3e-3, rtol=1e-4)


@pytest.mark.long
@pytest.mark.parametrize("given_modality", [False, True])
def test_beams_find_the_codes_that_brute_force_ranks_first(given_modality: bool) -> None:
    """With as many beams as there are codes, the best items are those of the greatest summed scores."""
    made, vectors = network(SIZES), queries(3)
    decoder = FusedDecoder(onnx(made), Geometry(BOOKS, 1.0), 10.0, 1)
    codes = ALL_CODES[np.random.default_rng(2).permutation(len(ALL_CODES))[:150]]
    wanted = np.array([0, 2, 1]) if given_modality else None
    pool = CodePool(codes, BOOKS, 1)
    nothing = [np.array([0])] * 3
    items, _ = pool.search(decoder, vectors, nothing, k=5, beams=400, modality_code=wanted)
    for query, vector in enumerate(vectors):
        summed = []
        for code in codes:
            by_level = direct_log_probs(made, vector, code, 10.0, 1)
            if wanted is not None:
                by_level[0] = 0.0 if code[0] == wanted[query] else -np.inf
            summed.append(sum(by_level))
        best = np.argsort(-np.array(summed), kind="stable")[:5]
        np.testing.assert_allclose(np.array(summed)[items[query]], np.array(summed)[best], atol=1e-2)


def test_without_weight_it_is_the_learned_decoder_and_with_much_it_is_geometry() -> None:
    made, vectors = network(SIZES), queries(4)
    learned, geometry = TorchDecoder(made), Geometry(BOOKS, 1.0)
    state, alone = FusedDecoder(learned, geometry, 0.0).begin(vectors), learned.begin(vectors)
    np.testing.assert_allclose(state.scores(), alone.scores(), atol=1e-5)
    fused, by_geometry = FusedDecoder(learned, geometry, 1e4, 1), geometry.begin(vectors, np.arange(4) % 3)
    order = fused.begin(vectors, np.arange(4) % 3).scores().argmax(axis=1)
    np.testing.assert_array_equal(order, by_geometry.scores().argmax(axis=1))


@given(st.integers(1, 4), st.integers(2, 30), st.floats(1e-3, 1e3), st.floats(-100, 100), st.integers(0, 99))
def test_standardised_rows_do_not_depend_on_scale_and_shift(
    rows: int, codes: int, scale: float, shift: float, seed: int
) -> None:
    """So neither on the geometry's temperature, nor on what all codes share, but for rounding."""
    logits = np.random.default_rng(seed).normal(size=(rows, codes))
    rounding = np.finfo(np.float32).eps * (np.abs(logits).max() + abs(shift)) / logits.std(axis=1).min()
    assume(rounding < 1e-2)  # nearer codes are all the same to single precision
    standard = standardise(logits.astype(np.float32))
    np.testing.assert_allclose(standard.mean(axis=1), 0, atol=8 * rounding)
    np.testing.assert_allclose(standard.std(axis=1), 1, atol=8 * rounding)
    moved = standardise((scale * (logits + shift)).astype(np.float32))
    np.testing.assert_allclose(moved, standard, atol=8 * rounding * np.sqrt(codes))


def test_codes_that_all_score_the_same_are_left_to_the_network() -> None:
    assert not standardise(np.full((2, 7), 0.1, np.float32)).any()
    books = [BOOKS[0], np.tile(BOOKS[1][:1], (5, 1)), *BOOKS[2:]]  # a level that tells nothing apart
    learned, modality = TorchDecoder(network(SIZES)), np.zeros(2, np.int64)
    fused = FusedDecoder(learned, Geometry(books, 1.0), 10.0, 1)
    expected = learned.begin(queries(2), modality).scores()
    np.testing.assert_allclose(fused.begin(queries(2), modality).scores(), expected, atol=1e-5)


def test_bad_input() -> None:
    learned = TorchDecoder(network(SIZES))
    with pytest.raises(MismatchError, match="made by different models"):
        FusedDecoder(learned, Geometry(BOOKS[:3], 1.0), 10.0)
    with pytest.raises(InputError, match="this model's codes have none: search without it"):
        FusedDecoder(learned, Geometry([BOOKS[0], *(0 * book for book in BOOKS[1:])], 1.0), 10.0, 1)
    for weight in (-1.0, np.nan, np.inf):
        with pytest.raises(InputError, match="weight of geometric fusion should be at least 0"):
            GeometricFusionSettings(weight)
