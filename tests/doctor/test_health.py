from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from genius.doctor.health import measure
from genius.doctor.report import as_json
from genius.doctor.verdict import judge
from genius.errors import InputError
from genius.quantize.quantizer import unit_length
from tests.doctor.figures import coded_tasks


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
