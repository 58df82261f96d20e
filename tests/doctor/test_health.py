from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from genius.decode.geometry import Geometry
from genius.display import Table
from genius.doctor.codes import Buckets, Group, Level
from genius.doctor.health import CodedItems, CodedQueries, Coding, Health, TaskHealth, measure
from genius.doctor.report import as_json, tables
from genius.doctor.verdict import judge
from genius.errors import InputError
from genius.quantize.quantizer import Quantizer, unit_length

WIDTH = 12


def made(
    noise: float = 0.05, first: str = "given"
) -> tuple[CodedItems, list[CodedQueries], Geometry, Coding]:
    """Queries that lie beside their answers, and codebooks by which items can be told apart."""
    random = np.random.default_rng(0)
    books = [random.normal(size=(size, WIDTH)).astype(np.float32) for size in (3, 16, 16)]
    books = [book * scale for book, scale in zip(books, (1.0, 0.6, 0.2), strict=True)]
    quantizer = Quantizer(books if first != "none" else books[1:], modality_code=first)
    modality = np.arange(120) % 3
    vectors = unit_length(books[0][modality] + 0.6 * random.normal(size=(120, WIDTH)))
    codes = quantizer.codes(vectors, modality)
    items = CodedItems(modality, vectors, vectors, codes, quantizer.reconstruct(codes))
    tasks = []
    for want in range(2):
        answers = np.flatnonzero(modality == want)[:20]
        asked = unit_length(vectors[answers] + noise * random.normal(size=(20, WIDTH)))
        own = quantizer.codes(asked, np.full(20, want))
        positives = [np.array([answer]) for answer in answers]
        tasks.append(
            CodedQueries(f"made_task{want}", want, asked, asked, own, quantizer.reconstruct(own), positives)
        )
    geometry = Geometry(quantizer.codebooks, 0.1)
    return items, tasks, geometry, Coding(quantizer.sizes, first, (0, 1, 2) if first != "none" else ())


def test_the_figures_are_those_of_direct_computations() -> None:
    items, tasks, geometry, coding = made(noise=0.2)
    health = measure(items, tasks, geometry, coding)
    for task, figures in zip(tasks, health.tasks, strict=True):
        wanted = np.flatnonzero(items.modality == task.want)
        for name, table in (
            ("embeddings", items.embeddings),
            ("vectors", items.vectors),
            ("codes", unit_length(items.quantized)),
        ):
            best = wanted[np.argsort(-(task.vectors @ table[wanted].T), axis=1, kind="stable")[:, :5]]
            hits = [known[0] in row for row, known in zip(best, task.positives, strict=True)]
            assert getattr(figures, name) == pytest.approx(np.mean(hits))
        answers = items.codes[[known[0] for known in task.positives]]
        assert figures.matched[0] == pytest.approx((task.codes[:, 1] == answers[:, 1]).mean())
        assert figures.known[0] == 1.0  # the modality is given
        assert figures.ceiling == 1.0  # fewer than fifty items of a modality
    assert health.embeddings == pytest.approx(np.mean([task.embeddings for task in health.tasks]))
    cosines = [
        one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        for one, other in zip(items.vectors, items.quantized, strict=True)
    ]
    assert health.cosine == pytest.approx(np.mean(cosines), abs=1e-5)
    assert health.purity == 1.0
    assert np.array(health.confusion).tolist() == [[40, 0, 0], [0, 40, 0], [0, 0, 40]]
    assert health.queries == 40


def test_random_pairs_agree_less_than_matched_ones() -> None:
    items, tasks, geometry, coding = made()
    for figures in measure(items, tasks, geometry, coding).tasks:
        assert figures.matched[0] > figures.random[0] + 0.3


def test_the_same_arrays_give_the_same_health() -> None:
    assert measure(*made()) == measure(*made())


def test_without_a_modality_code_there_is_no_purity() -> None:
    health = measure(*made(first="none"))
    assert np.isnan(health.purity)
    assert health.confusion == ()
    assert health.known == health.inferred  # nothing to say the wanted modality by
    assert as_json(health, judge(health))["confusion"] == ()


def test_an_examination_without_queries_is_refused() -> None:
    items, tasks, geometry, coding = made()
    with pytest.raises(InputError, match="needs at least one task"):
        measure(items, [], geometry, coding)
    nothing = dataclasses.replace(tasks[0], vectors=tasks[0].vectors[:0])
    with pytest.raises(InputError, match="queries of each"):
        measure(items, [nothing], geometry, coding)


# --- verdicts


GOOD = Health(
    coding=Coding((3, 256, 256), "learned", (0, 1, 2)),
    queries=500,
    not_finite=0,
    levels=(Level(3, 1.0, 2.9, 1.5), Level(256, 0.99, 220.0, 7.8), Level(256, 0.99, 220.0, 7.8)),
    buckets=Buckets(1000, 995, 1000, 0.995, 3, (Group("image", 500, 5), Group("text", 500, 0))),
    confusion=((500, 0, 0), (0, 500, 0), (0, 0, 0)),
    purity=1.0,
    cosine=0.9,
    tasks=(
        TaskHealth(
            task="made_task0",
            queries=500,
            embeddings=0.5,
            vectors=0.5,
            codes=0.49,
            ceiling=0.8,
            known=(1.0, 0.98, 0.7),
            inferred=(1.0, 0.97, 0.69),
            matched=(0.5, 0.2),
            random=(0.01, 0.0),
        ),
    ),
)


def changed(**figures: object) -> Health:
    """The good health with other figures, of the examination or of its one task."""
    of_task = {name: value for name, value in figures.items() if hasattr(GOOD.tasks[0], name)}
    others = {name: value for name, value in figures.items() if name not in of_task}
    task = dataclasses.replace(GOOD.tasks[0], **of_task)  # type: ignore[arg-type]
    return dataclasses.replace(GOOD, tasks=(task,), **others)  # type: ignore[arg-type]


def test_good_figures_are_healthy() -> None:
    verdict = judge(GOOD)
    assert (verdict.state, verdict.reasons, verdict.advice) == ("healthy", (), ())


@pytest.mark.parametrize(
    ("figures", "state", "finding", "change"),
    [
        ({"codes": 0.29}, "broken", "keeps 58.0 %", "lost by quantization"),
        ({"codes": 0.2, "vectors": 0.25}, "broken", "keeps 40.0 %", "lost before quantization"),
        ({"known": (1.0, 0.49, 0.4)}, "broken", "first semantic code 49.0 %", "contrast"),
        ({"known": (1.0, float("nan"), 0.4)}, "broken", "first semantic code no number", "contrast"),
        ({"not_finite": 12}, "broken", "12 vectors of items and queries are NaN", "Encode"),
        ({"embeddings": 0.0, "codes": 0.0}, "broken", "Even dense search finds no answer", "encoder"),
        ({"codes": 0.47}, "weak", "keeps 94.0 %", "codebooks.size"),
        ({"known": (1.0, 0.89, 0.7)}, "weak", "first semantic code 89.0 %", "gamma"),
        ({"known": (1.0, 0.98, 0.63)}, "weak", "end of the code 63.0 %", "level 3"),
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
    assert judge(changed(known=(1.0, 0.98, 0.45), ceiling=0.5)).state == "healthy"
    assert judge(changed(known=(1.0, 0.98, 0.45), ceiling=0.6)).state == "weak"


def test_purity_does_not_matter_where_the_modality_is_given() -> None:
    given = dataclasses.replace(GOOD.coding, first="given")
    assert judge(changed(purity=0.5, coding=given)).state == "healthy"


def test_perfect_use_does_not_save_bad_recall_and_bad_use_does_not_spoil_good_recall() -> None:
    perfect = tuple(dataclasses.replace(level, used=1.0) for level in GOOD.levels)
    assert judge(changed(levels=perfect, cosine=1.0, codes=0.1)).state == "broken"
    poor = tuple(Level(level.size, 0.1, 2.0, 1.0) for level in GOOD.levels)
    crowded = dataclasses.replace(GOOD.buckets, own=0.5, largest=300)
    verdict = judge(changed(levels=poor, buckets=crowded))
    assert verdict.state == "healthy"
    assert ["10.0 %" in verdict.advice[0].finding, "50.0 %" in verdict.advice[1].finding] == [True, True]


def test_advice_on_modalities() -> None:
    collapsed = dataclasses.replace(GOOD.coding, modality_of=(0, 0, 2))
    assert "No first code stands for the modality text" in judge(changed(coding=collapsed)).advice[0].finding
    advice = judge(changed(inferred=(0.8, 0.7, 0.5))).advice
    assert "50.0 % instead of 70.0 %" in advice[0].finding


# --- reports


def row(table: Table, name: str) -> list[object]:
    return next(list(found) for found in table.rows if found[0] == name)


def test_tables_hold_the_figures() -> None:
    recall, survived, agreed, used, shared, first = tables(GOOD)
    assert row(recall, "mean")[1:] == pytest.approx([500, 50.0, 50.0, 49.0, 0.98, 80.0])
    assert row(survived, "given")[1:] == pytest.approx([100, 98, 70])
    assert row(agreed, "picture and caption, matched")[1:3] == pytest.approx([50, 20])
    assert row(used, "1 (modality)")[1] == 3
    assert row(shared, "contents with a code of their own")[1] == "99.50 %"
    assert row(first, "1") == ["1", 0, 500, 0, "text"]
    for table in tables(GOOD):
        assert table.markdown().count("\n") == len(table.rows) + 2


def test_json_holds_the_figures() -> None:
    import orjson

    found = orjson.loads(orjson.dumps(as_json(GOOD, judge(GOOD))))
    assert found["verdict"]["state"] == "healthy"
    assert found["recall"]["codes"] == {"mean": 0.49, "made_task0": 0.49}
    assert found["survival"]["known"]["mean"] == [1.0, 0.98, 0.7]
    assert found["levels"][1]["size"] == 256
    assert found["buckets"]["groups"][0] == {"modality": "image", "items": 500, "colliding": 5}
