"""The stage before stage 0, for `clip`: both towers fine-tuned end to end on all tasks' pairs (Eq. 2).

As UniIR trains CLIP-SF and CLIP-FF: a batch mixes all tasks, so that a query learns to tell its answer from
items of every modality; a query's text stands behind an instruction that is drawn anew each time.
"""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional

from genius import storage
from genius.data.images import load
from genius.data.mbeir import Tree
from genius.data.records import ImageSource, Item, Query
from genius.data.tasks import TASK_MODALITIES
from genius.data.text import clean, query_text
from genius.encode.clip import Clip
from genius.encode.clip_fusion import ClipFusionKind, FusedClip, TokenFusionSettings
from genius.encode.onnx_graph import Graph
from genius.errors import InputError
from genius.model import FORMAT, KIND
from genius.runtime import cores
from genius.search.dense import nearest
from genius.train import distributed
from genius.train.batches import permuted
from genius.train.loop import LoopSettings, train
from genius.train.model_writer import carry_towers
from genius.train.pairs import hit_rate, one_positive_each, other_positives, read_training, read_validation

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TowerLoopSettings(LoopSettings):
    """The loop's settings, with defaults that are gentle enough for trained towers (UniIR's, where it has
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
    fusion_kind: ClipFusionKind = "score"
    """`score`: the sum of the towers' outputs. `tokens`: a small transformer over both towers' tokens."""
    batch: int = 64
    """Queries of a batch, over all processes; each is told from the answers of the others."""
    temperature: float = 0.01
    learn_temperature: bool = True
    upsampled: bool = False
    """Whether the pairs are M-BEIR's own mix, in which small data sets are repeated."""
    fusion: TokenFusionSettings = field(default_factory=TokenFusionSettings)
    """For `tokens`: sizes of the transformer."""
    fusion_learning_rate: float = 5e-4
    """For `tokens`: the transformer begins with random weights, so it learns faster than the towers."""
    device: Literal["cpu", "cuda"] = "cpu"
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the towers' arithmetic in training; weights are kept in float32."""
    validated_queries: int = 200
    """Queries of each task that a validation looks at, at most."""
    validated_items: int = 5000
    """Items among which it looks for their answers, beside these, at most."""
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
        if self.fusion_kind == "score" and self.fusion != TokenFusionSettings():
            raise InputError('fusion is what fusion_kind = "tokens" trains; with "score" there is none')

    @property
    def rates(self) -> dict[str, float]:
        """Learning rates other than the loop's, by the beginning of parameters' names."""
        return {"fusion.": self.fusion_learning_rate}


Record = tuple[Future[np.ndarray] | None, str]
"""A picture that is being prepared, or none, and a text."""


@dataclass(frozen=True)
class Batch:
    """What one turn contrasts: this process's share of queries and of candidates."""

    turn: int
    count: int
    """Queries of all processes."""
    queries: list[Record]
    candidates: list[Record]
    wanted: torch.Tensor
    no_negatives: torch.Tensor


class TowerStage:
    """Contrastive training of both towers, and of what joins them."""

    name = "towers"

    def __init__(self, settings: TowerSettings, tree: Tree, *, seed: int) -> None:
        self.settings, self.tree, self.seed = settings, tree, seed
        self.clip = Clip.open(settings.source, device=settings.device)
        generator = torch.Generator().manual_seed(seed)
        self.embeddings = FusedClip(self.clip, settings.fusion_kind, settings.fusion, generator=generator)
        self.network: torch.nn.Module = self.embeddings
        # CLIP's own scale is what is learned, so that the tuned folder carries it as any CLIP does.
        self.log_scale: torch.nn.Parameter = self.clip.module.logit_scale
        self.log_scale.requires_grad_(settings.learn_temperature)
        torch.nn.init.constant_(self.log_scale, -math.log(settings.temperature))
        self.pairs, self.items = read_training(tree, upsampled=settings.upsampled)
        self.val_tasks, self.val_items = read_validation(
            tree, queries=settings.validated_queries, items=settings.validated_items
        )
        self._readers = ThreadPoolExecutor(cores(), "pictures")
        self._broken: set[str] = set()
        self._next: Batch | None = None

    # --- training

    def loss(self, step: int, part: int) -> torch.Tensor:
        """Contrast of a batch: each query against all of the batch's answers (Eq. 2)."""
        turn = step * self.settings.loop.accumulate + part
        batch = self._next if self._next is not None and self._next.turn == turn else self._batch(turn)
        self._next = self._batch(turn + 1)  # its pictures are read while this one is computed
        queries, items = self._embedded(batch.queries), self._embedded(batch.candidates)
        logits = queries @ distributed.gather(items).T * self.log_scale.exp()
        logits = logits.masked_fill(batch.no_negatives.to(logits.device), -torch.inf)
        loss = functional.cross_entropy(logits, batch.wanted.to(logits.device), reduction="sum")
        return loss / batch.count

    def _batch(self, turn: int) -> Batch:
        """The batch of a turn, a function of the seed and the turn alone."""
        random = np.random.default_rng([self.seed, turn])
        size = min(self.settings.batch, len(self.pairs))
        rows = np.unique(permuted(len(self.pairs), turn * size, size, seed=(self.seed,)))
        chosen = one_positive_each(self.pairs, rows, random)
        candidates, places = np.unique(chosen, return_inverse=True)
        asked = [self._instructed(self.pairs.queries[row], random) for row in rows]
        mine = distributed.share(len(rows))
        wanted = torch.from_numpy(places[mine])
        return Batch(
            turn,
            len(rows),
            [self._query(query) for query in asked[mine]],
            [self._item(self.items[number]) for number in candidates[distributed.share(len(candidates))]],
            wanted,
            other_positives(self.pairs, rows[mine], candidates, wanted),
        )

    def _instructed(self, query: Query, random: np.random.Generator) -> Query:
        """The query under one of its data set's prompts."""
        if not self.tree.instructed or query.task is None:
            return query
        asked_with, wanted = TASK_MODALITIES[query.task]
        prompts = self.tree.instructions.prompts(query.id, query.dataset or "", asked_with, wanted)
        return dataclasses.replace(query, instruction=prompts[random.integers(len(prompts))])

    # --- embedding

    def _query(self, query: Query) -> Record:
        return self._prepared(query.image), query_text(query)

    def _item(self, item: Item) -> Record:
        return self._prepared(item.image), clean(item.text)

    def _prepared(self, image: ImageSource | None) -> Future[np.ndarray] | None:
        return None if image is None else self._readers.submit(self._pixels, image)

    def _pixels(self, image: ImageSource) -> np.ndarray:
        return self.clip.preprocessing.pixels(load(image))

    def _picture(self, prepared: Future[np.ndarray] | None) -> np.ndarray | None:
        """A picture as the tower takes it; one that can't be read is absent, which is said once."""
        try:
            return None if prepared is None else prepared.result()
        except InputError as error:
            if str(error) not in self._broken:
                self._broken.add(str(error))
                log.warning("trained without: %s", error)
            return None

    def _embedded(self, records: Sequence[Record]) -> torch.Tensor:
        """Joined embeddings [n, width] of records."""
        pictures = [self._picture(prepared) for prepared, _ in records]
        pixels = self.clip.stacked([picture for picture in pictures if picture is not None])
        there = torch.tensor([picture is not None for picture in pictures], device=pixels.device)
        low = self.settings.precision == "bfloat16"
        with torch.autocast(pixels.device.type, torch.bfloat16, enabled=low):
            embedded: torch.Tensor = self.network(pixels, there, [text for _, text in records])
        return embedded

    # --- validation

    def validate(self) -> dict[str, float]:
        """Mean hit rate @5 over the tasks, in percent, in the pool that validation has."""
        items = self._vectors(self.val_items)
        rates = []
        for task in self.val_tasks:
            _, found = nearest(self._vectors(task.queries), items, 5)
            rates.append(hit_rate(task, np.arange(len(task)), found))
        return {"score": 100 * float(np.mean(rates))}

    def _vectors(self, records: Sequence[Item] | Sequence[Query]) -> np.ndarray:
        blocks = []
        for start in range(0, len(records), self.settings.batch):
            part = records[start : start + self.settings.batch]
            prepared = [self._query(one) if isinstance(one, Query) else self._item(one) for one in part]
            blocks.append(self._embedded(prepared).float().cpu().numpy())
        return np.concatenate(blocks)


def tune_towers(settings: TowerSettings, tree: Tree, work: Path, *, seed: int) -> Tuned:
    """Fine-tune the recipe's CLIP; stopped, it goes on where it was. The tuned one is left in `work`."""
    stage = TowerStage(settings, tree, seed=seed)
    scores = train(stage, settings.loop, work / "towers", seed=seed, rates=settings.rates)
    log.info("Stage towers: validation score %.1f.", scores["score"])
    folder = work / "clip"
    if distributed.rank() == 0:
        stage.clip.save(folder)
    distributed.wait()
    return Tuned(settings, folder, stage.embeddings, scores)


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned CLIP: its folder, and the network with what joins its towers."""

    settings: TowerSettings
    folder: Path
    network: FusedClip
    scores: dict[str, float]

    def write_model(self, out: Path, recipe: dict[str, Any]) -> None:
        """Write a model that embeds as the towers were tuned to; of several processes the first one does."""
        if distributed.rank() == 0:
            self._write(out, recipe)
        distributed.wait()

    def _write(self, out: Path, recipe: dict[str, Any]) -> None:
        tuned = Clip.open(self.folder)
        content = {
            "stages": ["encoder"],
            "fusion_kind": self.settings.fusion_kind,
            "encoder": {"kind": "clip", "source": "", "fingerprint": tuned.fingerprint},
            "width": self.network.width,
            "fusion": dataclasses.asdict(self.settings.fusion) if self.network.fusion else None,
            "recipe": recipe,
            "validation": {"towers": self.scores},
        }
        made_from = {"clip": self.network.clip.fingerprint}
        with storage.create(out, kind=KIND, format=FORMAT, settings=content, made_from=made_from) as draft:
            carry_towers(self.folder, draft)
            if self.network.fusion is not None:
                weights = {name: w.cpu() for name, w in self.network.fusion.state_dict().items()}
                save_file(weights, draft.folder / "fusion.safetensors")
            else:
                (draft.folder / "items.onnx").write_bytes(sum_graph(self.network.width, "items"))
                (draft.folder / "queries.onnx").write_bytes(sum_graph(self.network.width, "queries"))
            draft.counts["parameters"] = sum(weight.numel() for weight in self.network.parameters())


def sum_graph(width: int, kind: str) -> bytes:
    """The ONNX graph from the features of `items` or `queries` to their sum, of unit length.

    It takes what the graphs of heads take, and has no use for an item's modality or for an instruction, which
    stands before the text already.
    """
    graph = Graph("score-fusion")
    parts = []
    for name in ("image", "text"):
        rows = graph.input(name, np.float32, ("rows", width))
        present = graph.input(f"has_{name}", np.bool_, ("rows",))
        column = graph.node("Unsqueeze", present, np.array([1], np.int64))
        parts.append(graph.node("Where", column, rows, np.float32(0)))
    if kind == "items":
        graph.input("modality", np.int64, ("rows",))
    else:
        graph.input("instruction", np.float32, ("rows", width))
        graph.input("has_instruction", np.bool_, ("rows",))
    total = graph.node("Add", *parts)
    length = graph.node("ReduceL2", total, axes=[1], keepdims=1)
    unit = graph.node("Div", total, graph.node("Max", length, np.float32(1e-12)))
    graph.output("embeddings", unit, ("rows", width))
    return graph.bytes()
