"""The stage before stage 0, for `clip`: both towers fine-tuned end to end on all tasks' pairs (Eq. 2).

As UniIR trains CLIP-SF and CLIP-FF: a batch mixes all tasks, so that the negatives of a query have every
modality; a query's text follows an instruction that is drawn anew each time.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from genius.data.images import load
from genius.data.instructions import clean, query_text
from genius.data.mbeir import Tree
from genius.data.records import ImageSource, Item, Query
from genius.data.tasks import TASK_MODALITIES
from genius.encode.clip import Clip
from genius.encode.clip_fusion import ClipFusionKind, FusedClip, TokenFusionSettings
from genius.errors import InputError
from genius.runtime import cores
from genius.search.dense import nearest
from genius.train import distributed
from genius.train.batches import shuffled_rows
from genius.train.loop import LoopSettings, train
from genius.train.losses import contrastive_loss
from genius.train.pairs import draw_positives, hit_rate, mask_other_positives, read_training, read_validation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TowerLoopSettings(LoopSettings):
    """How towers are fine-tuned: at a low rate, since they are trained already (UniIR's values where it has
    any)."""

    learning_rate: float = 1e-5
    weight_decay: float = 0.2
    epsilon: float = 1e-6
    average: float = 0.0


@dataclass(frozen=True)
class TowerSettings:
    """How a CLIP's towers are fine-tuned."""

    source: str
    """The CLIP or SigLIP to begin with: a folder or a hub name."""
    frozen: bool = False
    """Whether it stays as it is, since somebody tuned it before: UniIR's CLIP-SF, say."""
    fusion_kind: ClipFusionKind = "score"
    """`score`: the sum of the towers' outputs. `tokens`: a small transformer over both towers' tokens."""
    batch: int = 64
    """Queries of a batch, over all processes; the answers of the others are a query's negatives."""
    temperature: float = 0.01
    learn_temperature: bool = True
    """Whether the temperature is trained too, as CLIP's own is."""
    upsampled: bool = False
    """Whether the pairs are M-BEIR's own mix, in which small data sets are repeated."""
    fusion: TokenFusionSettings = field(default_factory=TokenFusionSettings)
    """For `tokens`: sizes of the transformer."""
    fusion_learning_rate: float = 5e-4
    """For `tokens`: higher than that of the towers, since the transformer starts from random weights."""
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the towers' arithmetic in training; weights are kept in float32."""
    validated_queries: int = 200
    """Queries of each task that a validation uses, at most."""
    validated_items: int = 5000
    """Items in the pool of a validation besides these queries' answers, at most."""
    loop: TowerLoopSettings = field(default_factory=TowerLoopSettings)

    def __post_init__(self) -> None:
        if not self.source:
            raise InputError("source should be the folder or the hub name of a CLIP or SigLIP model")
        if self.batch < 2 or self.temperature <= 0:
            raise InputError("batch should be at least 2 and temperature above 0")
        if min(self.loop.learning_rate, self.fusion_learning_rate) <= 0:
            raise InputError("learning rates should be above 0")
        if min(self.validated_queries, self.validated_items) < 1:
            raise InputError("validated_queries and validated_items should be at least 1")
        if self.frozen and self.fusion_kind == "tokens":
            raise InputError('fusion_kind = "tokens" has a transformer to train: it can\'t be frozen')
        if self.fusion_kind == "score" and self.fusion != TokenFusionSettings():
            raise InputError('fusion is what fusion_kind = "tokens" trains; with "score" there is none')

    @property
    def rates(self) -> dict[str, float]:
        """Learning rates other than the loop's, by the beginning of parameters' names."""
        return {"fusion.": self.fusion_learning_rate}


TowerInput = tuple[Future[np.ndarray] | None, str]
"""The pixels of an image that is being read, or None, and a text."""


@dataclass(frozen=True)
class TowerBatch:
    """This process's share of the queries and candidates of a turn."""

    turn: int
    count: int
    """Queries of all processes."""
    queries: list[TowerInput]
    candidates: list[TowerInput]
    targets: torch.Tensor
    """For each local query the position of its answer among the candidates of all processes."""
    other_positives: torch.Tensor
    """[local queries, candidates of all]: candidates that answer a query too, but are not its target."""


class TowerStage:
    """Contrastive training of both towers and of what joins them."""

    name = "towers"

    def __init__(self, settings: TowerSettings, tree: Tree, *, seed: int) -> None:
        self.settings, self.tree, self.seed = settings, tree, seed
        self.clip = Clip.open(settings.source, device=settings.device)
        generator = torch.Generator().manual_seed(seed)
        self.fused = FusedClip(self.clip, settings.fusion_kind, settings.fusion, generator=generator)
        self.network: torch.nn.Module = self.fused
        # CLIP's own scale is trained, so that the tuned folder has it where every CLIP has it.
        self.log_scale: torch.nn.Parameter = self.clip.module.logit_scale
        self.log_scale.requires_grad_(settings.learn_temperature)
        torch.nn.init.constant_(self.log_scale, -math.log(settings.temperature))
        self.pairs, self.items = read_training(tree, upsampled=settings.upsampled)
        self.val_tasks, self.val_items = read_validation(
            tree, queries=settings.validated_queries, items=settings.validated_items
        )
        self._readers = ThreadPoolExecutor(cores(), "images")
        self._unreadable: set[str] = set()
        self._next: TowerBatch | None = None

    # --- training

    def loss(self, step: int, part: int) -> torch.Tensor:
        """The contrast of a batch (Eq. 2): each query against all answers of the batch; mean over queries."""
        turn = step * self.settings.loop.accumulate + part
        batch = self._next if self._next is not None and self._next.turn == turn else self._batch(turn)
        self._next = self._batch(turn + 1)  # its images are read while this one is computed
        queries, items = self._embedded(batch.queries), self._embedded(batch.candidates)
        targets = batch.targets.to(queries.device)
        other_positives = batch.other_positives.to(queries.device)
        return contrastive_loss(queries, items, self.log_scale.exp(), targets, other_positives) / batch.count

    def _batch(self, turn: int) -> TowerBatch:
        """The batch of a turn, a function of the seed and the turn alone."""
        random = np.random.default_rng([self.seed, turn])
        size = min(self.settings.batch, len(self.pairs))
        rows = np.unique(shuffled_rows(len(self.pairs), turn * size, size, seed=(self.seed,)))
        candidates, places = np.unique(draw_positives(self.pairs, rows, random), return_inverse=True)
        queries = [self._instructed(self.pairs.queries[row], random) for row in rows]
        local = distributed.local_slice(len(rows))
        local_candidates = candidates[distributed.local_slice(len(candidates))]
        targets = torch.from_numpy(places[local])
        return TowerBatch(
            turn,
            len(rows),
            [self._query_input(query) for query in queries[local]],
            [self._item_input(self.items[number]) for number in local_candidates],
            targets,
            mask_other_positives(self.pairs, rows[local], candidates, targets),
        )

    def _instructed(self, query: Query, random: np.random.Generator) -> Query:
        """The query with one of its data set's prompts, drawn at random."""
        if not self.tree.instructed or query.task is None:
            return query
        given, wanted = TASK_MODALITIES[query.task]
        prompts = self.tree.instructions.prompts(query.id, query.dataset or "", given, wanted)
        return dataclasses.replace(query, instruction=prompts[random.integers(len(prompts))])

    # --- embedding

    def _query_input(self, query: Query) -> TowerInput:
        return self._read_later(query.image), query_text(query)

    def _item_input(self, item: Item) -> TowerInput:
        return self._read_later(item.image), clean(item.text)

    def _read_later(self, image: ImageSource | None) -> Future[np.ndarray] | None:
        return None if image is None else self._readers.submit(self._read_pixels, image)

    def _read_pixels(self, image: ImageSource) -> np.ndarray:
        return self.clip.preprocessing.pixels(load(image))

    def _pixels(self, future: Future[np.ndarray] | None) -> np.ndarray | None:
        """An image's pixels; None if there is no image or it can't be read, which is logged once."""
        try:
            return None if future is None else future.result()
        except InputError as error:
            if str(error) not in self._unreadable:
                self._unreadable.add(str(error))
                log.warning("trained without: %s", error)
            return None

    def _embedded(self, records: Sequence[TowerInput]) -> torch.Tensor:
        """Joined embeddings [n, width] of records."""
        images = [self._pixels(future) for future, _ in records]
        pixels = self.clip.stacked([image for image in images if image is not None])
        has_image = torch.tensor([image is not None for image in images], device=pixels.device)
        low = self.settings.precision == "bfloat16"
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=low):
            embedded: torch.Tensor = self.network(pixels, has_image, [text for _, text in records])
        return embedded

    # --- validation

    def validate(self) -> dict[str, float]:
        """Hit rate @5 in percent, the mean over tasks, in the validation pool."""
        items = self._vectors(self.val_items)
        rates = []
        for task in self.val_tasks:
            _, best = nearest(self._vectors(task.queries), items, 5)
            rates.append(hit_rate(task, np.arange(len(task)), best))
        return {"score": 100 * float(np.mean(rates))}

    def _vectors(self, records: Sequence[Item] | Sequence[Query]) -> np.ndarray:
        blocks = []
        for start in range(0, len(records), self.settings.batch):
            inputs = [
                self._query_input(record) if isinstance(record, Query) else self._item_input(record)
                for record in records[start : start + self.settings.batch]
            ]
            blocks.append(self._embedded(inputs).float().cpu().numpy())
        return np.concatenate(blocks)


@dataclass(frozen=True)
class TunedTowers:
    """A fine-tuned CLIP: its folder, and the network with what joins its towers."""

    settings: TowerSettings
    folder: Path
    network: FusedClip
    scores: dict[str, float]


def tune_towers(settings: TowerSettings, tree: Tree, work: Path, *, seed: int) -> TunedTowers:
    """Fine-tune the recipe's CLIP unless it is frozen, or resume an interrupted run; the result is in
    `work / "clip"`."""
    if settings.frozen:
        fused, scores = FusedClip(Clip.open(settings.source), "score"), {}
    else:
        stage = TowerStage(settings, tree, seed=seed)
        scores = train(stage, settings.loop, work / "towers", seed=seed, rates=settings.rates)
        log.info("Stage towers: validation score %.1f.", scores["score"])
        fused = stage.fused
    folder = work / "clip"
    if distributed.rank() == 0:
        fused.clip.save(folder)
    distributed.barrier()
    return TunedTowers(settings, folder, fused, scores)
