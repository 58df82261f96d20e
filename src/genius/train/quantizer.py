"""Stage 1: the fusion and the codebooks, trained so that a query's vector is quantized where its answers are.

    L = L_cl + β · L_rq + γ · L_mse                                                       (the paper's Eq. 8)

L_cl (Eq. 3) contrasts queries and items both ways, L_rq (Eq. 7) keeps vectors close to their code vectors,
L_mse pulls the quantized vectors of a query and its answer together. L_rq and L_mse are means over dimensions
too, which is what the paper's β = γ = 100 were tuned for: as sums, they would outweigh the contrast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from genius.corpus.embedded import EmbeddedCorpus
from genius.corpus.queries import kind_of_query
from genius.data.tasks import Task
from genius.errors import InputError
from genius.model import Model
from genius.quantize.codebooks import Codebooks, CodebookSettings, Quantized
from genius.quantize.fusion import Fusion, FusionSettings
from genius.quantize.fusion_inputs import KINDS, FusionInputs
from genius.quantize.quantizer import Quantizer
from genius.quantize.search_settings import SearchSettings
from genius.train import distributed
from genius.train.batches import ContrastBatch, TrainingQueries
from genius.train.distillation import DistillationSettings, PrefixDistillation
from genius.train.loop import LoopSettings, prepare_torch
from genius.train.losses import symmetric_contrastive_loss
from genius.train.pairs import draw_positives, mask_other_positives
from genius.train.quantizer_start import sizes_of
from genius.train.validation import (
    CodeQuality,
    ItemRepresentations,
    RankingSettings,
    choose_ranking,
    measure_codes,
    unseen_items,
)

QueryKindName = Literal["image", "text", "both"]
QUERY_KINDS: tuple[QueryKindName, ...] = get_args(QueryKindName)
"""What queries are, in the order of their numbers (`genius.quantize.fusion_inputs`)."""
SOME_QUERIES = 20_000
"""Training queries whose directions narrower vectors start from, at most."""
REFIT_ITEMS, REFIT_ITERATIONS = 120_000, 5
"""Training items that codebooks are fitted to once more, at most, and iterations of that."""
BLOCK = 4096
"""Records that are fused at a time, outside of training."""


@dataclass(frozen=True)
class QuantizerLoopSettings(LoopSettings):
    """How fusion and codebooks are trained: at a low rate, keeping the last weights and not their average."""

    steps: int = 600
    learning_rate: float = 3e-4
    warm_up: int = 50
    average: float = 0.0


@dataclass(frozen=True)
class QuantizerSettings:
    """How fusion and codebooks are trained (stage 1)."""

    start: str = ""
    """A model whose fusion and codebooks training starts from, with their sizes; a path, or the name of one
    that ships."""
    batch: int = 1024
    """Queries of a step, of all tasks together."""
    others: int = 0
    """Items of the whole pool that are added to a step's positives: the codebooks learn items that no
    training query asks for, and the contrast has more negatives."""
    temperature: float = 0.015
    contrast: float = 1.0
    """Weight of L_cl."""
    beta: float = 100.0
    """Weight of L_rq."""
    gamma: float = 500.0
    """Weight of L_mse. The paper has 100; with more, answers survive the beam more often."""
    prefix: float = 0.0
    """Weight of a loss that the paper does not have: the cross-entropy of the answer's first semantic codes,
    as the geometry decoder scores them for the query's vector."""
    prefix_levels: int = 2
    """Semantic levels that the prefix loss covers."""
    prefix_temperature: float = 0.02
    task_power: float = 1.0
    """A task is drawn in proportion to its number of queries to this power."""
    upsampled: bool = False
    """Whether queries are drawn as often as M-BEIR's own mix has them, in which small data sets are
    repeated."""
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the fusion's arithmetic in training; weights, codebooks and losses are in float32."""
    buffer: int = 40_000
    """Vectors that k-means initialises codebooks from: half of queries, half of their answers."""
    restart: float = 0.0
    """The share of the steps after which k-means initialises the codebooks again; 0 is never."""
    refit: float = 0.0
    """Fit the codebooks once more when training is over, to all training items (with `others`, to the whole
    pool) and by k-means: each code's vector is then drawn towards zero as if so many more residuals had been
    there and been zero. New items, which training has not seen, are told better by it. 0 keeps the codebooks
    as trained."""
    settle: float = 0.1
    """The share of the steps, at the end, in which dead codes are not restarted any more."""
    validated: int = 300
    """Queries of each task that a validation uses, at most; its beam search uses a third of them."""
    blended: tuple[QueryKindName, ...] = ("image", "text", "both")
    """Kinds of queries whose candidates are re-ranked by joined embeddings and codes together, with a weight
    chosen by validation; others by joined embeddings alone, as the paper does."""
    distillation: DistillationSettings = field(default_factory=DistillationSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    fusion: FusionSettings = field(default_factory=FusionSettings)
    codebooks: CodebookSettings = field(default_factory=CodebookSettings)
    loop: QuantizerLoopSettings = field(default_factory=QuantizerLoopSettings)

    def __post_init__(self) -> None:
        if self.batch < 2 or self.others < 0 or self.temperature <= 0:
            raise InputError("batch should be at least 2, others at least 0 and temperature above 0")
        if min(self.contrast, self.beta, self.gamma, self.prefix) < 0:
            raise InputError("the weights contrast, beta, gamma and prefix should not be below 0")
        if self.refit < 0:
            raise InputError("refit is a number of residuals: at least 0")
        if not 0 <= self.restart < 1 or not 0 <= self.settle <= 1:
            raise InputError("restart and settle are shares of the steps")


@dataclass(frozen=True)
class QuantizedItems:
    """The vectors [n, width] of all items by the current fusion, and the codes [n, levels] of those that
    validation searches by the current codebooks; others have zeros."""

    quantizer: Quantizer
    vectors: np.ndarray
    codes: np.ndarray


class QuantizerStage:
    """Training of fusion and codebooks over the embeddings of items and queries from stage 0."""

    name = "quantizer"

    def __init__(
        self,
        settings: QuantizerSettings,
        training: EmbeddedCorpus,
        validation: EmbeddedCorpus,
        *,
        seed: int,
        repetitions: Mapping[str, int] | None = None,
    ) -> None:
        prepare_torch(seed)
        start = Model.open(settings.start) if settings.start else None
        if start is not None:
            fusion, codebooks = sizes_of(start, settings.fusion, settings.codebooks)
            settings = replace(settings, fusion=fusion, codebooks=codebooks)
        self.settings, self.seed = settings, seed
        self.items, self.modality = training.items, training.pool.modality.astype(np.int64)
        self.queries = TrainingQueries.concatenate(training, settings.task_power, repetitions)
        self.validation = validation
        self.val_items = unseen_items(
            len(self.modality), list(training.tasks.values()), list(validation.tasks.values())
        )
        self.fusion = Fusion(self.items.width, settings.fusion)
        if self.fusion.projection is not None and start is None:
            self.fusion.init_projection(self._some_queries())
        self.codebooks = Codebooks(self.fusion.out_width, settings.codebooks)
        if start is not None:
            self._start_from(start)
        self.distillation: PrefixDistillation | None = None
        if settings.distillation.weight:
            embeddings = self.queries.inputs.embeddings, self.items.embeddings
            self.distillation = PrefixDistillation(settings.distillation, *embeddings)
        self.network = nn.Module()
        self.network.fusion = self.fusion
        self.network.codebooks = self.codebooks
        self.network.to(settings.device)

    def _start_from(self, model: Model) -> None:
        """Take over a model's fusion and codebooks, whose codes count as evenly used."""
        tensors = {name: torch.from_numpy(tensor) for name, tensor in model.fusion_tensors().items()}
        self.fusion.load_state_dict(tensors)
        for book, vectors in zip(self.codebooks.books(), model.quantizer.codebooks, strict=True):
            even = 2 * self.settings.batch / len(vectors)
            book.init(torch.from_numpy(vectors), torch.full((len(vectors),), even))

    def _some_queries(self) -> torch.Tensor:
        """The embeddings [n, width] of training queries, drawn as in training."""
        random, probabilities = np.random.default_rng([self.seed, 23]), self.queries.probabilities
        rows = np.unique(random.choice(len(probabilities), SOME_QUERIES, p=probabilities))
        return torch.from_numpy(np.asarray(self.queries.inputs.embeddings[rows], np.float32))

    # --- training

    def loss(self, step: int, part: int) -> torch.Tensor:
        """The loss of a batch of all tasks; the codebooks are updated by the batch at once."""
        loop = self.settings.loop
        turn, turns = step * loop.accumulate + part, loop.steps * loop.accumulate
        random = np.random.default_rng([self.seed, turn])
        if turn in (0, int(self.settings.restart * turns)) and not self.settings.start:
            self._init_codebooks(random)
        batch = self._draw(random)
        queries = self._vectors(self.queries.inputs, batch.local_rows)
        items = self._vectors(self.items, batch.local_candidates)
        quantized = self.codebooks.quantize(torch.cat([queries, items]), batch.modality)
        loss = self._loss(batch, queries, items, quantized)
        if self.distillation is not None:
            prefixes = [self.codebooks.pass_gradient(items, sums[len(queries) :]) for sums in quantized.sums]
            distilled = self.distillation.loss(batch, queries, items, prefixes) / len(batch.rows)
            loss = loss + self.settings.distillation.weight_at((turn + 1) / turns) * distilled
        # All queries first, then all items, as in a single process: the processes' codebooks stay equal.
        codes = quantized.codes[: len(queries)], quantized.codes[len(queries) :]
        self.codebooks.ema_update(
            torch.cat([distributed.gather(rows.detach()) for rows in (queries, items)]),
            torch.cat([distributed.gather(rows) for rows in codes]),
            num_queries=len(batch.rows),
            restart_dead=turn < (1 - self.settings.settle) * turns,
            generator=torch.Generator().manual_seed(int(random.integers(2**62))),
        )
        return loss

    def _draw(self, random: np.random.Generator) -> ContrastBatch:
        """Queries of all tasks, a positive for each, and other items."""
        probabilities = self.queries.probabilities
        rows = np.unique(random.choice(len(probabilities), self.settings.batch, p=probabilities))
        positives = draw_positives(self.queries, rows, random)
        others = random.integers(0, len(self.modality), self.settings.others)
        candidates = np.unique(np.concatenate([positives, others]))
        targets, device = torch.from_numpy(np.searchsorted(candidates, positives)), self.settings.device
        queries, items = distributed.local_slice(len(rows)), distributed.local_slice(len(candidates))
        modality = np.concatenate([self.queries.want[rows[queries]], self.modality[candidates[items]]])
        other_positives = mask_other_positives(self.queries, rows, candidates, targets)
        return ContrastBatch(
            rows,
            candidates,
            targets.to(device),
            other_positives.to(device),
            torch.from_numpy(modality).to(device),
            queries,
            items,
        )

    def _loss(
        self, batch: ContrastBatch, queries: torch.Tensor, items: torch.Tensor, quantized: Quantized
    ) -> torch.Tensor:
        """This process's share of the loss (Eq. 8); `quantized` are its queries, then its items."""
        settings, count = self.settings, len(batch.rows)
        targets = batch.targets[batch.local_queries]
        contrast = symmetric_contrastive_loss(queries, items, batch, settings.temperature)
        units = functional.normalize(quantized.vectors, dim=1)
        answers = distributed.gather(units[len(queries) :])[targets]
        mse = (units[: len(queries)] - answers).square().mean(1).sum() / count
        local_share = len(units) / (count + len(batch.candidates))
        loss = settings.contrast * contrast + settings.gamma * mse
        loss = loss + settings.beta * local_share * quantized.commitment
        if settings.prefix:
            codes = distributed.gather(quantized.codes[len(queries) :])[targets]
            prefix = self.codebooks.prefix_loss(
                queries, codes, settings.prefix_levels, settings.prefix_temperature
            )
            loss = loss + settings.prefix * prefix / count
        if self.codebooks.classifier is not None:
            logits = self.codebooks.classifier(torch.cat([queries, items]).detach())
            loss = loss + local_share * functional.cross_entropy(logits, batch.modality)
        return loss

    def _vectors(self, inputs: FusionInputs, rows: np.ndarray) -> torch.Tensor:
        device, low = self.settings.device, self.settings.precision == "bfloat16" and self.fusion.training
        values = [torch.from_numpy(value).to(device) for value in inputs[rows].values()]
        with torch.autocast(device, torch.bfloat16, enabled=low):
            vectors: torch.Tensor = self.fusion(*values)
        return functional.normalize(vectors.float(), dim=1) if low else vectors

    @torch.no_grad()
    def all_vectors(self, inputs: FusionInputs, rows: np.ndarray | None = None) -> np.ndarray:
        """The fused vectors [n, width] of these rows, or of all, in evaluation mode."""
        training = self.fusion.training
        self.fusion.eval()
        numbers = np.arange(len(inputs)) if rows is None else rows
        blocks = [
            self._vectors(inputs, numbers[start : start + BLOCK]).cpu().numpy()
            for start in range(0, len(numbers), BLOCK)
        ]
        self.fusion.train(training)
        return np.concatenate(blocks)

    def _init_codebooks(self, random: np.random.Generator) -> None:
        """K-means over many vectors of queries and answers, independent of the batch size."""
        half, probabilities = self.settings.buffer // 2, self.queries.probabilities
        count = min(half, len(probabilities))
        rows = np.sort(random.choice(len(probabilities), count, replace=False, p=probabilities))
        answers = self._learned_items()
        answers = np.sort(random.choice(answers, min(half, len(answers)), replace=False))
        vectors = np.concatenate(
            [self.all_vectors(self.queries.inputs, rows), self.all_vectors(self.items, answers)]
        )
        modality = np.concatenate([self.queries.want[rows], self.modality[answers]])
        generator = torch.Generator().manual_seed(int(random.integers(2**62)))
        device = self.settings.device
        self.codebooks.init(
            torch.from_numpy(vectors).to(device),
            torch.from_numpy(modality).to(device),
            generator,
            step_size=2 * self.settings.batch,
        )

    def _learned_items(self) -> np.ndarray:
        """The items that codebooks learn from: answers of training queries, with `others` the whole pool."""
        return np.arange(len(self.modality)) if self.settings.others else np.unique(self.queries.items)

    def refit_codebooks(self) -> dict[str, float]:
        """Fit the codebooks to all items that they learned from, for a fusion that is trained; returns the
        validation."""
        random = np.random.default_rng([self.seed, 29])
        items = self._learned_items()
        items = np.sort(random.choice(items, min(REFIT_ITEMS, len(items)), replace=False))
        device = self.settings.device
        self.codebooks.init(
            torch.from_numpy(self.all_vectors(self.items, items)).to(device),
            torch.from_numpy(self.modality[items]).to(device),
            torch.Generator().manual_seed(int(random.integers(2**62))),
            shrinkage=self.settings.refit,
            iterations=REFIT_ITERATIONS,
        )
        return self.validate()

    # --- validation

    def query_vectors(self, task: Task, rows: np.ndarray) -> np.ndarray:
        """The vectors [n, width] of a validation task's queries, as they are compared with codes."""
        return self.all_vectors(self.validation.queries[task], rows)

    def quantizer(self) -> Quantizer:
        """The current codebooks as search uses them."""
        classifier = self.codebooks.classifier
        weights = None
        if classifier is not None:
            weight, bias = classifier.weight.detach().cpu(), classifier.bias.detach().cpu()
            weights = weight.numpy().copy(), bias.numpy().copy()
        books = [book.cpu().numpy().copy() for book in self.codebooks.vectors_by_level()]
        settings = self.settings.codebooks
        return Quantizer(
            books, modality_code=settings.modality_code, classifier=weights, beams=settings.beams
        )

    def quantize_items(self) -> QuantizedItems:
        """All items by the current fusion and codebooks."""
        quantizer, vectors = self.quantizer(), self.all_vectors(self.validation.items)
        codes = np.zeros((len(vectors), len(quantizer.sizes)), np.uint16)
        modality = self.validation.pool.modality[self.val_items]
        codes[self.val_items] = quantizer.codes(vectors[self.val_items], modality)
        return QuantizedItems(quantizer, vectors, codes)

    def code_quality(
        self, items: QuantizedItems | None = None, query_scale: Sequence[float] = (1.0,) * KINDS
    ) -> CodeQuality:
        """How well validation queries, of this length by kind, find their answers by codes; `items` are those
        of `quantize_items`."""
        items = items or self.quantize_items()
        scales = {task.task: query_scale[kind_of_query(task)] for task in self.validation.tasks.values()}
        return measure_codes(
            items.quantizer,
            self.validation.pool.modality,
            items.codes,
            list(self.validation.tasks.values()),
            lambda task, rows: np.float32(scales[task]) * self.query_vectors(task, rows),
            members=self.val_items,
            count=self.settings.validated,
            force_modality=self.settings.search.force_modality,
        )

    def ranking(self, items: QuantizedItems) -> RankingSettings:
        """What validation chooses for dense search, queries and re-ranking; `items` are those of
        `quantize_items`."""
        queries, quantized = self.validation.queries, items.quantizer.reconstruct(items.codes)
        chosen = choose_ranking(
            ItemRepresentations(self.validation.items.embeddings, items.vectors, quantized),
            self.validation.pool.modality,
            list(self.validation.tasks.values()),
            lambda task, rows: queries[task].embeddings[rows],
            self.query_vectors,
            members=self.val_items,
            count=self.settings.validated,
        )
        kinds = zip(QUERY_KINDS, chosen.rerank, strict=True)
        weights = tuple(weight if kind in self.settings.blended else 1.0 for kind, weight in kinds)
        return replace(chosen, rerank=weights)

    def validate(self) -> dict[str, float]:
        """Hit rate @5 by codes alone and by beam search with geometry, and how many positives survive its
        first semantic level and its last; means over tasks in percent."""
        quality = self.code_quality()
        scores = {"codes": quality.codes, "geometry": quality.geometry}
        scores |= {"first": quality.survival[0], "survival": quality.survival[-1]}
        return {"score": (quality.codes + quality.survival[-1]) / 2, **scores}
