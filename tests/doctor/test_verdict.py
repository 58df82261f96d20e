from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from genius.doctor.codes import LevelUse
from genius.doctor.health import Health
from genius.doctor.verdict import judge
from tests.doctor.figures import GOOD


def changed(**figures: Any) -> Health:
    """The good health with other figures, of the examination or of its one task."""
    of_task = {name: value for name, value in figures.items() if hasattr(GOOD.tasks[0], name)}
    others = {name: value for name, value in figures.items() if name not in of_task}
    task = dataclasses.replace(GOOD.tasks[0], **of_task)
    return dataclasses.replace(GOOD, tasks=(task,), **others)


def test_good_figures_are_healthy() -> None:
    verdict = judge(GOOD)
    assert (verdict.state, verdict.reasons, verdict.advice) == ("healthy", (), ())


@pytest.mark.parametrize(
    ("figures", "state", "finding", "change"),
    [
        ({"codes": 0.29}, "broken", "keeps 58.0 %", "lost by quantization"),
        ({"codes": 0.2, "vectors": 0.25}, "broken", "keeps 40.0 %", "lost before quantization"),
        ({"survival_given": (1.0, 0.49, 0.4)}, "broken", "first semantic code 49.0 %", "contrast"),
        ({"survival_given": (1.0, float("nan"), 0.4)}, "broken", "first semantic code no number", "contrast"),
        ({"not_finite": 12}, "broken", "12 vectors of items and queries are NaN", "Encode"),
        ({"embeddings": 0.0, "codes": 0.0}, "broken", "Even dense search finds no answer", "encoder"),
        ({"codes": 0.47}, "weak", "keeps 94.0 %", "codebooks.size"),
        ({"survival_given": (1.0, 0.89, 0.7)}, "weak", "first semantic code 89.0 %", "gamma"),
        ({"survival_given": (1.0, 0.98, 0.63)}, "weak", "end of the code 63.0 %", "level 3"),
        ({"purity": 0.94}, "weak", "modality of 94.0 %", 'codebooks.modality_code = "given"'),
    ],
)
def test_verdicts(figures: dict[str, object], state: str, finding: str, change: str) -> None:
    verdict = judge(changed(**figures))
    assert verdict.state == state
    assert len(verdict.reasons) == 1
    assert finding in verdict.reasons[0].finding
    assert change in verdict.reasons[0].change
    for sentence in (verdict.reasons[0].finding, verdict.reasons[0].change, verdict.summary):
        assert sentence[-1] == "."
    assert verdict.summary.startswith(state)


def test_the_bar_of_the_end_is_a_share_of_what_dense_search_reaches() -> None:
    assert judge(changed(survival_given=(1.0, 0.98, 0.45), ceiling=0.5)).state == "healthy"
    assert judge(changed(survival_given=(1.0, 0.98, 0.45), ceiling=0.6)).state == "weak"


def test_codes_are_compared_with_the_dense_baseline() -> None:
    by_vectors = dataclasses.replace(GOOD.code_spec, dense_baseline="vectors")
    health = changed(code_spec=by_vectors, vectors=0.7)
    assert health.recall_kept == pytest.approx(0.49 / 0.7)
    assert "(49.0 % instead of 70.0 %)" in judge(health).reasons[0].finding
    assert judge(changed(vectors=0.7)).state == "healthy"


def test_purity_does_not_matter_where_the_modality_is_given() -> None:
    given = dataclasses.replace(GOOD.code_spec, modality_code="given")
    assert judge(changed(purity=0.5, code_spec=given)).state == "healthy"


def test_perfect_use_does_not_save_bad_recall_and_bad_use_does_not_spoil_good_recall() -> None:
    perfect = tuple(dataclasses.replace(level, used=1.0) for level in GOOD.levels)
    assert judge(changed(levels=perfect, cosine=1.0, codes=0.1)).state == "broken"
    poor = tuple(LevelUse(level.size, 0.1, 2.0, 1.0) for level in GOOD.levels)
    crowded = dataclasses.replace(GOOD.buckets, own_code=0.5, largest=300)
    verdict = judge(changed(levels=poor, buckets=crowded))
    assert verdict.state == "healthy"
    assert ["10.0 %" in verdict.advice[0].finding, "50.0 %" in verdict.advice[1].finding] == [True, True]


def test_advice_on_modalities() -> None:
    collapsed = dataclasses.replace(GOOD.code_spec, modality_of=(0, 0, 2))
    advice = judge(changed(code_spec=collapsed)).advice
    assert "No modality code stands for the modality text" in advice[0].finding
    advice = judge(changed(survival_inferred=(0.8, 0.7, 0.5))).advice
    assert "50.0 % instead of 70.0 %" in advice[0].finding
