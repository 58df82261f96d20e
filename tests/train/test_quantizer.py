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
from genius.train import distributed  # noqa: E402
from genius.train.batches import Batch, contrastive  # noqa: E402
from genius.train.loop import train  # noqa: E402
from genius.train.quantizer import QuantizerSettings  # noqa: E402
from tests.train.processes import losses, run_alone_and_together, run_and_kill  # noqa: E402
from tests.train.small_quantizer import SETTINGS, run, stage  # noqa: E402


def batch(wanted: torch.Tensor, masked: torch.Tensor, mine: slice, my_items: slice) -> Batch:
    queries, items = masked.shape
    return Batch(np.arange(queries), np.arange(items), wanted, masked, torch.zeros(0), mine, my_items)


def test_the_contrast_is_the_mean_of_both_ways_with_other_positives_left_out() -> None:
    generator = torch.Generator().manual_seed(0)
    queries = torch.randn(5, 4, generator=generator)
    items = torch.randn(4, 4, generator=generator)
    wanted = torch.tensor([0, 1, 1, 2, 3])
    masked = torch.zeros(5, 4, dtype=torch.bool)
    masked[0, 3] = masked[4, 0] = True
    found = contrastive(queries, items, batch(wanted, masked, slice(0, 5), slice(0, 4)), 0.5)
    logits = (queries @ items.T / 0.5).numpy().astype(np.float64)
    total = 0.0
    for query, item in enumerate(wanted.tolist()):
        row = [logits[query, other] for other in range(4) if not masked[query, other]]
        column = [logits[other, item] for other in range(5) if not masked[other, item]]
        total -= logits[query, item] - np.log(np.sum(np.exp(row)))
        total -= logits[query, item] - np.log(np.sum(np.exp(column)))
    assert float(found) == pytest.approx(total / 10, rel=1e-5)


def test_shares_of_a_contrast_add_up() -> None:
    """(What two processes would compute, with the gathering done by hand.)"""
    generator = torch.Generator().manual_seed(1)
    queries, items = torch.randn(6, 4, generator=generator), torch.randn(5, 4, generator=generator)
    wanted, masked = torch.tensor([0, 1, 2, 3, 4, 0]), torch.zeros(6, 5, dtype=torch.bool)
    whole = contrastive(queries, items, batch(wanted, masked, slice(0, 6), slice(0, 5)), 0.3)
    shares = []
    for mine, my_items in ((slice(0, 3), slice(0, 2)), (slice(3, 6), slice(2, 5))):
        everything = iter([queries, items])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(distributed, "gather", lambda _, rows=everything: next(rows))
            own = batch(wanted, masked, mine, my_items)
            shares.append(contrastive(queries[mine], items[my_items], own, 0.3))
    assert float(sum(shares)) == pytest.approx(float(whole), rel=1e-5)


def test_training_makes_queries_find_their_answers_by_codes(tmp_path: Path) -> None:
    untrained = stage()
    untrained.loss(0, 0)  # starts the codebooks
    untrained.network.eval()
    before = untrained.validate()
    scores = train(stage(), SETTINGS.loop, tmp_path, seed=5)
    assert scores["codes"] > 60
    assert scores["score"] >= before["score"]
    assert set(scores) == {"score", "codes", "geometry", "first", "survival"}
    assert scores["first"] >= scores["survival"]


def test_items_that_nobody_asks_for_join_a_step() -> None:
    """They are among the candidates, wanted by no query, and every query still wants an answer of its own."""
    embeddings = stage(dataclasses.replace(SETTINGS, others=60))
    batch = embeddings._draw(np.random.default_rng(3))
    asked = {int(item) for row in batch.rows for item in embeddings.queries.positives(row)}
    assert set(batch.candidates.tolist()) - asked
    assert (np.diff(batch.candidates) > 0).all()
    for row, place in zip(batch.rows, batch.wanted, strict=True):
        assert batch.candidates[place] in embeddings.queries.positives(row)
    alone = stage(dataclasses.replace(SETTINGS, others=0))._draw(np.random.default_rng(3))
    assert set(alone.candidates.tolist()) <= asked
    assert np.array_equal(alone.rows, batch.rows)


def test_without_the_contrast_codes_find_less(tmp_path: Path) -> None:
    full = train(stage(), SETTINGS.loop, tmp_path / "full", seed=5)
    bare = dataclasses.replace(SETTINGS, contrast=0.0, gamma=0.0)
    without = train(stage(bare), bare.loop, tmp_path / "bare", seed=5)
    assert full["codes"] >= without["codes"]


def test_killed_and_started_again_it_takes_the_same_steps(tmp_path: Path) -> None:
    expected = run(tmp_path / "unbroken")
    assert run_and_kill("tests.train.small_quantizer", tmp_path / "broken") == -signal.SIGKILL
    found = run(tmp_path / "broken")
    assert losses(tmp_path / "broken") == pytest.approx(losses(tmp_path / "unbroken"), rel=1e-5)
    assert all(torch.allclose(found[name], value, atol=1e-5) for name, value in expected.items())


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
