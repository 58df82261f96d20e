from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("faiss")

from genius.decode.torch_decoder import TorchDecoder
from genius.errors import InputError
from genius.train.batches import validation_rows
from genius.train.decoder import DecoderTraining, mix_with_answers
from genius.train.level_curves import curve_name
from genius.train.loop import train
from tests.train.processes import assert_resumes, assert_same_together, losses
from tests.train.small_decoder import SETTINGS, coded, run, stage

pytestmark = pytest.mark.usefixtures("one_thread")


def units(count: int, width: int, seed: int) -> np.ndarray:
    rows = np.random.default_rng(seed).normal(size=(count, width))
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


# --- mixing (Eq. 11)


def test_off_and_clean_do_not_change_queries() -> None:
    queries, answers, random = units(9, 6, 0), units(9, 6, 1), np.random.default_rng(0)
    for settings in (DecoderTraining(mix="off"), DecoderTraining(clean=1.0)):
        np.testing.assert_array_equal(mix_with_answers(queries, answers, settings, random), queries)


@pytest.mark.parametrize("mix", ["linear", "sqrt"])
def test_one_share_for_a_query_mixes_it_with_its_answer(mix: Literal["linear", "sqrt"]) -> None:
    queries, answers = units(4000, 3, 0), units(4000, 3, 1)
    settings = DecoderTraining(mix=mix, clean=0.0)
    mixtures = mix_with_answers(queries, answers, settings, np.random.default_rng(0))
    np.testing.assert_allclose(np.linalg.norm(mixtures, axis=1), 1, atol=1e-5)
    # Each is a combination of its query and its answer; solving for the weights gives µ.
    shares = np.empty(len(mixtures))
    for row, (query, answer, mixture) in enumerate(zip(queries, answers, mixtures, strict=True)):
        basis = np.stack([query, answer], 1).astype(float)
        (of_query, of_answer), error, *_ = np.linalg.lstsq(basis, mixture, rcond=None)
        assert error.size == 0 or error[0] < 1e-6
        if mix == "sqrt":
            of_query, of_answer = of_query**2, of_answer**2
        shares[row] = of_query / (of_query + of_answer)
    assert shares.mean() == pytest.approx(0.5, abs=0.02)
    assert shares.var() == pytest.approx(1 / 20, abs=0.005)  # of Beta(2, 2)


def test_each_dimension_can_have_a_share_of_its_own() -> None:
    queries, answers = np.ones((3000, 2), np.float32), -np.ones((3000, 2), np.float32)
    settings = DecoderTraining(mix="sqrt", per_dimension=True, clean=0.25, mixture=(3.0, 1.0))
    mixtures = mix_with_answers(queries, answers, settings, np.random.default_rng(0))
    clean = (mixtures == queries).all(axis=1)
    assert clean.mean() == pytest.approx(0.25, abs=0.03)
    mixed = mixtures[~clean]
    assert (mixed[:, 0] != mixed[:, 1]).all()
    assert mixed.mean() > 0.2  # more of the query than of its answer


# --- batches


def test_the_targets_of_queries_are_codes_of_answers_and_those_of_items_their_own() -> None:
    made = stage(batch=40, own=0.25, mix="off")
    vectors, codes = made.draw(np.random.default_rng(0))
    assert vectors.shape == (40, 24) and codes.shape == (40, 3)
    rows = {row.tobytes(): number for number, row in enumerate(made.vectors)}
    for vector, code in zip(vectors[:30], codes[:30], strict=True):
        answers = made.queries.positives(rows[vector.tobytes()])
        assert code.tolist() in made.codes[answers].tolist()
    items = {row.tobytes(): number for number, row in enumerate(made.items)}
    for vector, code in zip(vectors[30:], codes[30:], strict=True):
        assert code.tolist() == made.codes[items[vector.tobytes()]].tolist()
    everything = stage(own=1.0).draw(np.random.default_rng(0))[0]
    assert all(vector.tobytes() in items for vector in everything)


# --- the stage


def test_training_makes_beams_find_answers(tmp_path: Path) -> None:
    untrained = stage()
    untrained.network.eval()
    before = untrained.validate()
    settings = dataclasses.replace(SETTINGS.loop, steps=80, validate_every=40)
    scores = train(stage(loop=settings), settings, tmp_path, seed=5)
    assert set(scores) == {"score", "first", "survival"}
    assert scores["score"] > before["score"] + 20
    assert scores["survival"] > before["survival"] + 10


def test_it_stops_when_nothing_improves(tmp_path: Path) -> None:
    patient = dataclasses.replace(SETTINGS.loop, steps=50, learning_rate=1e-12, validate_every=2, patience=3)
    train(stage(loop=patient), patient, tmp_path, seed=5)
    assert len(losses(tmp_path)) == 8


@pytest.mark.long
def test_killed_and_started_again_it_takes_the_same_steps(tmp_path: Path) -> None:
    assert_resumes("tests.train.small_decoder", run, tmp_path)


@pytest.mark.long
def test_two_processes_take_the_steps_of_one(tmp_path: Path) -> None:
    assert_same_together("tests.train.small_decoder", tmp_path, weights=r"network\..*", tolerance=1e-2)


def test_graphs_of_a_stage_are_compared_on_validation_queries() -> None:
    pytest.importorskip("onnx")
    exported = stage().export()
    assert set(exported.graphs) == {"fp32", "int8"}
    assert exported.largest["fp32"] < 1e-4


def test_bad_settings_are_named() -> None:
    with pytest.raises(InputError, match="batch, validated and beams should be at least 1"):
        DecoderTraining(beams=0)
    with pytest.raises(InputError, match="mixture should be two numbers above 0"):
        DecoderTraining(mixture=(1.0,))
    with pytest.raises(InputError, match="clean, own and label_smoothing are shares"):
        DecoderTraining(own=1.5)
    with pytest.raises(InputError, match="nor all 0"):
        DecoderTraining(level_weights=(0.0, 0.0))
    with pytest.raises(InputError, match="codes have 3 levels, but there are 2 weights"):
        stage(level_weights=(1.0, 1.0))


def test_in_bfloat16_the_loss_is_close_to_that_in_float32() -> None:
    exact, rounded = (stage(precision=precision).loss(0, 0) for precision in ("float32", "bfloat16"))
    assert rounded.dtype == exact.dtype and rounded != exact
    assert float(rounded.detach()) == pytest.approx(float(exact.detach()), rel=0.02)


@pytest.mark.parametrize("normalisation", ["level", "vocabulary"])
def test_curves_are_the_log_probabilities_of_a_search(
    normalisation: Literal["level", "vocabulary"], tmp_path: Path
) -> None:
    network = dataclasses.replace(SETTINGS.network, normalisation=normalisation, special_tokens=2)
    small = stage(network=network)
    loop = dataclasses.replace(SETTINGS.loop, steps=6, validate_every=3)
    scores = train(small, loop, tmp_path, seed=5)
    rows = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    logged = {row["step"]: row for row in rows if "val_score" in row}
    assert list(logged) == [3, 6] and not [name for name in scores if "log_prob" in name]
    decoder = TorchDecoder(small.decoder, "cpu")
    trained = {item for task in coded()[1].embedded.tasks.values() for item in task.items.tolist()}
    expected: dict[str, list[list[float]]] = {"seen": [], "unseen": []}
    for task in small.validation.embedded.tasks.values():
        for row in validation_rows(len(task), 30):
            answer = int(task.positives(row)[0])
            state, levels = decoder.begin(small.validation.queries[task.task][[row]]), []
            for code in small.codes[answer].tolist():
                levels.append(float(state.scores()[0, code]))
                state.advance(np.zeros(1, np.int64), np.array([code]))
            expected["seen" if answer in trained else "unseen"].append(levels)
    values = small.curves()
    for kind, log_probs in expected.items():
        assert log_probs, "the world has targets of both kinds"
        means = [values[curve_name(kind, level)] for level in range(1, len(small.codes[0]) + 1)]
        np.testing.assert_allclose(means, np.mean(log_probs, axis=0), atol=1e-4)
    assert values[curve_name("uniform", 2)] == -np.log(small.code_space.sizes[1])
    assert set(values) <= set(logged[6])
