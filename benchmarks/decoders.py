"""What makes a learned decoder good: variants of it over one model's codes, each trained for as many steps.

    python benchmarks/decoders.py --tree TREE --model MODEL [--steps 600] [--only NAME …] [--queries 300]
    python benchmarks/decoders.py --tree TREE --model MODEL --split test --final

Embeddings and codes are the model's. Hit rates @5 in percent, union pool, the wanted modality known, a beam
of 50: plain and re-ranked, means of the tasks; which share of positives survives the beam after one, two and
all semantic codes; plain hit rates of targets seen and unseen in training, for the tasks that have both; and
the milliseconds of a query searched alone by one thread, as published (the mode `paper`) and in the mode
`fast`. Beside the networks: geometry alone, and a network for the first one or two semantic codes whose work
geometry finishes. What is trained is kept in --work and not trained again.
"""

from __future__ import annotations

import argparse
import dataclasses
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from measuring import (
    ROOT,
    Field,
    K,
    Kept,
    add_split,
    check_split,
    exported,
    hit,
    read_splits,
    show,
    trained_on,
)

from genius.corpus.coded import CodedCorpus, code_corpus
from genius.corpus.items import union_members
from genius.corpus.source import training_view
from genius.data.mbeir import Split, Tree
from genius.decode.decoder import Decoder, DecodingState
from genius.decode.onnx_decoder import OnnxDecoder
from genius.display import Table
from genius.model import Model
from genius.search.beam import BEAMS
from genius.search.engine import Mode
from genius.train.decoder import DecoderStage, DecoderTraining
from genius.train.loop import train
from genius.train.run import read_recipe

TIMED = 30
TIMED_MODES: tuple[Mode, ...] = ("paper", "fast")


def sized(layers: int, width: int, heads: int, prefix: int) -> dict[str, Any]:
    """A network of T5's proportions."""
    inner = {"heads": heads, "head_width": width // heads, "feed_forward": 4 * width, "prefix": prefix}
    return {"layers": layers, "width": width, **inner}


VARIANTS: dict[str, dict[str, Any]] = {
    "as the recipe has it": {},
    "no augmentation": {"mix": "off"},
    "augmentation linear": {"mix": "linear", "per_dimension": False, "clean": 0.5},
    "augmentation sqrt": {"mix": "sqrt", "per_dimension": False, "clean": 0.5},
    "augmentation linear per dimension": {"mix": "linear", "per_dimension": True, "clean": 0.5},
    "augmentation linear, no query clean": {"mix": "linear", "per_dimension": False, "clean": 0.0},
    # The same as none, but for what is drawn: how far two rows are apart by chance.
    "augmentation linear, all queries clean": {"mix": "linear", "per_dimension": False, "clean": 1.0},
    "own-code pairs 0": {"own": 0.0},
    "own-code pairs 0.5": {"own": 0.5},
    "own-code pairs 0.95": {"own": 0.95},
    "label smoothing 0.1": {"label_smoothing": 0.1},
    "size 1 × 128": sized(1, 128, 4, 12),
    "size 2 × 192": sized(2, 192, 4, 12),
    "size 3 × 256": sized(3, 256, 4, 20),
    "size 6 × 512 (the paper's)": sized(6, 512, 8, 30),
    "random start instead of codebooks": {"start_from_codebooks": False},
}
GEOMETRY = "geometry alone"
RELAYS = {"one semantic code, then geometry": 1, "two semantic codes, then geometry": 2}
"""By how many codes the recipe's network writes."""


def main() -> None:
    """Train and judge every variant, and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a model whose stages 0 and 1 are taken")
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes" / "minibeir.toml")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--queries", type=int, default=300, help="of each task, at most; 0 is all")
    names = [GEOMETRY, *VARIANTS, *RELAYS]
    parser.add_argument("--only", nargs="*", choices=names, metavar="NAME", help="; ".join(names))
    parser.add_argument("--work", type=Path, default=Path("out/decoders"))
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    tree, model, recipe = Tree(options.tree), Model.open(options.model), read_recipe(options.recipe)
    settings, rows, ground = recipe.decoder or DecoderTraining(), [], None
    for name in options.only or names:
        changed = vary(settings, options.steps, **VARIANTS.get(name, {}))
        # Variants that come to the same are trained once; other codes or another setting are another run.
        folder = options.work / trained_on(model.quantizer.codebooks, recipe.seed, changed)
        kept, key = Kept(folder / "figures.jsonl"), f"{split} {options.queries}"
        if name not in VARIANTS:
            key = f"{key} {name}"
        if key not in kept:
            ground = ground or prepare(model, tree, split, options.queries)
            kept[key] = measure(ground, name, changed, folder, recipe.seed)
        rows.append({"variant": name, "split": split, "steps": options.steps, **kept[key]})
    table = Table(("variant", *(name for name in rows[0] if name not in ("variant", "split", "steps"))))
    for row in rows:
        table.add(row["variant"], *(row[name] for name in table.columns[1:]))
    show(table, rows, as_json=options.json)


@dataclass(frozen=True, eq=False)
class Ground:
    """What all variants share: queries to learn from, to validate by and to be judged by, and the pool."""

    training: CodedCorpus
    validation: CodedCorpus
    field: Field
    seen: dict[str, np.ndarray]


def prepare(model: Model, tree: Tree, split: Split, queries: int) -> Ground:
    """Embed and code what the model was trained on, and up to so many queries of each task of a split."""
    view = training_view(tree, model.settings["recipe"])
    asked, known, judged = read_splits(model, view, ("train", 0), ("val", 0), (split, queries))
    training = code_corpus(model, asked)
    validation, coded = (
        CodedCorpus(
            some,
            training.vectors,
            training.codes,
            {task: model.vectors(parts) for task, parts in some.queries.items()},
        )
        for some in (known, judged)
    )
    field = Field(model, coded, union_members(view, coded.embedded.pool, split))
    return Ground(training, validation, field, field.seen(tree))


def measure(
    ground: Ground, name: str, settings: DecoderTraining, folder: Path, seed: int
) -> dict[str, float]:
    """Train a decoder, unless it is in the folder already, and judge it by itself or before geometry."""
    field, geometry = ground.field, ground.field.model.geometry
    if name == GEOMETRY:
        return judge(field, geometry, ground.seen) | milliseconds(field, geometry)
    many, one = learned(ground, settings, folder, seed)
    if name in RELAYS:
        levels = field.model.quantizer.semantic + RELAYS[name]
        return judge(field, Relay(many, geometry, levels), ground.seen) | milliseconds(
            field, Relay(one, geometry, levels)
        )
    return judge(field, many, ground.seen) | milliseconds(field, one)


def learned(
    ground: Ground, settings: DecoderTraining, folder: Path, seed: int
) -> tuple[OnnxDecoder, OnnxDecoder]:
    """A trained decoder as searching runs it, on all cores and by one thread."""
    model = ground.field.model
    modality_of = model.settings["quantizer"]["modality_of"]
    stage = DecoderStage(
        settings, model.quantizer, modality_of, ground.training, ground.validation, seed=seed
    )
    train(stage, settings.loop, folder, seed=seed)
    return exported(stage), exported(stage, threads=1)


class Relay:
    """A decoder for the first levels, and another one for the others."""

    def __init__(self, first: Decoder, then: Decoder, levels: int) -> None:
        self.first, self.then, self.levels, self.sizes = first, then, levels, first.sizes

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> Relaying:
        """Start both."""
        first, then = (decoder.begin(vectors, modality_codes) for decoder in (self.first, self.then))
        return Relaying(first, then, self.levels - (0 if modality_codes is None else 1))


class Relaying:
    """One search by both; the first one is let go when its levels are done."""

    def __init__(self, first: DecodingState, then: DecodingState, left: int) -> None:
        self._first, self._then, self._left = first, then, left

    def scores(self) -> np.ndarray:
        """By whoever has this level."""
        return self._first.scores() if self._left > 0 else self._then.scores()

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down."""
        self._left -= 1
        if self._left > 0:
            self._first.advance(rows, codes)
        self._then.advance(rows, codes)


def vary(settings: DecoderTraining, steps: int, **changes: Any) -> DecoderTraining:
    """The settings with some of them, or of their network, changed, trained for so many steps on the CPU."""
    loop = dataclasses.replace(settings.loop, steps=steps, validate_every=steps, save_every=min(steps, 50))
    inner = {key: value for key, value in changes.items() if hasattr(settings.network, key)}
    own = {key: value for key, value in changes.items() if key not in inner}
    network = dataclasses.replace(settings.network, **inner)
    return dataclasses.replace(settings, loop=loop, network=network, device="cpu", **own)


def judge(field: Field, decoder: Decoder, seen: dict[str, np.ndarray]) -> dict[str, float]:
    """The figures of a decoder, by column."""
    plain, reranked, survival = [], [], []
    apart: dict[str, float] = {}
    for task in field.tasks:
        queries, searched = np.arange(len(task)), field.search(decoder, task, BEAMS)
        items = searched.plain()
        plain.append(hit(task, queries, items))
        reranked.append(hit(task, queries, searched.reranked()))
        survival.append(field.survival(searched, task))
        is_seen = seen[str(task.task)]
        if is_seen.any() and not is_seen.all():
            for kind, chosen in (("seen", is_seen), ("unseen", ~is_seen)):
                apart[f"{task.task}, {kind}"] = hit(task, queries[chosen], items[chosen])
    after = 100 * np.mean(survival, axis=0)
    first = field.model.quantizer.semantic
    return {
        "plain": float(np.mean(plain)),
        "re-ranked": float(np.mean(reranked)),
        "after one": float(after[first]),
        "after two": float(after[min(first + 1, len(after) - 1)]),
        "after all": float(after[-1]),
        **apart,
    }


def milliseconds(field: Field, decoder: Decoder) -> dict[str, float]:
    """The median time of a query that is searched alone, by mode, as an index searches."""
    task, engine = field.tasks[0], field.engine(decoder)
    times: dict[str, list[float]] = {}
    for query in range(min(TIMED, len(task))):
        vectors = field.coded.queries[task.task][query : query + 1]
        for mode in TIMED_MODES:
            start = time.perf_counter()
            modality_code = field.model.modality_codes_for(task.want, 1)
            engine.find(vectors, modality_code=modality_code, k=K, beams=BEAMS, mode=mode)
            times.setdefault(f"ms, {mode}", []).append(time.perf_counter() - start)
    return {name: 1000 * statistics.median(seconds) for name, seconds in times.items()}


if __name__ == "__main__":
    main()
