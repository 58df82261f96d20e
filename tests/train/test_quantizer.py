from __future__ import annotations

import dataclasses
import signal
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("faiss")

from safetensors.torch import load_file  # noqa: E402

from genius.errors import InputError  # noqa: E402
from genius.train.loop import train  # noqa: E402
from genius.train.quantizer import QuantizerSettings  # noqa: E402
from tests.train.processes import losses, run_alone_and_together, run_and_kill  # noqa: E402
from tests.train.small_quantizer import SETTINGS, run, stage  # noqa: E402


def test_training_makes_queries_find_their_answers_by_codes(tmp_path: Path) -> None:
    untrained = stage()
    untrained.loss(0, 0)  # initialises the codebooks
    untrained.network.eval()
    before = untrained.validate()
    scores = train(stage(), SETTINGS.loop, tmp_path, seed=5)
    assert scores["codes"] > 60
    assert scores["score"] >= before["score"]
    assert set(scores) == {"score", "codes", "geometry", "first", "survival"}
    assert scores["first"] >= scores["survival"]


def test_items_that_no_query_asks_for_are_among_the_candidates() -> None:
    """They are no query's target, and every query still has an answer of its own as target."""
    trained = stage(dataclasses.replace(SETTINGS, others=60))
    batch = trained._draw(np.random.default_rng(3))
    positives = {int(item) for row in batch.rows for item in trained.queries.positives(row)}
    assert set(batch.candidates.tolist()) - positives
    assert (np.diff(batch.candidates) > 0).all()
    for row, place in zip(batch.rows, batch.targets, strict=True):
        assert batch.candidates[place] in trained.queries.positives(row)
    without = stage(dataclasses.replace(SETTINGS, others=0))._draw(np.random.default_rng(3))
    assert set(without.candidates.tolist()) <= positives
    assert np.array_equal(without.rows, batch.rows)


FAR = 100.0


def survives(settings: QuantizerSettings, step: int) -> bool:
    """Whether a code that nothing is near to is still where it was after a step."""
    books = dataclasses.replace(settings.codebooks, decay=0.0)
    trained = stage(dataclasses.replace(settings, codebooks=books))
    trained.loss(0, 0)
    vectors = trained.codebooks.level(0).vectors
    vectors[7] = FAR
    trained.loss(step, 0)
    return bool((vectors == FAR).all(1).any())


def test_dead_codes_restart_until_codebooks_settle() -> None:
    settings = dataclasses.replace(SETTINGS, settle=0.25)  # of 20 steps
    assert [survives(settings, step) for step in (1, 14, 15, 19)] == [False, False, True, True]


def test_k_means_initialises_the_codebooks_again_after_a_share_of_the_steps() -> None:
    settings = dataclasses.replace(SETTINGS, settle=1.0, restart=0.5)
    assert [survives(settings, step) for step in (9, 10, 11)] == [True, False, True]


def test_without_the_contrast_codes_find_less(tmp_path: Path) -> None:
    full = train(stage(), SETTINGS.loop, tmp_path / "full", seed=5)
    bare = dataclasses.replace(SETTINGS, contrast=0.0, gamma=0.0)
    without = train(stage(bare), bare.loop, tmp_path / "bare", seed=5)
    assert full["codes"] >= without["codes"]


def test_killed_and_started_again_it_takes_the_same_steps(tmp_path: Path) -> None:
    expected = run(tmp_path / "unbroken")
    assert run_and_kill("tests.train.small_quantizer", tmp_path / "broken") == -signal.SIGKILL
    resumed = run(tmp_path / "broken")
    assert losses(tmp_path / "broken") == pytest.approx(losses(tmp_path / "unbroken"), rel=1e-5)
    assert all(torch.allclose(resumed[name], value, atol=1e-5) for name, value in expected.items())


@pytest.mark.slow
def test_two_processes_keep_their_codebooks_in_step_with_one(tmp_path: Path) -> None:
    run_alone_and_together("tests.train.small_quantizer", tmp_path)
    assert losses(tmp_path / "together") == pytest.approx(losses(tmp_path / "alone"), rel=1e-3)
    alone, together = (
        load_file(tmp_path / name / "last/state.safetensors") for name in ("alone", "together")
    )
    books = [name for name in alone if "codebooks" in name and name.endswith("vectors")]
    assert books
    assert all(torch.allclose(alone[name], together[name], atol=1e-3) for name in books)


def test_bad_settings_are_named() -> None:
    with pytest.raises(InputError, match="batch should be at least 2"):
        QuantizerSettings(batch=1)
    with pytest.raises(InputError, match="weights contrast, beta, gamma and prefix"):
        QuantizerSettings(gamma=-1.0)
    with pytest.raises(InputError, match="shares of the steps"):
        QuantizerSettings(restart=1.0)
