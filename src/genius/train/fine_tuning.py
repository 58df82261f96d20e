"""Training from a spreadsheet: pairs of queries and items become a model that starts from another one.

Sizes follow from the amount of data, so that nobody needs a recipe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from genius import atomic
from genius.data.mbeir import Tree
from genius.data.pair_table import read_pairs
from genius.data.pairs import write_pairs_tree
from genius.encode.pipeline import default_cache
from genius.errors import InputError
from genius.evaluate.run import evaluate_model
from genius.model import DEFAULT, Model, model_folder
from genius.quantize.codebooks import CodebookSettings
from genius.train.heads import EncoderSettings
from genius.train.loop import LoopSettings
from genius.train.quantizer import QuantizerLoopSettings, QuantizerSettings
from genius.train.quantizer_start import can_start_codes
from genius.train.recipe import Recipe

EPOCHS = 12
"""Times that the heads see a query."""
MIN_STEPS, MAX_STEPS = 60, 900


@dataclass(frozen=True)
class PairData:
    """Pairs as a tree to train on, and how much there is of it."""

    tree: Tree
    train_queries: int
    val_queries: int
    items: int


def prepare_pairs(
    source: Path, folder: Path, report: Callable[[InputError], None], *, root: Path | None = None
) -> PairData:
    """Write the pairs of a table or collection as an M-BEIR tree to `folder`; what can't be read goes to
    `report`.

    A tenth of the items is held out for validation, unless the table says which.
    """
    with atomic.write_folder(folder) as draft:
        write_pairs_tree(draft, read_pairs(source, report, root=root), report=report)
    tree = Tree(folder)
    counts = {split: sum(1 for _ in tree.queries(split)) for split in ("train", "val")}
    return PairData(tree, counts["train"], counts["val"], sum(1 for _ in tree))


def fine_tuning_recipe(data: PairData, *, start: str = DEFAULT, seed: int = 0) -> Recipe:
    """A recipe for so much data: heads and codes that start from a model's, at a low rate."""
    batch = max(2, min(512, data.train_queries // 4))
    steps = _within(EPOCHS * data.train_queries // batch, MIN_STEPS, MAX_STEPS)
    every = max(20, steps // 6)
    return Recipe(
        name="pairs",
        seed=seed,
        encoder=EncoderSettings(
            start=start,
            batch=batch,
            negatives=min(256, data.items),
            task_power=1.0,
            loop=LoopSettings(
                steps=steps,
                learning_rate=2e-4,
                weight_decay=0.0,
                warm_up=max(1, steps // 10),
                clip=2.0,
                average=0.98,
                validate_first=True,
                validate_every=every,
                save_every=every,
            ),
        ),
        quantizer=_quantizer_settings(data, start, steps),
    )


def _quantizer_settings(data: PairData, start: str, steps: int) -> QuantizerSettings:
    """Codes that start from the model's, which know far more items than a table has; or new ones, if it has
    none to start from. Validation keeps those of the start where training makes them worse."""
    can_start = can_start_codes(Model.open(start))
    every = max(20, steps // 4)
    return QuantizerSettings(
        start=start if can_start else "",
        batch=max(2, min(1024, data.train_queries)),
        others=min(1024, data.items),
        gamma=2000.0,
        settle=1.0 if can_start else QuantizerSettings.settle,  # codes that the table lacks stay as they are
        codebooks=CodebookSettings(size=code_size(data.items), beams=4),
        loop=QuantizerLoopSettings(
            steps=_within(steps, MIN_STEPS, 300),
            learning_rate=1e-4 if can_start else QuantizerLoopSettings.learning_rate,
            warm_up=20,
            validate_first=can_start,
            validate_every=every,
            save_every=every,
        ),
    )


def compare_on_held_out(data: PairData, start: str, model: Path) -> tuple[float, float]:
    """The hit rate @5 of the start and of the trained model, over the held-out queries."""
    rates = []
    for path in (model_folder(start), model):
        result = evaluate_model(
            data.tree, path, split="val", cache=default_cache(), pools=["local"], systems=["default+rerank"]
        )
        rows = [row for row in result.evaluation.measurements if row.metric == "hit@5" and row.task != "mean"]
        rates.append(sum(row.value * row.queries for row in rows) / sum(row.queries for row in rows))
    return rates[0], rates[1]


def code_size(items: int) -> int:
    """Codes of a level for so many items: a power of two, a sixteenth of them.

    >>> code_size(100), code_size(2_000), code_size(1_000_000)
    (16, 128, 1024)
    """
    return int(_within(1 << max(0, round(items / 16)).bit_length(), 16, 1024))


def _within(value: int, least: int, most: int) -> int:
    return max(least, min(value, most))
