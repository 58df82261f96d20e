"""Fine-tunes a CLIP on a tree, and writes what comes out: a CLIP's folder, and a model without heads."""

from __future__ import annotations

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.torch import save_file

from genius import storage
from genius.data.mbeir import Tree
from genius.encode.clip import Clip
from genius.encode.joined_clip import JoinedClip
from genius.encode.onnx_graph import Graph
from genius.model import FORMAT, KIND
from genius.train import distributed
from genius.train.loop import train
from genius.train.model_writer import carry_towers
from genius.train.towers import TowerSettings, TowerStage

log = logging.getLogger(__name__)


def tune_towers(settings: TowerSettings, tree: Tree, work: Path, *, seed: int) -> Tuned:
    """Fine-tune the recipe's CLIP; stopped, it goes on where it was. The tuned one is left in `work`."""
    stage = TowerStage(settings, tree, seed=seed)
    scores = train(stage, settings.loop, work / "towers", seed=seed, rates=settings.rates)
    log.info("Stage towers: validation score %.1f.", scores["score"])
    folder = work / "clip"
    if distributed.rank() == 0:
        stage.clip.save(folder)
    distributed.wait()
    return Tuned(settings, folder, stage.joined, scores)


@dataclass(frozen=True)
class Tuned:
    """A fine-tuned CLIP: its folder, and the network with what joins its towers."""

    settings: TowerSettings
    folder: Path
    network: JoinedClip
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
            "joining": self.settings.joining,
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
    graph.output("joined", unit, ("rows", width))
    return graph.bytes()
