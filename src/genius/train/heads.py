"""Stage 0: heads that map the towers' features into one space, by contrast of all tasks' pairs (Eq. 2)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from genius.corpus.items import CorpusItems
from genius.corpus.queries import TaskQueries, kind_of_query
from genius.corpus.records import Records
from genius.encode.encoder import Encoder, Towers
from genius.encode.features import ABSENT, Features
from genius.encode.heads import Blocks, Heads, HeadSettings
from genius.encode.lite import class_sentences
from genius.errors import InputError, MismatchError
from genius.model import Model
from genius.quantize.fusion_inputs import TEXT_QUERY
from genius.search.dense import nearest
from genius.train import distributed
from genius.train.batches import TaskSchedule, shuffled_rows, validation_rows
from genius.train.hubness import choose_strengths, fit_bank
from genius.train.loop import LoopSettings, prepare_torch
from genius.train.losses import contrastive_loss
from genius.train.pairs import draw_positives, hit_rate, hit_rate_by_scores, mask_other_positives
from genius.train.validation import unseen_items

BLOCK = 4096
"""Rows that are projected or embedded at a time."""
WANT_STEPS = 300
"""Steps in which the heads learn which modality an instruction asks for."""
NAMING_ROWS = 10_000
"""Images, at most, that the class names are fitted on."""
VALIDATED_QUERIES = 1000
"""Queries of each task that a validation uses, at most."""


RAW_AMOUNTS = (0.0, 0.25, 0.5, 0.75)
"""By how much the logit of the raw block's strength may rise."""


@dataclass(frozen=True)
class EncoderSettings:
    """How heads are trained over the features of two towers (stage 0)."""

    towers: Towers = "lite"
    source: str = ""
    """For `clip`: a folder or a hub name."""
    start: str = ""
    """A trained model whose heads training starts from, instead of random ones: a folder, or `photo`. The
    sizes of its heads hold, not those of `heads`."""
    batch: int = 512
    negatives: int = 512
    """Items of the wanted modality and the same data set that each batch has besides its positives."""
    hard_negatives: int = 0
    """Negatives drawn for each query from those that the data gives, where it gives any."""
    temperature: float = 0.03
    learn_temperature: bool = False
    task_power: float = 0.5
    """A task is drawn in proportion to its number of queries to this power."""
    instruction_dropout: float = 0.1
    """Share of queries that are trained without their instruction."""
    raw_tolerance: float = 0.0
    """Points of validation's hit rate that may be given up, once heads are trained, for stronger raw blocks
    in queries of a text: the towers' own directions hold for what training never showed. 0 leaves them as
    trained."""
    heads: HeadSettings = field(default_factory=HeadSettings)
    loop: LoopSettings = field(default_factory=LoopSettings)

    def __post_init__(self) -> None:
        if self.batch < 2 or self.temperature <= 0:
            raise InputError("batch should be at least 2 and temperature above 0")
        if not 0 <= self.raw_tolerance < 100:
            raise InputError(f"raw_tolerance should be a few points at most, but is {self.raw_tolerance}")


class EncoderStage:
    """Contrastive training of the heads over frozen features.

    Args:
        settings: of this stage.
        encoder: the one that the features are from.
        features: of all images and texts of the tree.
        pool: all items.
        tasks: the queries to train on, and those that validate.
        prompts: rows of known prompts among the texts, and the modality that each asks for.
        seed: of the weights and of every draw.
    """

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
        prepare_torch(seed)
        self.settings, self.seed, self.pool = settings, seed, pool
        self.train_tasks, self.val_tasks = tasks
        self.val_items = unseen_items(len(pool.modality), *tasks)
        self.heads = Heads(settings.heads, encoder.image_parts, encoder.text_parts)
        self.log_scale = nn.Parameter(
            torch.tensor(-math.log(settings.temperature)), settings.learn_temperature
        )
        self.network = nn.Module()
        self.network.heads = self.heads
        self.network.log_scale = self.log_scale
        if settings.start:
            self.heads.load_state_dict(start_tensors(settings.start, encoder))
        else:
            self._fit_projections(features)
            if settings.heads.named:
                self._fit_naming(encoder, features)
            known = self._projected(self.heads.text_projection, features.texts[prompts[0]])
            fit_wants(self.heads, known, prompts[1])
        self._features = features
        self.schedule = TaskSchedule(
            [len(task) for task in self.train_tasks],
            settings.loop.steps * settings.loop.accumulate,
            power=settings.task_power,
            seed=seed,
        )
        self.negative_pools = [self._negative_pool(task) for task in self.train_tasks]

    @cached_property
    def images(self) -> torch.Tensor:
        """Projected features of all images.

        They are made when they are first needed: a resumed run then has its checkpoint's projections, which
        those fitted by this process need not equal, as with another number of threads.
        """
        return self._projected(self.heads.project_images, self._features.images)

    @cached_property
    def texts(self) -> torch.Tensor:
        """Projected features of all texts, made when they are first needed, as those of images are."""
        return self._projected(self.heads.text_projection, self._features.texts)

    # --- training

    def loss(self, step: int, part: int) -> torch.Tensor:
        """The contrast of one task's batch (Eq. 2), each query against the batch's positives and negatives.

        It is the mean over queries, summed over the heads' members.
        """
        turn = step * self.settings.loop.accumulate + part
        random = np.random.default_rng([self.seed, turn])
        number, earlier_turns = self.schedule[turn]
        task = self.train_tasks[number]
        size = min(self.settings.batch, len(task))
        rows = np.unique(shuffled_rows(len(task), earlier_turns * size, size, seed=(self.seed, number)))
        positives = draw_positives(task, rows, random)
        candidates, places = np.unique(
            np.concatenate([positives, self._draw_negatives(number, rows, random)]), return_inverse=True
        )
        local = distributed.local_slice(len(rows))
        targets = torch.from_numpy(places[: len(rows)][local])
        items = self._items(candidates[distributed.local_slice(len(candidates))])
        queries = self._instructed_queries(task, rows[local], random)
        other_positives = mask_other_positives(task, rows[local], candidates, targets)
        losses = [
            contrastive_loss(
                queries.of(member), items.of(member), self.log_scale.exp(), targets, other_positives
            )
            for member in range(self.settings.heads.members)
        ]
        return torch.stack(losses).sum() / len(rows)

    def _instructed_queries(self, task: TaskQueries, rows: np.ndarray, random: np.random.Generator) -> Blocks:
        """Queries with a prompt that is drawn anew each time, and some without any."""
        contents = task.contents[rows]
        prompts = task.prompts[random.integers(0, len(task.prompts), len(rows))]
        prompts = np.where(random.random(len(rows)) < self.settings.instruction_dropout, ABSENT, prompts)
        return self._queries(Records(contents.image, contents.text, prompts))[0]

    def _draw_negatives(self, number: int, rows: np.ndarray, random: np.random.Generator) -> np.ndarray:
        """Negatives of a task's batch: items of its pool, and hard negatives that the data gives."""
        pool = self.negative_pools[number]
        count = min(self.settings.negatives, len(pool))
        drawn = [random.choice(pool, count, replace=False)]
        if self.settings.hard_negatives:
            task = self.train_tasks[number]
            given = [task.negatives[row] for row in rows if len(task.negatives[row])]
            drawn += [random.choice(hard, self.settings.hard_negatives) for hard in given]
        return np.concatenate(drawn)

    def _negative_pool(self, task: TaskQueries) -> np.ndarray:
        """The training targets of the task's wanted modality and data set."""
        targets = [other.items for other in self.train_tasks if other.task.dataset == task.task.dataset]
        items = np.unique(np.concatenate(targets))
        return np.asarray(items[self.pool.modality[items] == task.want])

    # --- embedding

    def _items(self, numbers: np.ndarray) -> Blocks:
        contents = self.pool.contents[numbers]
        return self.heads.item_blocks(_take(self.images, contents.image), _take(self.texts, contents.text))

    def _queries(self, contents: Records) -> tuple[Blocks, torch.Tensor, torch.Tensor]:
        return self.heads.query_blocks(
            _take(self.images, contents.image),
            _take(self.texts, contents.text),
            _take(self.texts, contents.instruction),
        )

    def _fit_projections(self, features: Features) -> None:
        """Fit the projections on the features of training queries and items."""
        trained = [task.contents for task in self.train_tasks]
        trained.append(self.pool.contents[self._training_items])
        whitening = self.settings.heads.whitening
        for projection, table, kind in (
            (self.heads.image_projection, features.images, "image"),
            (self.heads.text_projection, features.texts, "text"),
        ):
            rows = _present(getattr(contents, kind) for contents in trained)
            if not len(rows):
                raise InputError(
                    f"no training query or item has {'an image' if kind == 'image' else 'a text'}, and heads "
                    "are trained over both: add a task that has some, such as captions of images"
                )
            projection.fit(table[rows], whitening, self.seed)

    @torch.no_grad()
    def _fit_naming(self, encoder: Encoder, features: Features) -> None:
        """Fit what names images by the image tower's classes."""
        sentences = torch.from_numpy(encoder.encode_texts(class_sentences()))
        rows = _present(task.contents.image for task in self.train_tasks)
        if not len(rows):  # every task asks by text: the images are those of the items
            rows = _present(self.pool.contents[task.items].image for task in self.train_tasks)
        seen = torch.from_numpy(np.asarray(features.images[rows[:NAMING_ROWS]], np.float32))
        self.heads.naming.fit(sentences, self.heads.text_projection, seen)

    @torch.no_grad()
    def _projected(
        self, projection: Callable[[torch.Tensor], torch.Tensor], table: np.ndarray
    ) -> torch.Tensor:
        blocks = [
            projection(torch.from_numpy(np.asarray(table[start : start + BLOCK], np.float32)))
            for start in range(0, len(table), BLOCK)
        ]
        return torch.cat(blocks)

    # --- validation

    def validate(self) -> dict[str, float]:
        """Hit rate @5 in percent, the mean over tasks: in the `union` pool, and in the wanted `modality`."""
        items = self._embedded_val_items()
        union_hits, modality_hits = [], []
        for task in self.val_tasks:
            rows = validation_rows(len(task), VALIDATED_QUERIES)
            queries = self.heads.embed_queries(*self._queries(task.contents[rows])).numpy()
            union_hits.append(hit_rate(task, rows, self.val_items[nearest(queries, items, 5)[1]]))
            modality_hits.append(self._modality_hit_rate(task, items))
        scores = {"union": 100 * float(np.mean(union_hits)), "modality": 100 * float(np.mean(modality_hits))}
        return {"score": (scores["union"] + scores["modality"]) / 2, **scores}

    @torch.no_grad()
    def calibrate(self) -> dict[str, float]:
        """Choose, for heads that are trained, how strong raw blocks are in queries of a text, and fit what
        sets back hubs, as far as the settings ask for it; returns the validation with both."""
        self.network.eval()
        tolerance, chosen = self.settings.raw_tolerance / 100, 0.0
        tasks = [task for task in self.val_tasks if kind_of_query(task) == TEXT_QUERY]
        if tolerance and tasks:
            rates, before = [], 0.0
            for amount in RAW_AMOUNTS:
                self.heads.strengthen_texts(amount - before)
                before = amount
                items = self._fit_hubness()
                rates.append(float(np.mean([self._modality_hit_rate(task, items) for task in tasks])))
            chosen = max(
                amount
                for amount, rate in zip(RAW_AMOUNTS, rates, strict=True)
                if rate >= max(rates) - tolerance
            )
            self.heads.strengthen_texts(chosen - before)
        self._fit_hubness()
        return self.validate()

    def _fit_hubness(self) -> np.ndarray:
        """Fit what sets back hubs, if the heads have it; returns the embeddings that validation searches."""
        if self.settings.heads.hubness:
            random = np.random.default_rng([self.seed, 17])
            fit_bank(
                self.heads.hubness,
                [task for task in self.train_tasks if kind_of_query(task) == TEXT_QUERY],
                lambda task, rows: self._instructed_queries(task, rows, random).together(),
                self._training_blocks,
                self.pool.modality[self._training_items],
                seed=self.seed,
            )
        embedded = self._embedded_val_items()
        if self.settings.heads.hubness:
            choose_strengths(
                self.heads.hubness, self.val_tasks, lambda task: self._modality_hit_rate(task, embedded)
            )
        return embedded

    @cached_property
    def _training_items(self) -> np.ndarray:
        """The numbers [n] of the items that training queries ask for."""
        return np.unique(np.concatenate([task.items for task in self.train_tasks]))

    @cached_property
    def _training_blocks(self) -> torch.Tensor:
        """The blocks [n, width] of these items, once heads are trained."""
        chunks = np.array_split(self._training_items, -(-len(self._training_items) // BLOCK))
        return torch.cat([self._items(chunk).together() for chunk in chunks])

    def _embedded_val_items(self) -> np.ndarray:
        """The embeddings [n, width] of the items that validation searches."""
        modality = torch.from_numpy(self.pool.modality)
        chunks = np.array_split(self.val_items, -(-len(self.val_items) // BLOCK))
        blocks = [self.heads.embed_items(self._items(chunk), modality[chunk]) for chunk in chunks]
        return np.asarray(torch.cat(blocks).numpy())

    def _modality_hit_rate(self, task: TaskQueries, items: np.ndarray) -> float:
        """Hit rate @5 of a validation task among the items of the wanted modality."""
        rows = validation_rows(len(task), VALIDATED_QUERIES)
        queries = self.heads.embed_queries(*self._queries(task.contents[rows])).numpy()
        wanted = np.flatnonzero(self.pool.modality[self.val_items] == task.want)
        return hit_rate_by_scores(task, rows, queries @ items[wanted].T, self.val_items[wanted], 5)


def with_start(settings: EncoderSettings) -> EncoderSettings:
    """The settings with the sizes of the heads that training starts from, if it starts from a model's.

    Raises InputError for a model without heads.
    """
    if not settings.start:
        return settings
    model = Model.open(settings.start)
    if model.fusion_kind != "heads":
        raise InputError("has no heads that training could start from", path=model.path)
    described: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in model.settings["heads"].items()
    }
    return replace(settings, heads=HeadSettings(**described))


def start_tensors(start: str, encoder: Encoder) -> dict[str, torch.Tensor]:
    """The tensors of a model's heads. Raises MismatchError if they stand on another encoder."""
    model = Model.open(start)
    described = model.settings["encoder"]
    trained_on = described.get("single_precision", {}).get("encoder", described["fingerprint"])
    if trained_on != encoder.fingerprint:
        raise MismatchError(
            f"the heads of {model.name} stand on the encoder {trained_on[:12]}, not on "
            f"{encoder.fingerprint[:12]}: start from a model of the same encoder, or from none"
        )
    return {name: torch.from_numpy(tensor) for name, tensor in model.head_tensors().items()}


def fit_wants(heads: Heads, prompts: torch.Tensor, wanted: np.ndarray) -> None:
    """Learn which modality an instruction asks for, from known prompts (projected) with noise added.

    This depends on the prompts alone, so it is done once before the contrast, and frozen.
    """
    generator = torch.Generator().manual_seed(0)
    known, target = prompts[:, : heads.text_width], torch.from_numpy(wanted).long()
    optimizer = torch.optim.AdamW(heads.wants.parameters(), lr=1e-2, weight_decay=1e-2)
    for _ in range(WANT_STEPS):
        noise = torch.randn(known.shape, generator=generator) * known.std()
        loss = functional.cross_entropy(heads.wants(known + noise), target)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    heads.wants.requires_grad_(False)


def _present(rows: Iterable[np.ndarray]) -> np.ndarray:
    """The distinct rows of features, without those that are absent."""
    distinct = np.unique(np.concatenate(list(rows)))
    return np.asarray(distinct[distinct != ABSENT])


def _take(projected: torch.Tensor, rows: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
    """Projected features by row, and which rows are present."""
    numbers = torch.from_numpy(rows.astype(np.int64))
    return projected[numbers.clamp(min=0)], numbers != ABSENT
