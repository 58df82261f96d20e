"""What is learned behind stage 1: what it starts from, that it learns, and from which pairs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.corpus.coded import CodedCorpus
from genius.data.mbeir import Tree
from genius.decode.geometry import Geometry
from genius.errors import InputError
from genius.model import Model
from genius.train.pairs import held_out_items
from genius.train.run import read_recipe, train_model
from tests.benchmarks.scripts import RunScript, json_rows, load
from tests.encode.small_towers import use_small_towers

SHARE = 0.3
ROUNDING = 1e-5
"""Distances that differ by less may be of equal codes."""


@pytest.fixture(scope="module")
def partly_trained(home: Path, miniature: Path) -> Path:
    """A tiny model that codes, and has not learned from all answers."""
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(home, patch)
        recipe = read_recipe(home / "codes.toml", {"held_out": SHARE})
        return train_model(recipe, Tree(miniature), home / "partly", cache=home / "cache").path


def test_corrections_are_measured_beside_none(run: RunScript, partly_trained: Path, miniature: Path) -> None:
    arguments = ("--tree", miniature, "--model", partly_trained, "--steps", 2, "--json", "--queries", 0)
    rows = json_rows(run("correction", *arguments))
    assert [row["correction"] for row in rows[:2]] == ["none", "query map, held-out answers"]
    assert len(rows) == 5 and len({row["pairs"] for row in rows[1:]}) == 1
    correction = load("correction")
    training, pool = correction.read_corpora(Model.open(partly_trained), Tree(miniature), "val", 0)
    least, most = _brute_force(pool)
    assert least - 1e-6 <= rows[0]["mean"] <= most + 1e-6
    assert most < 100
    held_out = held_out_items(training.embedded.pool.ids, SHARE)
    new, known = _both_pairs(correction, training)
    assert held_out[new[1]].all() and not held_out[known[1]].any() and len(new[0]) == rows[1]["pairs"]
    for kind in correction.KINDS:
        changed = correction.Correction(Model.open(partly_trained), kind)
        before = _margin(correction, changed, training, new)
        correction.train_correction(changed, training, new, 60, 0)
        assert _margin(correction, changed, training, new) > before


def test_a_learned_first_code_starts_from_geometry_and_learns(
    run: RunScript, partly_trained: Path, miniature: Path
) -> None:
    arguments = ("--tree", miniature, "--model", partly_trained, "--steps", 2, "--json", "--queries", 0)
    rows = json_rows(run("routing", *arguments))
    routing, correction = load("routing"), load("correction")
    assert [row["beams"] for row in rows] == [beams for beams in routing.BEAMS for _ in range(3)]
    # In all cells there are, the first code does not matter: what is found is what codes find.
    training, pool = correction.read_corpora(Model.open(partly_trained), Tree(miniature), "val", 0)
    least, most = _brute_force(pool)
    assert all(least - 1e-6 <= row["mean"] <= most + 1e-6 for row in rows[-3:])
    assert all(0 <= row["mean"] <= 100 for row in rows)  # fewer cells may find more: wrong items are left out
    router, (pairs, _) = routing.Router(pool.model), _both_pairs(correction, training)
    before = _likelihood(router, training, pairs)
    geometry = Geometry(pool.model.quantizer.codebooks, pool.model.geometry.temperature)
    own = geometry.begin(pairs[0], training.codes[pairs[1], 0].astype(np.int64)).scores()
    np.testing.assert_allclose(router.scores(*_known(training, pairs)).detach(), own, atol=1e-5)
    router.train_on(training, pairs, 60, 0)
    assert _likelihood(router, training, pairs) > before


def _both_pairs(correction: Any, training: CodedCorpus) -> Any:
    return correction.training_pairs(training, held_out_items(training.embedded.pool.ids, SHARE), 0)


def _known(training: CodedCorpus, pairs: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    return pairs[0], training.codes[pairs[1], 0].astype(np.int64)


def _likelihood(router: Any, training: CodedCorpus, pairs: tuple[np.ndarray, np.ndarray]) -> float:
    """The mean log-probability of the cells of pairs' answers."""
    scores = router.scores(*_known(training, pairs)).log_softmax(1)
    cells = training.codes[pairs[1], router.level].astype(np.int64)
    return float(scores[np.arange(len(cells)), cells].detach().mean())


def _brute_force(pool: Any) -> tuple[float, float]:
    """The mean hit rate over tasks by the distance from queries to all codes of the wanted modality: at least
    and at most, since items of equal codes may stand in any order."""
    coded, model = pool.coded, pool.model
    quantized, rates = model.quantizer.reconstruct(coded.codes).astype(np.float64), []
    for task in coded.embedded.tasks.values():
        candidates = np.array([n for n in pool.members if coded.embedded.pool.modality[n] == task.want])
        hits = []
        for row, vector in enumerate(coded.queries[task.task]):
            distance = ((vector - quantized[candidates]) ** 2).sum(1)
            nearest = min(distance[candidates == answer].item() for answer in task.positives(row))
            not_farther = (distance <= nearest + ROUNDING).sum()
            nearer = (distance < nearest - ROUNDING).sum()
            hits.append((not_farther <= 5, nearer < 5))
        rates.append(100 * np.mean(hits, axis=0))
    least, most = np.mean(rates, axis=0)
    return least, most


def _margin(
    correction: Any, changed: Any, training: CodedCorpus, pairs: tuple[np.ndarray, np.ndarray]
) -> float:
    """The mean score of pairs less that of the best item: how far answers are from coming first."""
    queries, items = changed.queries(pairs[0]), changed.items(training.codes)
    scores = correction.code_scores(queries, items)
    own = scores[np.arange(len(pairs[1])), pairs[1]]
    return float((own - scores.max(1).values).detach().mean())


def test_a_model_that_learned_from_all_answers_is_refused(
    run: RunScript, trained: Path, miniature: Path
) -> None:
    for script in ("correction", "routing"):
        with pytest.raises(InputError, match="was trained on all answers: say held_out"):
            run(script, "--tree", miniature, "--model", trained)
