"""The paper's findings on the quantizer (its Tables 4 to 6), at our scale: one row for each thing left out.

    python benchmarks/findings.py --tree TREE --model MODEL [--split val] [--steps 200] [--only NAME …]

Every variant is trained anew over the model's stage 0, for the same number of steps, and searches the union
pool without being told the wanted modality: by codes alone (exhaustively) and by beams scored by geometry.
Prints a Markdown table, and a JSON line for each figure with --json. Stopped, it goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np

from genius.data.mbeir import Tree
from genius.data.records import Modality
from genius.decode.geometry import Geometry
from genius.encode.corpus import read_pool, read_queries
from genius.encode.pipeline import default_cache
from genius.evaluate.embedded import Embedded, embed
from genius.evaluate.run import corpus_source
from genius.model import Model
from genius.search.beam import BEAMS, beam_search, ranked_items
from genius.search.exact import nearest
from genius.search.trie import Trie
from genius.train.loop import train
from genius.train.pairs import hit_rate
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from genius.train.run import read_recipe

ROOT = Path(__file__).parents[1]
VARIANTS: dict[str, dict[str, Any]] = {
    "as the recipe has it (modality given)": {},
    "modality code learned": {"first": "learned"},
    "modality code by a classifier": {"first": "classifier"},
    "no modality code": {"first": "none"},
    "no L_cl": {"contrast": 0.0},
    "no L_cl, no L_mse": {"contrast": 0.0, "gamma": 0.0},
    "no L_mse": {"gamma": 0.0},
    "shared codebooks": {"shared": True},
    "published fusion (no joined embedding)": {"joined": False},
    "K = 256, M = 9": {"size": 256},
    "K = 256, M = 5": {"size": 256, "levels": 4},
    "K = 1024, M = 5": {"levels": 4},
    "K = 1024, M = 7": {"levels": 6},
    "K = 4096, M = 5": {"size": 4096, "levels": 4},
}


def main() -> None:
    """Train every variant and print what it finds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a model whose stage 0 is taken")
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes" / "minibeir.toml")
    parser.add_argument("--split", choices=("val", "test"), default="val")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS))
    parser.add_argument("--work", type=Path, default=Path("out/findings"))
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    tree, model = Tree(options.tree), Model.open(options.model)
    recipe = read_recipe(options.recipe)
    settings = recipe.quantizer or QuantizerSettings()
    source = corpus_source(model, tree, default_cache())
    pool = read_pool(tree, source)
    asked, known, judged_tasks = (
        read_queries(tree, source, pool, split, apart=model.instruction_apart)
        for split in ("train", "val", options.split)
    )
    training = embed(model, source, pool, asked)
    validation, judged = (
        embed(model, source, pool, tasks, items=training.items) for tasks in (known, judged_tasks)
    )
    print("| | codes | text → image | geometry | text → image |\n|---|---:|---:|---:|---:|")
    for name in options.only or VARIANTS:
        changed = vary(settings, options.steps, **VARIANTS[name])
        stage = QuantizerStage(changed, training, validation, seed=recipe.seed)
        folder = options.work / f"{options.steps}-{''.join(c if c.isalnum() else '-' for c in name)}"
        train(stage, changed.loop, folder, seed=recipe.seed)
        figures = judge(stage, judged)
        print(f"| {name} | " + " | ".join(f"{value:.1f}" for value in figures.values()) + " |", flush=True)
        if options.json:
            print(json.dumps({"variant": name, "split": options.split, **figures}), flush=True)


def vary(settings: QuantizerSettings, steps: int, **changes: Any) -> QuantizerSettings:
    """The settings with some of them, or of their codebooks or fusion, changed, trained for so many steps."""
    loop = dataclasses.replace(settings.loop, steps=steps, validate_every=steps, save_every=steps)
    inner = {
        name: dataclasses.replace(
            part, **{key: value for key, value in changes.items() if hasattr(part, key)}
        )
        for name, part in (("codebooks", settings.codebooks), ("fusion", settings.fusion))
    }
    own = {key: value for key, value in changes.items() if hasattr(settings, key)}
    return dataclasses.replace(settings, loop=loop, **inner, **own)


def judge(stage: QuantizerStage, judged: Embedded) -> dict[str, float]:
    """Mean hit rate @5 of all tasks and of text → image, in the union pool, by codes and by geometry."""
    quantizer, modality = stage.quantizer(), judged.pool.modality
    codes = quantizer.codes(stage.all_vectors(judged.items), modality)
    units, trie = quantizer.units(codes), Trie.build(codes)
    decoder = Geometry(quantizer.codebooks, stage.check().temperature)
    hits: dict[str, dict[bool, list[float]]] = {"codes": {}, "geometry": {}}
    for task in judged.tasks.values():
        rows = np.arange(len(task))
        vectors = stage.all_vectors(judged.queries[task.task])
        by_codes = nearest(vectors, units, 5)[1]
        by_beam = ranked_items(trie, beam_search(decoder, trie, vectors, BEAMS), 5)[1]
        pictures = (task.task.query, task.task.target) == (Modality.TEXT, Modality.IMAGE)
        for system, found in (("codes", by_codes), ("geometry", by_beam)):
            hits[system].setdefault(pictures, []).append(100 * hit_rate(task, rows, found))
    return {
        key: float(np.mean(value))
        for system, by_kind in hits.items()
        for key, value in (
            (system, by_kind.get(False, []) + by_kind.get(True, [])),
            (f"{system}, text → image", by_kind.get(True, [0.0])),
        )
    }


if __name__ == "__main__":
    main()
