"""The losses against the paper's equations, term by term: values, and the gradients of all parameters."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from genius.quantize.codebooks import CodebookSettings
from genius.train.batches import ContrastBatch, shuffled_rows
from genius.train.decoder import DecoderStage
from genius.train.heads import EncoderStage
from genius.train.losses import contrastive_loss, symmetric_contrastive_loss
from genius.train.pairs import AnsweredQueries, draw_positives
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from tests.oracles import losses as oracle
from tests.train import small_decoder, small_heads, small_quantizer
from tests.train.gradients import assert_same, gradients
from tests.train.ranks import sum_over_ranks

pytestmark = pytest.mark.usefixtures("one_thread")


def other_positives(
    queries: AnsweredQueries, rows: np.ndarray, candidates: np.ndarray, targets: Sequence[int]
) -> list[set[int]]:
    """For each query the positions of its positives among the candidates, besides its target."""
    positions = {int(item): position for position, item in enumerate(candidates)}
    return [
        {positions[int(item)] for item in queries.positives(row) if int(item) in positions} - {target}
        for row, target in zip(rows, targets, strict=True)
    ]


# --- Eq. 2 and Eq. 3

TARGETS = [0, 1, 1, 2, 4, 0, 3]
OTHERS: list[set[int]] = [{3}, set(), {0, 4}, set(), {0}, {1, 2, 3, 4}, set()]


def vectors(count: int, seed: int) -> torch.Tensor:
    rows = torch.randn(count, 4, generator=torch.Generator().manual_seed(seed))
    unit: torch.Tensor = rows / rows.norm(dim=1, keepdim=True)
    return unit.requires_grad_()


def mask() -> torch.Tensor:
    masked = torch.zeros(7, 5, dtype=torch.bool)
    for row, others in enumerate(OTHERS):
        masked[row, list(others)] = True
    return masked


@pytest.mark.parametrize("world_size", [1, 3])
def test_the_contrast_is_eq_2(world_size: int) -> None:
    queries, items, scale = vectors(7, 0), vectors(5, 1), torch.tensor(3.0, requires_grad=True)
    targets = torch.tensor(TARGETS)

    def share(rank: int) -> torch.Tensor:
        local = slice(7 * rank // world_size, 7 * (rank + 1) // world_size)
        own = items[5 * rank // world_size : 5 * (rank + 1) // world_size]
        return contrastive_loss(queries[local], own, scale, targets[local], mask()[local])

    expected = oracle.query_to_items(queries.double(), items.double(), TARGETS, OTHERS, 1 / scale.double())
    assert_same(sum_over_ranks(share, world_size) / 7, expected, [queries, items, scale])


@pytest.mark.parametrize("world_size", [1, 2, 3])
def test_the_symmetric_contrast_is_eq_3_both_ways(world_size: int) -> None:
    queries, items, targets = vectors(7, 0), vectors(5, 1), torch.tensor(TARGETS)

    def share(rank: int) -> torch.Tensor:
        own = [slice(n * rank // world_size, n * (rank + 1) // world_size) for n in (7, 5)]
        batch = ContrastBatch(np.arange(7), np.arange(5), targets, mask(), torch.zeros(0), *own)
        return symmetric_contrastive_loss(queries[own[0]], items[own[1]], batch, 0.3)

    expected = oracle.contrast_both_ways(queries.double(), items.double(), TARGETS, OTHERS, 0.3)
    assert_same(sum_over_ranks(share, world_size), expected, [queries, items])


# --- the heads


def expected_heads_loss(stage: EncoderStage, turn: int) -> torch.Tensor:
    """Eq. 2 for the batch of a turn, summed over the members, from the embeddings of the heads."""
    random = np.random.default_rng([stage.seed, turn])
    number, earlier_turns = stage.schedule[turn]
    task = stage.train_tasks[number]
    size = stage.settings.batch
    rows = np.unique(shuffled_rows(len(task), earlier_turns * size, size, seed=(stage.seed, number)))
    positives = draw_positives(task, rows, random)
    candidates = np.array(sorted({*positives, *stage._draw_negatives(number, rows, random)}))
    targets = np.searchsorted(candidates, positives).tolist()
    others = other_positives(task, rows, candidates, targets)
    assert any(others), "some query has another positive among the candidates"
    queries, items = stage._instructed_queries(task, rows, random), stage._items(candidates)
    temperature = 1 / stage.log_scale.exp().double()
    losses = [
        oracle.query_to_items(
            queries.of(member).double(), items.of(member).double(), targets, others, temperature
        )
        for member in range(2)
    ]
    return torch.stack(losses).sum()


def test_the_loss_of_the_heads_is_eq_2_for_each_member() -> None:
    stage = small_heads.stage()
    parameters = [parameter for parameter in stage.network.parameters() if parameter.requires_grad]
    assert any(parameter is stage.log_scale for parameter in parameters)
    expected = expected_heads_loss(stage, turn=3)
    assert_same(stage.loss(1, 1), expected, parameters)
    assert float(stage.log_scale.exp().detach()) == pytest.approx(1 / 0.2)


def test_the_shares_of_the_heads_loss_add_up() -> None:
    stage = small_heads.stage(instruction_dropout=0.0)  # (whose draws depend on the number of local rows)
    for task in stage.train_tasks:
        task.prompts[:] = task.prompts[0]
    parameters = [parameter for parameter in stage.network.parameters() if parameter.requires_grad]
    total = sum_over_ranks(lambda _: stage.loss(1, 1), 2)
    assert_same(total, expected_heads_loss(stage, turn=3), parameters)


# --- the quantizer (Eq. 8)

WEIGHTS = {"contrast": 0.7, "beta": 30.0, "gamma": 20.0, "prefix": 0.4}
NO_WEIGHTS = dict.fromkeys(WEIGHTS, 0.0)


def quantizer_settings(modality_code: Any, **changes: Any) -> QuantizerSettings:
    books = CodebookSettings(levels=3, size=6, iterations=4, gain=3.0, modality_code=modality_code)
    loop = dataclasses.replace(small_quantizer.SETTINGS.loop, accumulate=2)
    return dataclasses.replace(
        small_quantizer.SETTINGS,
        codebooks=books,
        loop=loop,
        batch=24,
        others=7,
        prefix_levels=2,
        prefix_temperature=0.3,
        **changes,
    )


def quantizer_stage(settings: QuantizerSettings) -> QuantizerStage:
    """A stage with codebooks, and a fusion beyond its start, where it would ignore most of its weights."""
    stage = small_quantizer.stage(settings, positives=3)
    stage.loss(0, 0)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in stage.network.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    return stage


def greedy_codes(stage: QuantizerStage, z: torch.Tensor, modality: Sequence[int]) -> list[list[int]]:
    """The nearest code of each level, one vector after the other (Eq. 5); the first is the modality's."""
    first, classifier = stage.settings.codebooks.modality_code, stage.codebooks.classifier
    codes = []
    for vector, known in zip(z, modality, strict=True):
        residual, code = vector, []
        for level, book in enumerate(stage.codebooks.vectors_by_level()):
            nearest = int((residual - book.double()).square().sum(1).argmin())
            if level == 0 and first == "given":
                nearest = int(known)
            if level == 0 and classifier is not None:
                nearest = int((classifier.weight.double() @ vector + classifier.bias.double()).argmax())
            code.append(nearest)
            residual = residual - book[nearest].double()
        codes.append(code)
    return codes


def expected_quantizer_loss(stage: QuantizerStage, turn: int) -> torch.Tensor:
    """Eq. 8 and our two terms for the batch of a turn, from the vectors of the fusion."""
    settings, first = stage.settings, stage.settings.codebooks.modality_code
    batch = stage._draw(np.random.default_rng([stage.seed, turn]))
    targets = batch.targets.tolist()
    others = other_positives(stage.queries, batch.rows, batch.candidates, targets)
    assert any(others), "some query has another positive among the candidates"
    queries = stage._vectors(stage.queries.inputs, batch.rows).double()
    items = stage._vectors(stage.items, batch.candidates).double()
    z = torch.cat([queries, items])
    modality = [*stage.queries.want[batch.rows], *stage.modality[batch.candidates]]
    codebooks = [book.double() for book in stage.codebooks.vectors_by_level()]
    codes = greedy_codes(stage, z.detach(), modality)
    quantized = oracle.straight_through(z, codes, codebooks, gain=3.0)
    coded = 1 if first == "classifier" else 0  # a classifier's level has no vectors
    answers = [codes[len(queries) + target] for target in targets]
    loss = (
        settings.contrast * oracle.contrast_both_ways(queries, items, targets, others, settings.temperature)
        + settings.beta * oracle.commitment(z, [code[coded:] for code in codes], codebooks[coded:])
        + settings.gamma
        * oracle.quantized_distance(quantized[: len(queries)], quantized[len(queries) :], targets)
    )
    if settings.prefix:
        loss = loss + settings.prefix * oracle.prefix_cross_entropy(
            queries,
            answers,
            codebooks,
            first_level=0 if first == "none" else 1,
            levels=settings.prefix_levels,
            temperature=settings.prefix_temperature,
        )
    classifier = stage.codebooks.classifier
    if classifier is not None:
        weights, biases = classifier.weight.double(), classifier.bias.double()
        loss = loss + oracle.modality_cross_entropy(z, modality, weights, biases)
    return loss


@pytest.mark.parametrize("first", ["given", "learned", "classifier", "none"])
@pytest.mark.parametrize("term", ["contrast", "beta", "gamma", "prefix", "all"])
def test_the_loss_of_the_quantizer_is_eq_8(term: str, first: str) -> None:
    weights = WEIGHTS if term == "all" else {**NO_WEIGHTS, term: WEIGHTS[term]}
    stage = quantizer_stage(quantizer_settings(first, **weights))
    expected = expected_quantizer_loss(stage, turn=3)
    assert_same(stage.loss(1, 1), expected, list(stage.network.parameters()))


def test_without_weights_only_the_classifier_learns() -> None:
    stage = quantizer_stage(quantizer_settings("classifier", **NO_WEIGHTS))
    expected = expected_quantizer_loss(stage, turn=3)
    loss = stage.loss(1, 1)
    assert_same(loss, expected, list(stage.codebooks.parameters()))
    assert not any(gradient.any() for gradient in gradients(loss, list(stage.fusion.parameters())))


@pytest.mark.parametrize("first", ["given", "classifier"])
def test_the_shares_of_the_quantizer_s_loss_add_up(first: str) -> None:
    """Of stages on two ranks: their losses, their gradients, and the codebooks that they are left with."""
    settings = quantizer_settings(first, **WEIGHTS)
    books = dataclasses.replace(settings.codebooks, size=20, decay=0.0)  # some codes die at once
    settings = dataclasses.replace(settings, codebooks=books)
    alone, stages = quantizer_stage(settings), [quantizer_stage(settings) for _ in range(2)]
    expected = expected_quantizer_loss(alone, turn=3)
    wanted = gradients(expected, list(alone.network.parameters()))
    longest = max(float(gradient.abs().max()) for gradient in wanted)
    alone.loss(1, 1)
    total = sum_over_ranks(lambda rank: stages[rank].loss(1, 1), 2)
    assert float(total.detach()) == pytest.approx(float(expected.detach()), rel=1e-4)
    shares = gradients(total, [parameter for stage in stages for parameter in stage.network.parameters()])
    for gradient, first_share, second_share in zip(
        wanted, shares[: len(wanted)], shares[len(wanted) :], strict=True
    ):
        torch.testing.assert_close(first_share + second_share, gradient, atol=1e-3 * longest, rtol=0)
    for stage in stages:
        for book, other in zip(
            stage.codebooks.vectors_by_level(), alone.codebooks.vectors_by_level(), strict=True
        ):
            torch.testing.assert_close(book, other)


# --- the decoder (Eq. 10)


def expected_decoder_loss(stage: DecoderStage, turn: int) -> torch.Tensor:
    rows, codes = stage.draw(np.random.default_rng([stage.seed, 2, turn]))
    logits = stage.decoder(torch.from_numpy(rows), torch.from_numpy(codes))
    weights = stage.settings.level_weights or (1.0, 1.0, 1.0)
    return oracle.code_cross_entropy(
        [scores.double() for scores in logits], codes.tolist(), weights, stage.settings.label_smoothing
    )


@pytest.mark.parametrize(
    "changes", [{}, {"level_weights": (1.0, 2.0, 5.0)}, {"label_smoothing": 0.2}], ids=str
)
def test_the_loss_of_the_decoder_is_eq_10(changes: dict[str, Any]) -> None:
    loop = dataclasses.replace(small_decoder.SETTINGS.loop, accumulate=2)
    stage = small_decoder.stage(batch=12, loop=loop, **changes)
    assert_same(stage.loss(1, 1), expected_decoder_loss(stage, turn=3), list(stage.network.parameters()))


def test_the_shares_of_the_decoder_s_loss_add_up() -> None:
    stage = small_decoder.stage(batch=11)
    total = sum_over_ranks(lambda _: stage.loss(3, 0), 2)
    assert_same(total, expected_decoder_loss(stage, turn=3), list(stage.network.parameters()))
