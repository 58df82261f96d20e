"""Beam coding: exact with enough beams, greedy with one, and the same whatever stands beside a vector."""

from __future__ import annotations

import itertools

import numpy as np

from genius.quantize.beam_coding import BeamCoding
from genius.quantize.quantizer import Quantizer

RNG = np.random.default_rng(0)
BOOKS = [RNG.normal(size=(size, 6)).astype(np.float32) for size in (4, 5, 3)]
VECTORS = (2 * RNG.normal(size=(150, 6))).astype(np.float32)


def distances(codes: np.ndarray) -> np.ndarray:
    sums = sum(book[codes[:, level]] for level, book in enumerate(BOOKS))
    return np.asarray(np.linalg.norm(VECTORS - sums, axis=1))


def test_with_enough_beams_it_is_the_nearest_of_all_sums() -> None:
    every = np.array(list(itertools.product(*(range(len(book)) for book in BOOKS))))
    sums = sum(book[every[:, level]] for level, book in enumerate(BOOKS))
    best = every[np.linalg.norm(VECTORS[:, None] - sums[None], axis=2).argmin(1)]
    np.testing.assert_array_equal(BeamCoding(BOOKS, 20).codes(VECTORS), best)


def test_one_beam_is_greedy_coding() -> None:
    greedy = Quantizer(BOOKS, modality_code="none").codes(VECTORS)
    np.testing.assert_array_equal(BeamCoding(BOOKS, 1).codes(VECTORS), greedy)


def test_a_few_beams_come_nearer_than_one() -> None:
    greedy, beams = (distances(BeamCoding(BOOKS, count).codes(VECTORS)) for count in (1, 4))
    assert beams.mean() < 0.97 * greedy.mean()


def test_a_quantizer_codes_by_its_beams_behind_the_modality() -> None:
    centres = RNG.normal(size=(3, 6)).astype(np.float32)
    modality = RNG.integers(0, 3, len(VECTORS))
    codes = Quantizer([centres, *BOOKS], beams=4).codes(VECTORS, modality)
    np.testing.assert_array_equal(codes[:, 0], modality)
    np.testing.assert_array_equal(codes[:, 1:], BeamCoding(BOOKS, 4).codes(VECTORS - centres[modality]))


def test_codes_do_not_depend_on_the_batch() -> None:
    coding = BeamCoding(BOOKS, 3)
    alone = np.concatenate([coding.codes(VECTORS[row : row + 1]) for row in range(len(VECTORS))])
    np.testing.assert_array_equal(coding.codes(VECTORS), alone)
