"""Stage 2: the learned decoder, trained to generate the codes of a query's answers.

    L = − Σ_k log p(t_k | z', t_<k), the mean over levels                                 (the paper's Eq. 10)

z' is a mixture of a query's vector and its answer's (Eq. 11). Fusion and codebooks are frozen: all vectors
and codes are computed once, in single precision.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from genius.corpus.coded import CodedCorpus
from genius.decode.export import PROBES, Exported, export_decoder
from genius.decode.fused_decoder import GeometricFusionSettings
from genius.decode.t5 import DecoderSettings, T5Decoder
from genius.decode.torch_decoder import TorchDecoder
from genius.errors import InputError
from genius.quantize.code_space import CodeSpace
from genius.quantize.quantizer import modality_codes_for, unit_length
from genius.search.code_pool import CodePool
from genius.train import distributed
from genius.train.batches import TrainingQueries, validation_rows
from genius.train.level_curves import curve_values
from genius.train.loop import LoopSettings, prepare_torch
from genius.train.pairs import draw_positives, hit_rate


@dataclass(frozen=True)
class DecoderLoopSettings(LoopSettings):
    """How the decoder is trained: weight decay and epsilon as in the reference code."""

    weight_decay: float = 1e-4
    epsilon: float = 1e-6
    average: float = 0.0


@dataclass(frozen=True)
class DecoderTraining:
    """How the learned decoder is trained (stage 2)."""

    batch: int = 256
    """Rows of a step: queries of all tasks, and a share `own` of items."""
    mix: Literal["linear", "sqrt", "off"] = "linear"
    """How a query is mixed with its answer: µ·z_q + (1 − µ)·z_c as in the paper, √µ and √(1 − µ) as in the
    reference code, or not at all. The mixture is then normalised, as queries are."""
    mixture: tuple[float, ...] = (2.0, 2.0)
    """The two parameters of the Beta distribution that µ comes from."""
    per_dimension: bool = False
    """Whether every dimension has a µ of its own, as in the reference code."""
    clean: float = 0.5
    """Share of queries that are not mixed; the reference code has none."""
    own: float = 0.0
    """Share of rows that are items of the whole pool instead of queries, with their own code as target."""
    label_smoothing: float = 0.0
    level_weights: tuple[float, ...] = ()
    """Weights of the levels in the loss; by default all are equal."""
    task_power: float = 1.0
    """A task is drawn in proportion to its number of queries to this power."""
    upsampled: bool = False
    """Whether queries are drawn as often as M-BEIR's own mix has them, in which small data sets are
    repeated."""
    validated: int = 60
    """Queries of each task that a validation uses, at most."""
    beams: int = 20
    """Beams of the search in validation."""
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the network's arithmetic in training; weights and the loss are in float32."""
    geometric_fusion: GeometricFusionSettings = field(default_factory=GeometricFusionSettings)
    network: DecoderSettings = field(default_factory=DecoderSettings)
    loop: DecoderLoopSettings = field(default_factory=DecoderLoopSettings)

    def __post_init__(self) -> None:
        if min(self.batch, self.validated, self.beams) < 1:
            raise InputError("batch, validated and beams should be at least 1")
        if len(self.mixture) != 2 or min(self.mixture) <= 0:
            raise InputError("mixture should be two numbers above 0")
        if not (0 <= self.clean <= 1 and 0 <= self.own <= 1 and 0 <= self.label_smoothing < 1):
            raise InputError("clean, own and label_smoothing are shares from 0 to 1")
        if self.level_weights and (min(self.level_weights) < 0 or sum(self.level_weights) <= 0):
            raise InputError("level_weights should not be below 0, nor all 0")


class DecoderStage:
    """Training of the decoder's network over the vectors and codes of a quantizer.

    Args:
        settings: of this stage.
        code_space: where the codes are from: a quantizer, or identifiers of another method.
        modality_of: which modality each first code stands for.
        training: items, and the queries to learn from.
        validation: the same items, and other queries.
        seed: of the weights and of every draw.
        repetitions: how often each training query is drawn, by id, relative to others; by default evenly.
    """

    name = "decoder"

    def __init__(
        self,
        settings: DecoderTraining,
        code_space: CodeSpace,
        modality_of: Sequence[int],
        training: CodedCorpus,
        validation: CodedCorpus,
        *,
        seed: int,
        repetitions: Mapping[str, int] | None = None,
    ) -> None:
        levels = len(code_space.sizes)
        if settings.level_weights and len(settings.level_weights) != levels:
            raise InputError(
                f"codes have {levels} levels, but there are {len(settings.level_weights)} weights"
            )
        prepare_torch(seed)
        self.settings, self.seed = settings, seed
        self.code_space, self.modality_of = code_space, list(modality_of)
        self.items, self.codes = training.vectors, training.codes.astype(np.int64)
        self.queries = TrainingQueries.concatenate(training.embedded, settings.task_power, repetitions)
        self.vectors = np.concatenate([training.queries[task] for task in training.embedded.tasks])
        self.validation = validation
        codebooks, sizes = code_space.codebooks, code_space.sizes
        self.pool = CodePool(training.codes, codebooks, code_space.semantic, sizes)
        weights = np.array(settings.level_weights or (1.0,) * levels)
        self.weights = (weights / weights.sum()).tolist()
        self.decoder = T5Decoder(code_space.width, sizes, settings.network, codebooks).to(settings.device)
        self.network: nn.Module = self.decoder

    # --- training

    def loss(self, step: int, part: int) -> torch.Tensor:
        """This process's share of the cross-entropy of a batch (Eq. 10): the weighted mean over levels, the
        mean over rows; the processes' shares add up."""
        turn = step * self.settings.loop.accumulate + part
        vectors, codes = self.draw(np.random.default_rng([self.seed, 2, turn]))
        local = distributed.local_slice(len(vectors))
        device = self.settings.device
        targets = torch.from_numpy(codes[local]).to(device)
        low = self.settings.precision == "bfloat16"
        with torch.autocast(device, torch.bfloat16, enabled=low):
            logits = self.decoder(torch.from_numpy(vectors[local]).to(device), targets)
        targets = self.decoder.targets(targets)
        total = torch.zeros((), device=device)
        for level, weight in enumerate(self.weights):
            total = total + weight * functional.cross_entropy(
                logits[level].float(),
                targets[:, level],
                label_smoothing=self.settings.label_smoothing,
                reduction="sum",
            )
        return total / len(vectors)

    def draw(self, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """The rows of a step: vectors [batch, width], and their target codes [batch, levels].

        If a query has several answers, one is drawn each time.
        """
        settings = self.settings
        own = round(settings.own * settings.batch)
        rows = random.choice(len(self.vectors), settings.batch - own, p=self.queries.probabilities)
        answers = draw_positives(self.queries, rows, random)
        queries = mix_with_answers(self.vectors[rows], self.items[answers], settings, random)
        items = random.integers(0, len(self.items), own)
        vectors = np.concatenate([queries, self.items[items]]).astype(np.float32, copy=False)
        return vectors, self.codes[np.concatenate([answers, items])]

    # --- validation

    def validate(self) -> dict[str, float]:
        """Hit rate @5 of beam search with the wanted modality known, and how many positives survive its first
        semantic level and its last; means over tasks in percent."""
        decoder = TorchDecoder(self.decoder, self.settings.device)
        hits, survival = [], []
        for task in self.validation.embedded.tasks.values():
            rows = validation_rows(len(task), self.settings.validated)
            first = modality_codes_for(self.modality_of, task.want, len(rows))
            vectors = self.validation.queries[task.task][rows]
            positives = [task.positives(row) for row in rows]
            items, survived = self.pool.search(
                decoder, vectors, positives, beams=self.settings.beams, modality_code=first
            )
            hits.append(hit_rate(task, rows, items))
            survival.append(survived)
        survived = 100 * np.mean(survival, axis=0)
        return {
            "score": 100 * float(np.mean(hits)),
            "first": float(survived[self.code_space.semantic]),
            "survival": float(survived[-1]),
        }

    def curves(self) -> dict[str, float]:
        """How sure the network is of true codes by level, for training queries and for validation queries
        with seen and with unseen answers (`level_curves`)."""
        tasks = self.validation.embedded.tasks.values()
        rows = validation_rows(len(self.vectors), self.settings.validated * len(tasks))
        known = {"training": (self.vectors[rows], self.codes[self.queries.items[self.queries.starts[rows]]])}
        is_seen = np.zeros(len(self.codes), bool)
        is_seen[self.queries.items] = True
        vectors, answers = [], []
        for task in tasks:
            rows = validation_rows(len(task), self.settings.validated)
            vectors.append(self.validation.queries[task.task][rows])
            answers.append(task.items[task.starts[rows]])
        all_vectors, all_answers = np.concatenate(vectors), np.concatenate(answers)
        for kind, chosen in (("seen", is_seen[all_answers]), ("unseen", ~is_seen[all_answers])):
            known[kind] = all_vectors[chosen], self.codes[all_answers[chosen]]
        return curve_values(self.decoder, known, self.settings.device)

    def export(self) -> Exported:
        """The network as ONNX graphs, compared with torch on validation queries."""
        tasks = list(self.validation.embedded.tasks.values())
        each = -(-PROBES // len(tasks))
        vectors = np.concatenate([self.validation.queries[task.task][:each] for task in tasks])
        answers = np.concatenate([task.items[task.starts[:-1]][:each] for task in tasks])
        return export_decoder(self.decoder, vectors, self.codes[answers])


def mix_with_answers(
    queries: np.ndarray, answers: np.ndarray, settings: DecoderTraining, random: np.random.Generator
) -> np.ndarray:
    """Queries [n, width] mixed with their answers [n, width] (Eq. 11), except for a share of clean ones."""
    if settings.mix == "off":
        return queries
    count, width = queries.shape
    alpha, beta = settings.mixture
    query_weight = random.beta(alpha, beta, size=(count, width if settings.per_dimension else 1))
    answer_weight = 1 - query_weight
    if settings.mix == "sqrt":
        query_weight, answer_weight = np.sqrt(query_weight), np.sqrt(answer_weight)
    clean = random.random((count, 1)) < settings.clean
    return np.where(clean, queries, unit_length(query_weight * queries + answer_weight * answers))
