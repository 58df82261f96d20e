from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from genius.decode.geometry import Geometry
from genius.doctor.health import measure
from genius.doctor.report import as_json
from genius.doctor.verdict import judge
from genius.errors import InputError
from genius.quantize.quantizer import unit_length
from tests.doctor.figures import WIDTH, coded_tasks


def test_the_figures_are_those_of_direct_computations() -> None:
    items, tasks, geometry, spec = coded_tasks(noise=0.2)
    health = measure(items, tasks, geometry, spec)
    for task, figures in zip(tasks, health.tasks, strict=True):
        wanted = np.flatnonzero(items.modality == task.want)
        for name, table in (
            ("embeddings", items.embeddings),
            ("vectors", items.vectors),
            ("codes", unit_length(items.quantized)),
        ):
            best = wanted[np.argsort(-(task.vectors @ table[wanted].T), axis=1, kind="stable")[:, :5]]
            hits = [answers[0] in row for row, answers in zip(best, task.positives, strict=True)]
            assert getattr(figures, name) == pytest.approx(np.mean(hits))
        answers = items.codes[[positives[0] for positives in task.positives]]
        assert figures.agreement_matched[0] == pytest.approx((task.codes[:, 1] == answers[:, 1]).mean())
        assert figures.survival_given[0] == 1.0  # the modality is given
        assert figures.ceiling == 1.0  # fewer than fifty items of a modality
    assert health.embeddings == pytest.approx(np.mean([task.embeddings for task in health.tasks]))
    cosines = [
        vector @ quantized / np.linalg.norm(vector) / np.linalg.norm(quantized)
        for vector, quantized in zip(items.vectors, items.quantized, strict=True)
    ]
    assert health.cosine == pytest.approx(np.mean(cosines), abs=1e-5)
    assert health.purity == 1.0
    assert np.array(health.confusion).tolist() == [[40, 0, 0], [0, 40, 0], [0, 0, 40]]
    assert health.queries == 40


@pytest.mark.parametrize("given", [True, False])
def test_survival_equals_a_direct_computation(given: bool) -> None:
    """Each level's beam is found by scoring every prefix that exists."""
    items, tasks, geometry, spec = coded_tasks(noise=1.0)
    health = measure(items, tasks, geometry, spec, beams=4)
    for task, figures in zip(tasks, health.tasks, strict=True):
        survived = [
            surviving_levels(query, items.codes, geometry, positives, task.want if given else None)
            for query, positives in zip(task.vectors, task.positives, strict=True)
        ]
        measured = figures.survival_given if given else figures.survival_inferred
        assert measured == pytest.approx(np.mean(survived, axis=0))
        assert min(measured) < 1  # else it would show nothing


def surviving_levels(
    query: np.ndarray,
    codes: np.ndarray,
    geometry: Geometry,
    positives: np.ndarray,
    modality_code: int | None,
    beams: int = 4,
) -> list[bool]:
    """Whether a positive is in the beams after each level."""
    beam: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    survives = []
    for level, codebook in enumerate(geometry.codebooks):
        prefixes = {tuple(code[: level + 1]) for code in codes.tolist()}
        longer = []
        for prefix, log_prob in beam:
            rest = query - sum(
                (geometry.codebooks[at][code] for at, code in enumerate(prefix)), np.zeros(WIDTH)
            )
            logits = -np.square(rest - codebook).sum(axis=1) / geometry.temperature
            logits -= np.log(np.exp(logits).sum())
            for child in sorted(child for child in prefixes if child[:level] == prefix):
                if level > 0 or modality_code is None:
                    longer.append((child, log_prob + float(logits[child[-1]])))
                elif child[0] == modality_code:
                    longer.append((child, 0.0))
        beam = sorted(longer, key=lambda scored: -scored[1])[:beams]
        answers = {tuple(codes[item, : level + 1].tolist()) for item in positives}
        survives.append(bool({prefix for prefix, _ in beam} & answers))
    return survives


def test_random_pairs_agree_less_than_matched_ones() -> None:
    items, tasks, geometry, spec = coded_tasks()
    for figures in measure(items, tasks, geometry, spec).tasks:
        assert figures.agreement_matched[0] > figures.agreement_random[0] + 0.3


def test_the_same_arrays_give_the_same_health() -> None:
    assert measure(*coded_tasks()) == measure(*coded_tasks())


def test_without_a_modality_code_there_is_no_purity() -> None:
    health = measure(*coded_tasks(modality_code="none"))
    assert np.isnan(health.purity)
    assert health.confusion == ()
    assert health.survival_given == health.survival_inferred  # no code to state the modality by
    assert as_json(health, judge(health))["confusion"] == ()


def test_an_examination_without_queries_is_refused() -> None:
    items, tasks, geometry, spec = coded_tasks()
    with pytest.raises(InputError, match="needs at least one task"):
        measure(items, [], geometry, spec)
    nothing = dataclasses.replace(tasks[0], vectors=tasks[0].vectors[:0])
    with pytest.raises(InputError, match="queries of each"):
        measure(items, [nothing], geometry, spec)
