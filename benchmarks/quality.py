"""Trains a model where it is not trained yet, evaluates it, and prints a JSON line for each figure.

    python benchmarks/quality.py --tree TREE [--recipe recipes/minibeir.toml] [--model M] [--seed 0]
    python benchmarks/quality.py --tree TREE --final      # the test split; exits 1 when a bar is missed
    python benchmarks/quality.py --tree TREE --recipe recipes/paper.toml --force [--final]

Without --final only the validation split is used, which everything is tuned on. With --final the quantizer
is also trained a second time, beside the model, with a learned modality code, whose purity is a bar. Bars
and the table of seen and unseen targets go to stderr. Of the published recipes (`paper`, `reference`) only
dense search and the systems of their codes and decoder are measured; neither bars nor the doctor check
them, nor rivals (`recipes/rivals/`).
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from bars import INFERRED, UNSEEN, Verdict, beside_geometry, judge_search, memorised, seen_and_unseen
from figures import verdict_line
from options import ROOT, add_tree, script_parser
from seeds import DENSE_BASELINE, LEARNED
from training import add_training, recipe_of

from genius.data.mbeir import Split, Tree
from genius.doctor.examine import examine
from genius.doctor.health import Health
from genius.encode.pipeline import default_cache
from genius.evaluate.protocol import Evaluation
from genius.evaluate.run import evaluate_model
from genius.model import Model
from genius.search.engine import Mode
from genius.train.run import Recipe, train_model

PUBLISHED = ("paper", "reference")
PUBLISHED_SYSTEMS = ("dense", DENSE_BASELINE, *LEARNED)
"""The systems that are measured of a published recipe."""
MODES: tuple[Mode, ...] = ("auto", "fast")
"""The modes that have systems of their own: `auto` is the system `default`."""
# name of the bar: system, pool, task, least value in percent of hit@5
BARS = {
    "dense, wanted modality": (DENSE_BASELINE, "union", "mean", 39.0),
    "dense, union pool": ("dense", "union", "mean", 37.5),
    "image to image, fashion": (DENSE_BASELINE, "union", "fashion_task4", 38.8),
    "image to image, grocery": (DENSE_BASELINE, "union", "grocery_task4", 70.4),
    "text to text": (DENSE_BASELINE, "union", "flickr8k_task1", 57.2),
}
MOST_WRONG_MODALITY = 5.0
# of the quantizer, test split, union pool
LEAST_PURITY = 0.99
LEAST_USE = 0.9
LEAST_OWN_CODE = 0.99
LEAST_KEPT = 0.99
LEAST_SURVIVAL = (0.97, 0.75, 0.66)
ALL = 10**9


def main() -> int:
    """Train, evaluate and print; with --final the exit code says whether the bars were held."""
    parser = script_parser(__doc__)
    add_tree(parser)
    add_training(parser)
    parser.add_argument("--final", action="store_true", help="use the test split instead of validation")
    parser.add_argument(
        "--without-learned", action="store_true", help="leave out the bar of the learned modality code"
    )
    options = parser.parse_args()
    recipe, tree = recipe_of(options), Tree(options.tree)
    model = options.model or ROOT / "out" / f"{recipe.name}-{recipe.seed}"
    train_model(recipe, tree, model, cache=default_cache(), force=options.force)
    split: Split = "test" if options.final else "val"
    published = recipe.name in PUBLISHED
    judged = not published and recipe.identifiers == "codes"
    evaluation = evaluate_model(
        options.tree,
        model,
        split=split,
        cache=default_cache(),
        systems=PUBLISHED_SYSTEMS if published else None,
        modes=MODES,
    ).evaluation
    for measured in evaluation.measurements:
        print(json.dumps(dataclasses.asdict(measured)))
    if recipe.quantizer is not None:
        print_inferred(options.tree, model, split, None if judged else LEARNED[1:])
    wrong = wrong_modality(evaluation, tree)
    print_union("dense", {"wrong_modality": wrong})
    health = measure_health(tree, model, split) if recipe.quantizer is not None and judged else None
    if health is not None:
        print_health("quantizer", health)
        print_unseen(evaluation, tree, split)
    print(seen_and_unseen(evaluation).markdown(), file=sys.stderr)
    if not options.final or not judged:
        return 0
    verdicts = judge_dense(evaluation, wrong)
    if health is not None:
        verdicts += judge_search(evaluation, tree, split) + judge_codes(health)
        if not options.without_learned:
            verdicts.append(judge_learned_modality_code(recipe, tree, model, split))
    for sentence, held in verdicts:
        print(verdict_line(sentence, held), file=sys.stderr)
    return int(not all(held for _, held in verdicts))


# --- figures


def print_union(system: str, figures: Mapping[str, float], task: str = "mean") -> None:
    """Print figures of the union pool as JSON lines."""
    for metric, value in figures.items():
        print(json.dumps({"system": system, "pool": "union", "task": task, "metric": metric, "value": value}))


def print_inferred(tree: Path, model: Path, split: Split, systems: Sequence[str] | None) -> None:
    """Print figures of the union pool for searches that do not know the wanted modality.

    They are those of the given systems, or of all that search by beams.
    """
    beamed = ["geometry", "default", *(["genius"] if "decoder" in Model.open(model).stages else [])]
    systems = systems or [*beamed, *(f"{name}+rerank" for name in beamed)]
    evaluation = evaluate_model(
        tree, model, split=split, cache=default_cache(), pools=["union"], systems=systems, want=False
    ).evaluation
    for measured in evaluation.measurements:
        print(json.dumps({**dataclasses.asdict(measured), "system": f"{measured.system}{INFERRED}"}))


def print_unseen(evaluation: Evaluation, tree: Tree, split: Split) -> None:
    """Print by how much `default` finds more unseen targets than `geometry`."""
    for task, seen in memorised(evaluation).items():
        if not seen.all():
            difference = beside_geometry(evaluation, task, ~seen, tree.judgements(split, task))
            print_union(UNSEEN, dataclasses.asdict(difference), str(task))


def measure_health(tree: Tree, model: Path, split: Split) -> Health:
    """The health of a model's codes, by all queries of the split."""
    return examine(tree, Model.open(model), cache=default_cache(), split=split, queries=ALL).health


def print_health(system: str, health: Health) -> None:
    """Print what the doctor measured."""
    figures = {
        "embeddings": health.embeddings,
        "vectors": health.vectors,
        "codes": health.codes,
        "purity": health.purity,
        "own_code": health.buckets.own_code,
        "cosine": health.cosine,
        "ceiling": health.ceiling,
    }
    levels = zip(health.levels, health.survival_given, health.survival_inferred, strict=True)
    for number, (level, given, inferred) in enumerate(levels, start=1):
        figures[f"used_{number}"] = level.used
        figures[f"survival_{number}"] = given
        figures[f"survival_inferred_{number}"] = inferred
    print_union(system, figures)


def wrong_modality(evaluation: Evaluation, tree: Tree) -> float:
    """The percentage of the top five of `dense` in the union pool that are of a wrong modality: the mean over
    tasks."""
    modality = {item.id: item.modality for item in tree}
    shares = []
    for run in evaluation.runs:
        if (run.system, run.pool) == ("dense", "union"):
            top_five = [item for results in run.results.values() for item, _ in results[:5]]
            shares.append(sum(modality[item] is not run.task.target for item in top_five) / len(top_five))
    return 100 * sum(shares) / len(shares)


# --- bars


def judge_dense(evaluation: Evaluation, wrong: float) -> list[Verdict]:
    """A sentence for each bar of dense search, and whether it was held."""
    verdicts = [
        (f"wrong modality in the top five: {wrong:.2f} < {MOST_WRONG_MODALITY}", wrong < MOST_WRONG_MODALITY)
    ]
    tasks = {"mean", *(measured.task for measured in evaluation.measurements)}
    for name, (system, pool, task, bar) in BARS.items():
        if task not in tasks:  # of another benchmark
            continue
        value = 100 * evaluation.value(system, pool, task, "hit@5")
        verdicts.append((f"{name}: {value:.2f} >= {bar}", value >= bar))
    return verdicts


def judge_codes(health: Health) -> list[Verdict]:
    """A sentence for each bar of the quantizer, and whether it was held."""
    first, survival = health.code_spec.first_semantic_level, health.survival_given
    used = min(level.used for level in health.levels[first : first + 4])
    own, kept = health.buckets.own_code, health.recall_kept
    verdicts = [
        (f"codes used at the first four semantic levels: {used:.3f} >= {LEAST_USE}", used >= LEAST_USE),
        (f"distinct contents with a code of their own: {own:.4f} >= {LEAST_OWN_CODE}", own >= LEAST_OWN_CODE),
        (f"codes alone, share of the dense baseline: {kept:.3f} >= {LEAST_KEPT}", kept >= LEAST_KEPT),
    ]
    after = survival[first], survival[first + 1], survival[-1]
    for name, value, bar in zip(("one", "two", "all"), after, LEAST_SURVIVAL, strict=True):
        verdicts.append((f"survival after {name} semantic: {value:.3f} >= {bar}", value >= bar))
    return verdicts


def judge_learned_modality_code(recipe: Recipe, tree: Tree, model: Path, split: Split) -> Verdict:
    """The bar of the purity of a learned modality code; prints the health of those codes, too."""
    health = measure_health(tree, train_learned(recipe, tree, model), split)
    print_health("quantizer, first code learned", health)
    sentence = f"purity of the learned modality code: {health.purity:.4f} >= {LEAST_PURITY}"
    return sentence, health.purity >= LEAST_PURITY


def train_learned(recipe: Recipe, tree: Tree, model: Path) -> Path:
    """The same model with a learned modality code and without a decoder; its embeddings are taken over."""
    assert recipe.quantizer is not None
    if recipe.quantizer.codebooks.modality_code == "learned":
        return model
    codebooks = dataclasses.replace(recipe.quantizer.codebooks, modality_code="learned")
    quantizer = dataclasses.replace(recipe.quantizer, codebooks=codebooks)
    changed = dataclasses.replace(recipe, quantizer=quantizer, decoder=None)
    out = model.with_name(f"{model.name}-learned")
    if not out.exists():
        shutil.copytree(model, out)
    train_model(changed, tree, out, cache=default_cache())
    return out


if __name__ == "__main__":
    sys.exit(main())
