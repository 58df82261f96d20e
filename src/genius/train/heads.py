"""Stage 0: heads that bring the towers' features into one space, by contrast of all tasks' pairs (Eq. 2)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from genius.corpus.items import CorpusItems
from genius.corpus.queries import TaskQueries
from genius.corpus.records import Records
from genius.encode.encoder import Encoder, Towers
from genius.encode.features import ABSENT, Features
from genius.encode.heads import Blocks, Heads, HeadSettings
from genius.encode.lite import class_sentences
from genius.errors import InputError
from genius.search.dense import nearest
from genius.train import distributed
from genius.train.batches import Schedule, permuted
from genius.train.loop import LoopSettings, begin
from genius.train.pairs import hit_rate, one_positive_each, other_positives

PROMPT_STEPS = 300
NAMED_ROWS = 10_000
VALIDATED_QUERIES = 1000
"""Queries of each task that a validation looks at, at most."""


@dataclass(frozen=True)
class EncoderSettings:
    """The recipe of stage 0."""

    towers: Towers = "lite"
    source: str = ""
    """For `clip`: a folder or a hub name."""
    batch: int = 512
    negatives: int = 512
    """Further items of the wanted modality and the same data set beside each batch's own."""
    hard_negatives: int = 0
    """Given negatives drawn for each query, where the data has any."""
    temperature: float = 0.03
    learn_temperature: bool = False
    task_power: float = 0.5
    """A task is drawn in proportion to its number of queries to this power."""
    instruction_dropout: float = 0.1
    heads: HeadSettings = field(default_factory=HeadSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)

    def __post_init__(self) -> None:
        if self.batch < 2 or self.temperature <= 0:
            raise InputError("batch should be at least 2 and temperature above 0")


class EncoderStage:
    """Contrastive training of the heads over frozen features."""

    name = "encoder"

    def __init__(
        self,
        settings: EncoderSettings,
        encoder: Encoder,
        features: Features,
        pool: CorpusItems,
        tasks: tuple[list[TaskQueries], list[TaskQueries]],
        prompts: tuple[np.ndarray, np.ndarray],
        *,
        seed: int,
    ) -> None:
        begin(seed)
        self.settings, self.seed, self.pool = settings, seed, pool
        self.train_tasks, self.val_tasks = tasks
        self.heads = Heads(settings.heads, encoder.image_parts, encoder.text_parts)
        self.log_scale = nn.Parameter(
            torch.tensor(-math.log(settings.temperature)), settings.learn_temperature
        )
        self.network = nn.Module()
        self.network.heads = self.heads
        self.network.log_scale = self.log_scale
        self._fit_projections(features)
        if settings.heads.named:
            self._fit_naming(encoder, features)
        self.images = self._projected(self.heads.project_images, features.images)
        self.texts = self._projected(self.heads.text_projection, features.texts)
        fit_wants(self.heads, self.texts, *prompts)
        self.schedule = Schedule(
            [len(task) for task in self.train_tasks],
            settings.loop.steps * settings.loop.accumulate,
            power=settings.task_power,
            seed=seed,
        )
        self.neighbours = [self._neighbours(task) for task in self.train_tasks]

    # --- training

    def loss(self, step: int, part: int) -> torch.Tensor:
        """Contrast of one task's batch: each query against the batch's items and some more (Eq. 2)."""
        turn = step * self.settings.loop.accumulate + part
        random = np.random.default_rng([self.seed, turn])
        number, start = self.schedule[turn]
        task = self.train_tasks[number]
        size = min(self.settings.batch, len(task))
        rows = np.unique(permuted(len(task), start * size, size, seed=(self.seed, number)))
        chosen = one_positive_each(task, rows, random)
        candidates, places = np.unique(
            np.concatenate([chosen, self._negatives(number, rows, random)]), return_inverse=True
        )
        mine = distributed.share(len(rows))
        wanted = torch.from_numpy(places[: len(rows)][mine])
        items = self._items(candidates[distributed.share(len(candidates))])
        queries = self._asked(task, rows[mine], random)
        no_negatives = other_positives(task, rows[mine], candidates, wanted)
        losses = []
        for member in range(self.settings.heads.members):
            logits = queries.of(member) @ distributed.gather(items.of(member)).T * self.log_scale.exp()
            logits = logits.masked_fill(no_negatives, -torch.inf)
            losses.append(functional.cross_entropy(logits, wanted, reduction="sum"))
        return torch.stack(losses).sum() / len(rows)

    def _asked(self, task: TaskQueries, rows: np.ndarray, random: np.random.Generator) -> Blocks:
        """Queries under a prompt that is drawn anew each time, and sometimes under none."""
        contents = task.contents[rows]
        prompts = task.prompts[random.integers(0, len(task.prompts), len(rows))]
        prompts = np.where(random.random(len(rows)) < self.settings.instruction_dropout, ABSENT, prompts)
        return self._queries(Records(contents.image, contents.text, prompts))[0]

    def _negatives(self, number: int, rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """More items to tell the answers from: of the same kind, and those given as hard."""
        neighbours = self.neighbours[number]
        count = min(self.settings.negatives, len(neighbours))
        drawn = [random.choice(neighbours, count, replace=False)]
        if self.settings.hard_negatives:
            task = self.train_tasks[number]
            given = [task.negatives[row] for row in rows if len(task.negatives[row])]
            drawn += [random.choice(hard, self.settings.hard_negatives) for hard in given]
        return np.concatenate(drawn)

    def _neighbours(self, task: TaskQueries) -> np.ndarray:
        """The training targets of the task's modality and data set."""
        targets = [other.items for other in self.train_tasks if other.task.dataset == task.task.dataset]
        items = np.unique(np.concatenate(targets))
        return np.asarray(items[self.pool.modality[items] == task.want])

    # --- embedding

    def _items(self, numbers: np.ndarray) -> Blocks:
        contents = self.pool.contents[numbers]
        return self.heads.item_blocks(_table(self.images, contents.image), _table(self.texts, contents.text))

    def _queries(self, contents: Records) -> tuple[Blocks, torch.Tensor]:
        return self.heads.query_blocks(
            _table(self.images, contents.image),
            _table(self.texts, contents.text),
            _table(self.texts, contents.instruction),
        )

    def _fit_projections(self, features: Features) -> None:
        """Fit the projections on what training sees, once; a resumed run gets the same ones."""
        seen = [task.contents for task in self.train_tasks]
        seen.append(self.pool.contents[np.unique(np.concatenate([task.items for task in self.train_tasks]))])
        whitening = self.settings.heads.whitening
        for projection, table, kind in (
            (self.heads.image_projection, features.images, "image"),
            (self.heads.text_projection, features.texts, "text"),
        ):
            rows = np.unique(np.concatenate([getattr(contents, kind) for contents in seen]))
            projection.fit(table[rows[rows != ABSENT]], whitening, self.seed)

    @torch.no_grad()
    def _fit_naming(self, encoder: Encoder, features: Features) -> None:
        """Let the heads know the names of the image tower's classes."""
        sentences = torch.from_numpy(encoder.encode_texts(class_sentences()))
        rows = np.unique(np.concatenate([task.contents.image for task in self.train_tasks]))
        seen = torch.from_numpy(np.asarray(features.images[rows[rows != ABSENT][:NAMED_ROWS]], np.float32))
        self.heads.naming.fit(sentences, self.heads.text_projection, seen)

    @torch.no_grad()
    def _projected(
        self, projection: Callable[[torch.Tensor], torch.Tensor], table: np.ndarray
    ) -> torch.Tensor:
        blocks = [
            projection(torch.from_numpy(np.asarray(table[start : start + 4096], np.float32)))
            for start in range(0, len(table), 4096)
        ]
        return torch.cat(blocks)

    # --- validation

    def validate(self) -> dict[str, float]:
        """Mean hit rate @5 over the tasks, in the union pool and among items of the wanted modality."""
        numbers = np.arange(len(self.pool.ids))
        modality = torch.from_numpy(self.pool.modality)
        parts = np.array_split(numbers, -(-len(numbers) // 4096))
        blocks = [self.heads.embed_items(self._items(part), modality[part]) for part in parts]
        items = torch.cat(blocks).numpy()
        union, dense_baseline = [], []
        for task in self.val_tasks:
            rows = permuted(len(task), 0, min(len(task), VALIDATED_QUERIES), seed=(0,))
            queries = self.heads.embed_queries(*self._queries(task.contents[rows])).numpy()
            _, found = nearest(queries, items, 5)
            union.append(hit_rate(task, rows, found))
            same = np.flatnonzero(self.pool.modality == task.want)
            _, found = nearest(queries, items[same], 5)
            dense_baseline.append(hit_rate(task, rows, same[found]))
        scores = {"union": 100 * float(np.mean(union)), "fair": 100 * float(np.mean(dense_baseline))}
        return {"score": (scores["union"] + scores["fair"]) / 2, **scores}


def fit_wants(heads: Heads, texts: torch.Tensor, prompts: np.ndarray, wanted: np.ndarray) -> None:
    """Learn which modality an instruction asks for, from known prompts (rows of `texts`) with noise on them.

    Apart from the contrast and before it: what is learned here depends on the prompts alone, so a few seconds
    settle it, and nothing that happens later can unsettle it.
    """
    generator = torch.Generator().manual_seed(0)
    known, target = texts[torch.from_numpy(prompts), : heads.text_width], torch.from_numpy(wanted).long()
    optimizer = torch.optim.AdamW(heads.wants.parameters(), lr=1e-2, weight_decay=1e-2)
    for _ in range(PROMPT_STEPS):
        noise = torch.randn(known.shape, generator=generator) * known.std()
        loss = functional.cross_entropy(heads.wants(known + noise), target)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    heads.wants.requires_grad_(False)


def _table(projected: torch.Tensor, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Features by row, and which of them are there."""
    numbers = torch.from_numpy(rows.astype(np.int64))
    return projected[numbers.clamp(min=0)], numbers != ABSENT
