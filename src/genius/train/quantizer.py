"""Stage 1: the fusion and the codebooks, so that a query's vector lies where its answers are quantized.

    L = L_cl + β · L_rq + γ · L_mse                                                (the paper's Eq. 3 to 8)

L_cl contrasts queries and items both ways, L_rq holds vectors near their code vectors, L_mse draws the
quantized vectors of a query and its answer together. L_rq and L_mse are means over dimensions too, which is
what the paper's β = γ = 100 were tuned for: as sums, they would drown the contrast.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from genius.corpus.embedded import EmbeddedCorpus
from genius.errors import InputError
from genius.quantize.codebooks import Codebooks, CodebookSettings, Quantized
from genius.quantize.fusion import Fusion, FusionSettings
from genius.quantize.fusion_inputs import FusionInputs
from genius.quantize.quantizer import Quantizer
from genius.train import distributed
from genius.train.batches import Batch, TrainingQueries, contrastive
from genius.train.loop import LoopSettings, begin
from genius.train.pairs import one_positive_each, other_positives
from genius.train.validation import Checked, Sides, Weighed, check_codes, weigh

BLOCK = 4096


@dataclass(frozen=True)
class QuantizerLoopSettings(LoopSettings):
    """How fusion and codebooks are trained: gently, and as they are in the end, not on average."""

    steps: int = 600
    learning_rate: float = 3e-4
    warm_up: int = 50
    average: float = 0.0


@dataclass(frozen=True)
class QuantizerSettings:
    """The recipe of stage 1."""

    batch: int = 1024
    """Queries of a step, of all tasks together."""
    others: int = 0
    """Items of the whole pool that join those of a step, though no query of it asks for them: the codebooks
    come to know what nobody asked for in training, and the contrast has more to tell apart."""
    temperature: float = 0.015
    contrast: float = 1.0
    """Weight of L_cl."""
    beta: float = 100.0
    """Weight of L_rq."""
    gamma: float = 500.0
    """Weight of L_mse. The paper has 100; more of it loses nothing and makes codes survive the beam."""
    prefix: float = 0.0
    """Weight of a loss that the paper does not have: a query's vector should find its answer's first semantic
    codes by geometry, as the beam will."""
    prefix_levels: int = 2
    prefix_temperature: float = 0.02
    task_power: float = 1.0
    """A task is drawn in proportion to its number of queries to this power."""
    buffer: int = 40_000
    """Vectors, half of queries and half of their answers, that k-means starts from."""
    restart: float = 0.0
    """After which share of the steps k-means starts once more; 0 is never."""
    settle: float = 0.1
    """Share of the steps, the last ones, in which unused codes are left alone."""
    validated: int = 300
    """Queries of each task that a validation looks at, at most; the beam looks at a third of them."""
    blend: bool = True
    """Whether candidates are re-ranked by joined embeddings and codes together, weighed by validation; the
    paper re-ranks by joined embeddings alone."""
    fusion: FusionSettings = field(default_factory=FusionSettings)
    codebooks: CodebookSettings = field(default_factory=CodebookSettings)
    loop: QuantizerLoopSettings = field(default_factory=QuantizerLoopSettings)

    def __post_init__(self) -> None:
        if self.batch < 2 or self.others < 0 or self.temperature <= 0:
            raise InputError("batch should be at least 2, others at least 0 and temperature above 0")
        if min(self.contrast, self.beta, self.gamma, self.prefix) < 0:
            raise InputError("the weights contrast, beta, gamma and prefix should not be below 0")
        if not 0 <= self.restart < 1 or not 0 <= self.settle <= 1:
            raise InputError("restart and settle are shares of the steps")


@dataclass(frozen=True)
class CodedItems:
    """All items' vectors and codes, as training has them at the moment."""

    quantizer: Quantizer
    vectors: np.ndarray
    codes: np.ndarray


@dataclass(frozen=True)
class Settled:
    """What is found out once at the end: how good codes are, and how to compare and re-rank."""

    checked: Checked
    weighed: Weighed


class QuantizerStage:
    """Training of fusion and codebooks over what stage 0 made of items and queries."""

    name = "quantizer"

    def __init__(
        self, settings: QuantizerSettings, training: EmbeddedCorpus, validation: EmbeddedCorpus, *, seed: int
    ) -> None:
        begin(seed)
        self.settings, self.seed = settings, seed
        self.items, self.modality = training.items, training.pool.modality.astype(np.int64)
        self.queries = TrainingQueries.of(training, settings.task_power)
        self.validation = validation
        self.fusion = Fusion(self.items.width, settings.fusion)
        self.codebooks = Codebooks(self.items.width, settings.codebooks)
        self.network = nn.Module()
        self.network.fusion = self.fusion
        self.network.codebooks = self.codebooks

    # --- training

    def loss(self, step: int, part: int) -> torch.Tensor:
        """The loss of a batch of all tasks; codebooks follow the batch at once."""
        loop = self.settings.loop
        turn, turns = step * loop.accumulate + part, loop.steps * loop.accumulate
        random = np.random.default_rng([self.seed, turn])
        if turn in (0, int(self.settings.restart * turns)):
            self._start_codebooks(random)
        batch = self._draw(random)
        queries = self._vectors(self.queries.parts, batch.my_rows)
        items = self._vectors(self.items, batch.my_candidates)
        quantized = self.codebooks.quantize(torch.cat([queries, items]), batch.first)
        loss = self._loss(batch, queries, items, quantized)
        # Queries first, then items, as one process would have them: codebooks stay in step.
        codes = quantized.codes[: len(queries)], quantized.codes[len(queries) :]
        self.codebooks.ema_update(
            torch.cat([distributed.gather(rows.detach()) for rows in (queries, items)]),
            torch.cat([distributed.gather(rows) for rows in codes]),
            num_queries=len(batch.rows),
            restart_dead=turn < (1 - self.settings.settle) * turns,
            generator=torch.Generator().manual_seed(int(random.integers(2**62))),
        )
        return loss

    def _draw(self, random: np.random.Generator) -> Batch:
        """Queries of all tasks, a positive for each, and other items."""
        rows = np.unique(random.choice(len(self.queries.want), self.settings.batch, p=self.queries.share))
        asked = one_positive_each(self.queries, rows, random)
        others = random.integers(0, len(self.modality), self.settings.others)
        candidates = np.unique(np.concatenate([asked, others]))
        wanted = torch.from_numpy(np.searchsorted(candidates, asked))
        mine, my_items = distributed.share(len(rows)), distributed.share(len(candidates))
        first = np.concatenate([self.queries.want[rows[mine]], self.modality[candidates[my_items]]])
        masked = other_positives(self.queries, rows, candidates, wanted)
        return Batch(rows, candidates, wanted, masked, torch.from_numpy(first), mine, my_items)

    def _loss(
        self, batch: Batch, queries: torch.Tensor, items: torch.Tensor, quantized: Quantized
    ) -> torch.Tensor:
        """This process's share of the loss; `quantized` are its queries, then its items."""
        settings, count = self.settings, len(batch.rows)
        wanted = batch.wanted[batch.mine]  # the items that this process's queries ask for
        contrast = contrastive(queries, items, batch, settings.temperature)
        units = functional.normalize(quantized.vectors, dim=1)
        answers = distributed.gather(units[len(queries) :])[wanted]
        apart = (units[: len(queries)] - answers).square().mean(1).sum() / count
        here = len(units) / (count + len(batch.candidates))
        loss = settings.contrast * contrast + settings.gamma * apart
        loss = loss + settings.beta * here * quantized.commitment
        if settings.prefix:
            codes = distributed.gather(quantized.codes[len(queries) :])[wanted]
            unlikely = self.codebooks.prefix_loss(
                queries, codes, settings.prefix_levels, settings.prefix_temperature
            )
            loss = loss + settings.prefix * unlikely / count
        if self.codebooks.classifier is not None:
            said = self.codebooks.classifier(torch.cat([queries, items]).detach())
            loss = loss + here * functional.cross_entropy(said, batch.first)
        return loss

    def _vectors(self, parts: FusionInputs, rows: np.ndarray) -> torch.Tensor:
        inputs = parts[rows]
        vectors: torch.Tensor = self.fusion(*(torch.from_numpy(value) for value in inputs.values()))
        return vectors

    @torch.no_grad()
    def all_vectors(self, parts: FusionInputs, rows: np.ndarray | None = None) -> np.ndarray:
        """Vectors of many records, as the network gives them when it is used."""
        training = self.fusion.training
        self.fusion.eval()
        numbers = np.arange(len(parts)) if rows is None else rows
        blocks = [
            self._vectors(parts, numbers[start : start + BLOCK]).numpy()
            for start in range(0, len(numbers), BLOCK)
        ]
        self.fusion.train(training)
        return np.concatenate(blocks)

    def _start_codebooks(self, random: np.random.Generator) -> None:
        """K-means over many vectors of queries and answers, whatever the size of a batch."""
        half = self.settings.buffer // 2
        share = self.queries.share
        count = min(half, len(share))
        rows = np.sort(random.choice(len(share), count, replace=False, p=share))
        answers = np.arange(len(self.modality)) if self.settings.others else np.unique(self.queries.items)
        answers = np.sort(random.choice(answers, min(half, len(answers)), replace=False))
        vectors = np.concatenate(
            [self.all_vectors(self.queries.parts, rows), self.all_vectors(self.items, answers)]
        )
        first = np.concatenate([self.queries.want[rows], self.modality[answers]])
        generator = torch.Generator().manual_seed(int(random.integers(2**62)))
        self.codebooks.init(
            torch.from_numpy(vectors), torch.from_numpy(first), generator, step_size=2 * self.settings.batch
        )

    # --- validation

    def quantizer(self) -> Quantizer:
        """The codebooks as searching uses them."""
        classifier = self.codebooks.classifier
        weights = None
        if classifier is not None:
            weights = classifier.weight.detach().numpy().copy(), classifier.bias.detach().numpy().copy()
        books = [book.numpy().copy() for book in self.codebooks.vectors_by_level()]
        return Quantizer(books, modality_code=self.settings.codebooks.modality_code, classifier=weights)

    def check(self) -> Checked:
        """How well validation queries find their answers by codes."""
        return self._check(self._coded_items())

    def settle(self) -> Settled:
        """The same, and what validation says about dense search and re-ranking."""
        items = self._coded_items()
        return Settled(self._check(items), self._weigh(items))

    def _coded_items(self) -> CodedItems:
        quantizer, vectors = self.quantizer(), self.all_vectors(self.validation.items)
        return CodedItems(quantizer, vectors, quantizer.codes(vectors, self.validation.pool.modality))

    def _check(self, items: CodedItems) -> Checked:
        queries = self.validation.queries
        return check_codes(
            items.quantizer,
            self.validation.pool.modality,
            items.codes,
            list(self.validation.tasks.values()),
            lambda task, rows: self.all_vectors(queries[task], rows),
            count=self.settings.validated,
        )

    def _weigh(self, items: CodedItems) -> Weighed:
        queries = self.validation.queries
        return weigh(
            Sides(self.validation.items.embeddings, items.vectors, items.quantizer.reconstruct(items.codes)),
            self.validation.pool.modality,
            list(self.validation.tasks.values()),
            lambda task, rows: queries[task].embeddings[rows],
            lambda task, rows: self.all_vectors(queries[task], rows),
            count=self.settings.validated,
        )

    def validate(self) -> dict[str, float]:
        """Hit rate @5 by codes alone and by the geometry's beam, and what of the positives survives it."""
        checked = self.check()
        scores = {"codes": checked.codes, "geometry": checked.geometry}
        scores |= {"first": checked.survival[0], "survival": checked.survival[-1]}
        return {"score": (checked.codes + checked.survival[-1]) / 2, **scores}
