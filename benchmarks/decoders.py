"""Variants of the learned decoder over the codes of one model, each trained for the same number of steps.

    python benchmarks/decoders.py --tree TREE --model MODEL [--steps 600] [--only NAME …] [--queries 300]
    python benchmarks/decoders.py --tree TREE --model MODEL --split test --final

Embeddings and codes are those of the model. All searches are in the union pool, with the wanted modality
known and a beam of 50. The columns:

- hit rates @5 in percent, plain and re-ranked, means of the tasks
- the share of queries with an answer in the beam after one, two and all semantic codes
- plain hit rates of targets seen and unseen in training, for the tasks that have both
- the milliseconds of a query searched alone by one thread, in the modes `paper` and `fast`

For comparison there are rows for geometry alone, and for a network that decodes the first one or two
semantic codes and leaves the rest to geometry. Trained decoders and figures are kept in --work and not made
again.
"""

from __future__ import annotations

import dataclasses
import statistics
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from figures import FigureFile, print_table, seconds
from options import add_recipe, add_sample_size, add_split, add_tree_and_model, check_split, script_parser
from training import export_decoder, training_digest
from union_pool import K, UnionPool, code_queries, hit_percent, read_splits

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

TIMED_QUERIES = 30
TIMED_MODES: tuple[Mode, ...] = ("paper", "fast")


def sized(layers: int, width: int, heads: int, prefix: int) -> dict[str, Any]:
    """The settings of a network with T5's proportions."""
    inner = {"heads": heads, "head_width": width // heads, "feed_forward": 4 * width, "prefix": prefix}
    return {"layers": layers, "width": width, **inner}


VARIANTS: dict[str, dict[str, Any]] = {
    "as the recipe has it": {},
    "no augmentation": {"mix": "off"},
    "augmentation linear": {"mix": "linear", "per_dimension": False, "clean": 0.5},
    "augmentation sqrt": {"mix": "sqrt", "per_dimension": False, "clean": 0.5},
    "augmentation linear per dimension": {"mix": "linear", "per_dimension": True, "clean": 0.5},
    "augmentation linear, no query clean": {"mix": "linear", "per_dimension": False, "clean": 0.0},
    # Like no augmentation, except for the random draws: how much two rows differ by chance.
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
"""How many semantic codes the recipe's network decodes before geometry takes over."""


def main() -> None:
    """Train and measure every variant, and print."""
    parser = script_parser(__doc__)
    add_tree_and_model(parser, "a trained model; its embeddings and codes are used")
    add_recipe(parser)
    parser.add_argument("--steps", type=int, default=600, help="of training, for each variant (default: 600)")
    add_sample_size(parser, 300)
    names = [GEOMETRY, *VARIANTS, *RELAYS]
    parser.add_argument("--only", nargs="*", choices=names, metavar="NAME", help="; ".join(names))
    parser.add_argument("--work", type=Path, default=Path("out/decoders"), help="where results are kept")
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    tree, model, recipe = Tree(options.tree), Model.open(options.model), read_recipe(options.recipe)
    settings, rows, data = recipe.decoder or DecoderTraining(), [], None
    for name in options.only or names:
        changed = vary(settings, options.steps, **VARIANTS.get(name, {}))
        # Variants with equal settings are trained once; other codes or settings are another run.
        folder = options.work / training_digest(model.quantizer.codebooks, recipe.seed, changed)
        kept, key = FigureFile(folder / "figures.jsonl"), f"{split} {options.queries}"
        if name not in VARIANTS:
            key = f"{key} {name}"
        if key not in kept:
            data = data or read_data(model, tree, split, options.queries)
            kept[key] = measure(data, name, changed, folder, recipe.seed)
        rows.append({"variant": name, "split": split, "steps": options.steps, **kept[key]})
    table = Table(("variant", *(name for name in rows[0] if name not in ("variant", "split", "steps"))))
    for row in rows:
        table.add(row["variant"], *(row[name] for name in table.columns[1:]))
    print_table(table, rows, as_json=options.json)


@dataclass(frozen=True, eq=False)
class SharedData:
    """What all variants share: queries to train and validate by, and the pool with the queries to measure by.

    `seen` says by task whether an answer of each query was an answer in training, bool [queries].
    """

    training: CodedCorpus
    validation: CodedCorpus
    pool: UnionPool
    seen: dict[str, np.ndarray]


def read_data(model: Model, tree: Tree, split: Split, queries: int) -> SharedData:
    """Embed and code what the model was trained on, and at most `queries` queries of each task of a split."""
    view = training_view(tree, model.settings["recipe"])
    training, validation, measured = read_splits(model, view, ("train", 0), ("val", 0), (split, queries))
    coded = code_corpus(model, training)
    coded_validation, coded_measured = (
        code_queries(embedded, coded.vectors, coded.codes, model.query_vectors)
        for embedded in (validation, measured)
    )
    pool = UnionPool(model, coded_measured, union_members(view, measured.pool, split))
    return SharedData(coded, coded_validation, pool, pool.seen(tree))


def measure(
    data: SharedData, name: str, settings: DecoderTraining, folder: Path, seed: int
) -> dict[str, float]:
    """Measure a variant by its name; its decoder is trained unless `folder` has it already."""
    pool, geometry = data.pool, data.pool.model.geometry
    if name == GEOMETRY:
        return measure_hits(pool, geometry, data.seen) | measure_times(pool, geometry)
    all_cores, one_thread = learned(data, settings, folder, seed)
    if name in RELAYS:
        levels = pool.model.quantizer.semantic + RELAYS[name]
        return measure_hits(pool, Relay(all_cores, geometry, levels), data.seen) | measure_times(
            pool, Relay(one_thread, geometry, levels)
        )
    return measure_hits(pool, all_cores, data.seen) | measure_times(pool, one_thread)


def learned(
    data: SharedData, settings: DecoderTraining, folder: Path, seed: int
) -> tuple[OnnxDecoder, OnnxDecoder]:
    """A trained decoder as a search runs it, on all cores and by one thread."""
    model = data.pool.model
    modality_of = model.settings["quantizer"]["modality_of"]
    stage = DecoderStage(settings, model.quantizer, modality_of, data.training, data.validation, seed=seed)
    train(stage, settings.loop, folder, seed=seed)
    return export_decoder(stage), export_decoder(stage, threads=1)


class Relay:
    """A decoder of which `first` scores the first `levels` levels, and `then` the others."""

    def __init__(self, first: Decoder, then: Decoder, levels: int) -> None:
        self.first, self.then, self.levels, self.sizes = first, then, levels, first.sizes

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> RelayState:
        """Start both."""
        first, then = (decoder.begin(vectors, modality_codes) for decoder in (self.first, self.then))
        return RelayState(first, then, self.levels - (0 if modality_codes is None else 1))


class RelayState:
    """One search by both decoders; the first one is no longer advanced when its levels are done."""

    def __init__(self, first: DecodingState, then: DecodingState, levels_left: int) -> None:
        self._first, self._then, self._levels_left = first, then, levels_left

    def scores(self) -> np.ndarray:
        """Log-probabilities [rows, codes] by the decoder of this level."""
        return self._first.scores() if self._levels_left > 0 else self._then.scores()

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down."""
        self._levels_left -= 1
        if self._levels_left > 0:
            self._first.advance(rows, codes)
        self._then.advance(rows, codes)


def vary(settings: DecoderTraining, steps: int, **changes: Any) -> DecoderTraining:
    """The settings with changes to them or to their network, for training of `steps` steps on the CPU."""
    loop = dataclasses.replace(settings.loop, steps=steps, validate_every=steps, save_every=min(steps, 50))
    inner = {key: value for key, value in changes.items() if hasattr(settings.network, key)}
    own = {key: value for key, value in changes.items() if key not in inner}
    network = dataclasses.replace(settings.network, **inner)
    return dataclasses.replace(settings, loop=loop, network=network, device="cpu", **own)


def measure_hits(pool: UnionPool, decoder: Decoder, seen: dict[str, np.ndarray]) -> dict[str, float]:
    """Hit rates and survival by column, in percent."""
    plain, reranked, survival = [], [], []
    by_kind: dict[str, float] = {}
    for task in pool.tasks:
        queries, trace = np.arange(len(task)), pool.search(decoder, task, BEAMS)
        items = trace.plain()
        plain.append(hit_percent(task, queries, items))
        reranked.append(hit_percent(task, queries, trace.reranked()))
        survival.append(pool.survival(trace, task))
        is_seen = seen[str(task.task)]
        if is_seen.any() and not is_seen.all():
            for kind, chosen in (("seen", is_seen), ("unseen", ~is_seen)):
                by_kind[f"{task.task}, {kind}"] = hit_percent(task, queries[chosen], items[chosen])
    after = 100 * np.mean(survival, axis=0)
    first = pool.model.quantizer.semantic
    return {
        "plain": float(np.mean(plain)),
        "re-ranked": float(np.mean(reranked)),
        "after one": float(after[first]),
        "after two": float(after[min(first + 1, len(after) - 1)]),
        "after all": float(after[-1]),
        **by_kind,
    }


def measure_times(pool: UnionPool, decoder: Decoder) -> dict[str, float]:
    """The median milliseconds of a query that is searched alone, by mode, as an index searches."""
    task, engine = pool.tasks[0], pool.engine(decoder)
    times: dict[str, list[float]] = {}
    for query in range(min(TIMED_QUERIES, len(task))):
        vectors = pool.coded.queries[task.task][query : query + 1]
        modality_code = pool.model.modality_codes_for(task.want, 1)
        for mode in TIMED_MODES:
            search = partial(engine.find, vectors, modality_code=modality_code, k=K, beams=BEAMS, mode=mode)
            times.setdefault(f"ms, {mode}", []).append(seconds(search))
    return {name: 1000 * statistics.median(values) for name, values in times.items()}


if __name__ == "__main__":
    main()
