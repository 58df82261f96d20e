"""Kills of merges and exports, moves to another model, whole artifacts, checkpoints, the feature cache."""

from __future__ import annotations

import random
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np

from genius import storage
from genius.data.content_key import content_key
from genius.encode.feature_cache import FeatureCache
from genius.index.catalogue import Catalogue
from genius.index.recode import begin_recoding, recode_items
from genius.index.segments import SegmentFormat
from genius.model import Model
from tests.faults import killed_merges
from tests.faults.planned_changes import content_of
from tests.index.made_up import GIVEN, made_up_items
from tests.index.made_up_index import MadeUpModel, made, open_made_up
from torture.killing import Acknowledge, Killer
from torture.kills import kill_scenario
from torture.scenario import Outcome, Scenario, Trial, scratch, seeded
from torture.specimens import CACHE_WIDTH


def prepare_merges(folder: Path) -> Trial:
    """Two indexes that are merged, and the result exported, with its images."""
    killed_merges.make(folder / "a", 0, 5)
    killed_merges.make(folder / "b", 5, 12)
    killer = Killer(folder)
    killer.measure(lambda name: killed_merges.work(folder, folder / name.replace(" ", "-")))

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        out, whole = scratch(folder) / "out", 0
        for _ in range(3):
            how, _ = killer.kill(lambda _: killed_merges.work(folder, out), dice, outcome, "done")
            index, table = killed_merges.state(out)
            outcome.expect(2 not in (index, table), f"{how}: index {index}, table {table} (2 is half done)")
            outcome.expect(index >= whole, f"{how}: the merged index is gone")
            whole = index
            if table:
                break

    return trial


class OtherModel(MadeUpModel):
    """A model that an index is moved to; its codes are the same."""

    name, fingerprint = "other", "other"

    def prepare(self, *, offline: bool = False) -> None:
        """It needs nothing."""


def prepare_recode(folder: Path) -> Trial:
    """A collection that moves to another model, again and again until all of it has."""
    items = made_up_items(40)
    old = made(folder / "old", items)
    expected = content_of(old)
    killer = Killer(folder)
    killer.measure(lambda name: _recode(old, folder / name.replace(" ", "-"), lambda: None))

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        out = scratch(folder) / "new"

        def held(how: str) -> int:
            found = content_of(out) if out.exists() else {}
            same = all(found[id] == expected.get(id) for id in found)
            outcome.expect(same, f"{how}: items were altered on the way")
            return len(found)

        killer.complete(partial(_recode, old, out), dice, outcome, held, len(items))

    return trial


def _recode(old: Path, out: Path, acknowledge: Acknowledge) -> None:
    catalogue, model = Catalogue(old), cast(Model, OtherModel())
    format = SegmentFormat(GIVEN.sizes, GIVEN.semantic, GIVEN.modality_given, "int8")
    try:
        begin_recoding(catalogue, model, out, format)
        with open_made_up(out) as target:
            recode_items(catalogue, target._catalogue, target.add)
    finally:
        catalogue.close()
    acknowledge()


def prepare_artifacts(folder: Path) -> Trial:
    """An artifact that is replaced; every file of version n holds n, so a mixture would show."""
    killer = Killer(folder)
    write_version(folder / "measured", 0)
    killer.measure(lambda _: write_version(folder / "measured", 1))

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        path = scratch(folder) / "artifact"
        killer.replace(partial(write_version, path), partial(version_of, path), dice, outcome)
        write_version(path, 9)
        left = [entry.name for entry in path.parent.iterdir()]
        outcome.expect(left == ["artifact"], f"what killed writers left behind stays: {left}")

    return trial


def write_version(path: Path, version: int) -> None:
    """Replace an artifact by one of a version."""
    with storage.create(path, kind="test", format=1) as draft:
        for name in ("a", "b", "c"):
            (draft.folder / name).write_bytes(str(version).encode() * 20_000)
        draft.counts["version"] = version


def version_of(path: Path) -> int:
    """The version of an artifact, -1 if its files are of several."""
    artifact = storage.open(path, verify=True)
    version = int(artifact.manifest.counts["version"])
    contents = {artifact.file(name).read_bytes() for name in ("a", "b", "c")}
    return version if contents == {str(version).encode() * 20_000} else -1


def prepare_checkpoints(folder: Path) -> Trial:
    """A checkpoint of a training that is replaced at each step; all its numbers are the step's."""
    import torch

    from genius.train import checkpoint

    torch.set_num_threads(1)

    def save(path: Path, step: int) -> None:
        network = torch.nn.Linear(20, 20)
        torch.nn.init.constant_(network.weight, step)
        torch.nn.init.constant_(network.bias, step)
        average = {name: value.detach().clone() for name, value in network.state_dict().items()}
        checkpoint.save(path, network, average, None, {"step": step})

    def load(path: Path) -> int:
        """The step of a checkpoint, -1 if it is of several."""
        network = torch.nn.Linear(20, 20)
        average = {name: value.detach().clone() for name, value in network.state_dict().items()}
        state = checkpoint.load(path, network, average)
        values = {float(state["step"])}
        for tensor in (*network.state_dict().values(), *average.values()):
            values |= set(tensor.flatten().tolist())
        return int(state["step"]) if len(values) == 1 else -1

    killer = Killer(folder)
    save(folder / "measured", 0)
    killer.measure(lambda _: save(folder / "measured", 1))

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        path = scratch(folder) / "last"
        killer.replace(partial(save, path), partial(load, path), dice, outcome)

    return trial


def prepare_cache(folder: Path) -> Trial:
    """A feature cache that grows block by block."""
    killer = Killer(folder)
    killer.measure(lambda name: _grow(folder / name.replace(" ", "-"), 0, lambda: None))

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        path, sure = scratch(folder) / "cache", set[int]()
        for start in range(0, 3 * BLOCKS, BLOCKS):
            how, done = killer.kill(partial(_grow, path, start), dice, outcome, "filled")
            sure |= set(range(start, start + done))
            check_cache(outcome, path, sure, start + BLOCKS, how)

    return trial


BLOCKS, IN_BLOCK = 4, 30


def block(number: int) -> tuple[list[bytes], np.ndarray]:
    """Made-up features, with their keys."""
    keys = [content_key(f"{number} {place}".encode()) for place in range(IN_BLOCK)]
    return keys, np.random.default_rng(number).normal(size=(IN_BLOCK, CACHE_WIDTH)).astype(np.float16)


def _grow(path: Path, start: int, acknowledge: Acknowledge) -> None:
    with FeatureCache(path, CACHE_WIDTH) as cache:
        for number in range(start, start + BLOCKS):
            cache.add(*block(number))
            acknowledge()


def check_cache(outcome: Outcome, path: Path, sure: set[int], end: int, how: str) -> None:
    """Whether a cache has the blocks that are sure to be there, and gives none altered."""
    with FeatureCache(path, CACHE_WIDTH) as cache:
        for number in range(end):
            keys, rows = block(number)
            missing = set(cache.missing(keys))
            outcome.expect(not (missing and number in sure), f"{how}: features of block {number} were lost")
            there = [place for place in range(IN_BLOCK) if place not in missing]
            same = np.array_equal(cache.rows([keys[place] for place in there]), rows[there])
            outcome.expect(same, f"{how}: features of block {number} are altered")


def _made(name: str, promise: str, goal: int, prepare: Any, **more: Any) -> Scenario:
    return kill_scenario(name, promise, goal, prepare, **({"share": 2} | more))


MERGES = _made(
    "kill-merges", "A merged index and an exported table are whole or absent.", 500, prepare_merges
)
RECODE = _made(
    "kill-recode", "A collection that moves to another model goes on where it was.", 500, prepare_recode
)
ARTIFACTS = _made(
    "kill-artifacts", "A replaced artifact is the old one or the new one.", 500, prepare_artifacts
)
CHECKPOINTS = _made(
    "kill-checkpoints", "A training's checkpoint is the last one or the new one.", 500, prepare_checkpoints
)
CACHE = _made("kill-cache", "Features that were stored stay, and none is altered.", 500, prepare_cache)
