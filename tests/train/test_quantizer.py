from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("faiss")
import torch

from genius.errors import InputError
from genius.quantize.codebooks import CodebookSettings
from genius.train.loop import train
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from tests.train.processes import assert_resumes, assert_same_together
from tests.train.small_quantizer import SETTINGS, run, stage, world

pytestmark = pytest.mark.usefixtures("one_thread")


def test_training_makes_queries_find_their_answers_by_codes(tmp_path: Path) -> None:
    """More by far than codebooks by k-means do, and than training without L_cl and L_mse."""
    untrained = stage()
    untrained.loss(0, 0)  # initialises the codebooks
    untrained.network.eval()
    before = untrained.validate()
    loop = dataclasses.replace(SETTINGS.loop, steps=40, learning_rate=3e-3, validate_every=40)
    full = dataclasses.replace(SETTINGS, loop=loop)
    bare = dataclasses.replace(full, contrast=0.0, gamma=0.0)
    scores = train(stage(full), loop, tmp_path / "full", seed=5)
    without = train(stage(bare), loop, tmp_path / "bare", seed=5)
    for worse in (before, without):
        assert scores["codes"] > worse["codes"] + 20
        assert scores["geometry"] > worse["geometry"] + 20
    assert set(scores) == {"score", "codes", "geometry", "first", "survival"}
    assert scores["score"] == (scores["codes"] + scores["survival"]) / 2


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


def residuals(trained: QuantizerStage, turn: int) -> tuple[torch.Tensor, torch.Tensor]:
    """What the first semantic level codes in a turn: vectors of queries and of items, less the modality's."""
    batch = trained._draw(np.random.default_rng([trained.seed, turn]))
    given = trained.codebooks.vectors_by_level()[0]
    want, modality = trained.queries.want[batch.rows], trained.modality[batch.candidates]
    with torch.no_grad():
        queries = trained._vectors(trained.queries.inputs, batch.rows) - given[want]
        return queries, trained._vectors(trained.items, batch.candidates) - given[modality]


def test_a_step_moves_codes_to_the_mean_of_what_they_coded() -> None:
    """Without memory (decay 0) and without restarts; queries and items count alike."""
    books = dataclasses.replace(SETTINGS.codebooks, decay=0.0)
    trained = stage(dataclasses.replace(SETTINGS, codebooks=books, settle=1.0))
    trained.loss(0, 0)
    vectors = trained.codebooks.level(0).vectors
    before, rows = vectors.clone(), torch.cat(residuals(trained, turn=1))
    trained.loss(1, 0)
    codes = torch.cdist(rows, before).argmin(1)
    assert len(codes.unique()) > 8
    for code, vector in enumerate(vectors):
        coded = rows[codes == code]
        torch.testing.assert_close(vector, coded.mean(0) if len(coded) else before[code])


def test_a_code_that_only_queries_use_is_restarted_from_an_item() -> None:
    books = dataclasses.replace(SETTINGS.codebooks, size=40, decay=0.0)
    trained = stage(dataclasses.replace(SETTINGS, codebooks=books, settle=0.0))
    trained.loss(0, 0)
    vectors = trained.codebooks.level(0).vectors
    queries, items = residuals(trained, turn=1)
    nearest = torch.cdist(items, vectors).amin(1)
    query = next(query for query in queries if (nearest < (items - query).norm(dim=1)).all())
    vectors[7] = query
    trained.loss(1, 0)
    assert not torch.equal(vectors[7], query)
    assert (items - vectors[7]).norm(dim=1).min() < 1e-6


def test_k_means_initialises_the_codebooks_again_after_a_share_of_the_steps() -> None:
    settings = dataclasses.replace(SETTINGS, settle=1.0, restart=0.5)
    assert [survives(settings, step) for step in (9, 10, 11)] == [True, False, True]


def test_refit_draws_the_codes_of_training_items_towards_zero() -> None:
    """The first semantic level by hand: means, as if 2.5 more residuals had been zero."""
    without_others = dataclasses.replace(SETTINGS, others=0)
    trained = stage(without_others)
    trained.loss(0, 0)
    plain = trained.refit_codebooks()  # without shrinkage: means
    items = np.unique(trained.queries.items)
    vectors = torch.from_numpy(trained.all_vectors(trained.items, items))
    given = torch.from_numpy(trained.modality[items])
    centres = torch.stack([vectors[given == code].mean(0) for code in given.unique()])
    torch.testing.assert_close(trained.codebooks.vectors_by_level()[0][given.unique()], centres)
    rows = vectors - trained.codebooks.vectors_by_level()[0][given]
    means = trained.codebooks.level(0).vectors.clone()
    own = torch.cdist(rows, means).argmin(1)
    drawn = stage(dataclasses.replace(without_others, refit=2.5))
    drawn.loss(0, 0)
    drawn.refit_codebooks()
    for code, vector in enumerate(drawn.codebooks.level(0).vectors):
        number = max(1, int((own == code).sum()))
        torch.testing.assert_close(vector, means[code] * number / (number + 2.5))
    assert set(plain) == {"score", "codes", "geometry", "first", "survival"}


def test_refit_takes_the_whole_pool_where_training_does() -> None:
    """With other items in each step, codebooks learned those too, and are fitted to them once more."""
    trained = stage(dataclasses.replace(SETTINGS, others=16))
    assert len(np.unique(trained.queries.items)) < len(trained.modality)
    trained.loss(0, 0)
    trained.refit_codebooks()
    vectors = torch.from_numpy(trained.all_vectors(trained.items))
    given = torch.from_numpy(trained.modality)
    centres = torch.stack([vectors[given == code].mean(0) for code in given.unique()])
    torch.testing.assert_close(trained.codebooks.vectors_by_level()[0][given.unique()], centres)


@pytest.mark.long
def test_killed_and_started_again_it_takes_the_same_steps(tmp_path: Path) -> None:
    assert_resumes("tests.train.small_quantizer", run, tmp_path)


@pytest.mark.long
def test_two_processes_keep_their_codebooks_in_step_with_one(tmp_path: Path) -> None:
    assert_same_together(
        "tests.train.small_quantizer", tmp_path, weights=r"network\.codebooks.*vectors", tolerance=1e-3
    )


def test_bad_settings_are_named() -> None:
    with pytest.raises(InputError, match="batch should be at least 2"):
        QuantizerSettings(batch=1)
    with pytest.raises(InputError, match="weights contrast, beta, gamma and prefix"):
        QuantizerSettings(gamma=-1.0)
    with pytest.raises(InputError, match="refit is a number of residuals"):
        QuantizerSettings(refit=-1.0)
    with pytest.raises(InputError, match="shares of the steps"):
        QuantizerSettings(restart=1.0)


def test_vectors_may_be_narrower_than_embeddings() -> None:
    """They start as what queries tell apart, and are trained, coded and searched as others."""
    trained = stage(dataclasses.replace(SETTINGS, fusion=dataclasses.replace(SETTINGS.fusion, width=5)))
    assert trained.items.width > 5
    loss = trained.loss(0, 0)
    loss.backward()
    assert trained.fusion.projection is not None and trained.fusion.projection.weight.grad is not None
    items = trained.quantize_items()
    assert items.vectors.shape == (len(trained.modality), 5) and items.quantizer.width == 5
    assert trained.validate()["codes"] > 20


def test_kinds_of_queries_that_are_not_blended_are_re_ranked_by_embeddings_alone() -> None:
    every = QuantizerStage(SETTINGS, world(1), world(2), seed=5)
    chosen = every.ranking(every.quantize_items())
    both = QuantizerStage(dataclasses.replace(SETTINGS, blended=("both",)), world(1), world(2), seed=5)
    assert both.ranking(both.quantize_items()).rerank == (1.0, 1.0, chosen.rerank[2])
    assert chosen.rerank != (1.0, 1.0, chosen.rerank[2])


@pytest.mark.long
def test_16_levels_of_8192_codes_are_trained_and_searched() -> None:
    """Codes of 208 bits, from k-means to beam search."""
    settings = dataclasses.replace(
        SETTINGS,
        validated=3,
        fusion=dataclasses.replace(SETTINGS.fusion, width=4),
        codebooks=CodebookSettings(levels=16, size=8192, iterations=1),
    )
    trained = QuantizerStage(settings, world(1, count=2750), world(2, count=2750), seed=5)
    for step in range(2):
        trained.loss(step, 0).backward()
    items = trained.quantize_items()
    assert items.quantizer.sizes == (3, *[8192] * 16)
    vectors, codes = items.vectors[trained.val_items], items.codes[trained.val_items]
    errors = [
        float(np.square(vectors - items.quantizer.reconstruct(codes, levels)).sum(1).mean())
        for levels in (1, 2, 17)
    ]
    assert errors[0] > 10 * errors[1] and errors[1] >= errors[2]
    scores = trained.validate()
    assert scores["codes"] > 0 and scores["survival"] > 0


def test_items_may_be_coded_by_beams_once_codebooks_are_trained() -> None:
    greedy, beams = (
        stage(dataclasses.replace(SETTINGS, codebooks=dataclasses.replace(SETTINGS.codebooks, beams=count)))
        for count in (1, 4)
    )
    errors = []
    for trained in (greedy, beams):
        trained.loss(0, 0)
        items = trained.quantize_items()
        errors.append(np.square(items.vectors - items.quantizer.reconstruct(items.codes)).sum())
    np.testing.assert_array_equal(beams.quantizer().codebooks[1], greedy.quantizer().codebooks[1])
    assert errors[1] < errors[0]
    with pytest.raises(InputError, match="at least one beam"):
        CodebookSettings(beams=0)


def test_in_bfloat16_the_fusion_alone_is_rounded() -> None:
    """The loss is close to that in float32, of unit vectors in float32; validation is not rounded at all."""
    rounded = stage(dataclasses.replace(SETTINGS, precision="bfloat16"))
    exact = stage()
    losses = [trained.loss(0, 0) for trained in (exact, rounded)]
    assert losses[1].dtype == torch.float32 and losses[0] != losses[1]
    assert float(losses[1].detach()) == pytest.approx(float(losses[0].detach()), rel=0.02)
    rows = np.arange(20)
    vectors = rounded._vectors(rounded.items, rows)
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(20))
    assert not torch.equal(vectors, exact._vectors(exact.items, rows))
    np.testing.assert_array_equal(rounded.all_vectors(rounded.items), exact.all_vectors(exact.items))
    losses[1].backward()
    assert all(parameter.grad is not None for parameter in rounded.fusion.mix.parameters())
