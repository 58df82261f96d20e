"""The paper's findings on the quantizer (its Tables 4 to 6), at our scale: one row for each thing left out.

    python benchmarks/findings.py --tree TREE --model MODEL [--steps 200] [--only NAME …]
    python benchmarks/findings.py --tree TREE --model MODEL --decoder-steps 600 [--queries 300]
    python benchmarks/findings.py --tree TREE --model MODEL --split test --final

Every variant is trained anew over the model's stage 0, for the same number of steps, and searches the union
pool without being told the wanted modality: by codes alone (exhaustively) and by beams scored by geometry.
With --decoder-steps a learned decoder is trained over each variant's codes, too, and searches by beams; then
there is also a row for one that is trained without query augmentation. Prints a Markdown table, and a JSON
line for each row with --json. Stopped, it goes on where it was.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from measuring import ROOT, add_split, check_split, exported, read_splits, trained_on

from genius.corpus.coded import CodedCorpus
from genius.corpus.embedded import EmbeddedCorpus
from genius.corpus.source import training_view
from genius.data.mbeir import Tree
from genius.data.records import Modality
from genius.data.tasks import Task
from genius.decode.decoder import Decoder
from genius.decode.geometry import Geometry
from genius.doctor.codes import confusion, purity
from genius.model import Model
from genius.search.code_pool import CodePool
from genius.search.dense import nearest
from genius.train.decoder import DecoderStage, DecoderTraining
from genius.train.loop import train
from genius.train.pairs import hit_rate
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from genius.train.run import read_recipe

AS_IT_IS = "as the recipe has it (modality given)"
NOT_AUGMENTED = "no augmentation"
WRONG, PURITY = "wrong modality by codes", "purity of the first semantic code"
VARIANTS: dict[str, dict[str, Any]] = {
    AS_IT_IS: {},
    NOT_AUGMENTED: {},  # the same codes, learned by a decoder that sees queries as they are
    "modality code learned": {"modality_code": "learned"},
    "modality code by a classifier": {"modality_code": "classifier"},
    "no modality code": {"modality_code": "none"},
    "no L_cl": {"contrast": 0.0},
    "no L_cl, no L_mse": {"contrast": 0.0, "gamma": 0.0},
    "no L_mse": {"gamma": 0.0},
    "shared codebooks": {"shared": True, "sizes": ()},
    "published fusion (no joined embedding)": {"with_embedding": False},
    "K = 256, M = 9": {"size": 256, "sizes": ()},
    "K = 256, M = 5": {"size": 256, "sizes": (), "levels": 4},
    "K = 1024, M = 5": {"sizes": (), "levels": 4},
    "K = 1024, M = 7": {"sizes": (), "levels": 6},
    "K = 1024, M = 9": {"sizes": ()},
    "K = 4096, M = 5": {"size": 4096, "sizes": (), "levels": 4},
}


def main() -> None:
    """Train every variant and print what it finds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tree", type=Path, required=True)
    parser.add_argument("--model", type=Path, required=True, help="a model whose stage 0 is taken")
    parser.add_argument("--recipe", type=Path, default=ROOT / "recipes" / "minibeir.toml")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument(
        "--decoder-steps", type=int, default=0, help="of a decoder for each variant; 0 is off"
    )
    parser.add_argument("--queries", type=int, default=0, help="of each task, at most; 0 is all")
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS))
    parser.add_argument("--work", type=Path, default=Path("out/findings"))
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    model, recipe = Model.open(options.model), read_recipe(options.recipe)
    tree = training_view(Tree(options.tree), model.settings["recipe"])
    settings = recipe.quantizer or QuantizerSettings()
    training, validation, judged = read_splits(
        model, tree, ("train", 0), ("val", 0), (split, options.queries)
    )
    systems = ["codes", "geometry", *(["learned"] if options.decoder_steps else [])]
    columns = [name for system in systems for name in (system, f"{system}, text → image")] + [WRONG, PURITY]
    print("| | " + " | ".join(columns) + " |")
    print("|---|" + "---:|" * len(columns), flush=True)
    for name in options.only or VARIANTS:
        if name == NOT_AUGMENTED and not options.decoder_steps:
            continue
        changed = vary(settings, options.steps, **VARIANTS[name])
        stage = QuantizerStage(changed, training, validation, seed=recipe.seed)
        # Variants that come to the same are trained once; another model or setting is another run.
        folder = options.work / trained_on([training.items.embeddings], recipe.seed, changed)
        train(stage, changed.loop, folder, seed=recipe.seed)
        learned = None
        if options.decoder_steps:
            decoding = decoder_settings(recipe.decoder, options.decoder_steps, name != NOT_AUGMENTED)
            learned = train_decoder(stage, decoding, training, validation, options.work, recipe.seed)
        figures = judge(stage, judged, learned)
        print(f"| {name} | " + " | ".join(f"{figures[column]:.1f}" for column in columns) + " |", flush=True)
        if options.json:
            print(json.dumps({"variant": name, "split": split, **figures}, ensure_ascii=False), flush=True)


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


def decoder_settings(settings: DecoderTraining | None, steps: int, augmented: bool) -> DecoderTraining:
    """The recipe's decoder or the usual one, trained for so many steps on the CPU, validated at the end."""
    settings = settings or DecoderTraining()
    loop = dataclasses.replace(settings.loop, steps=steps, validate_every=steps, save_every=min(steps, 50))
    mix = settings.mix if augmented else "off"
    # (Variants differ in their levels, so that weights of these would not fit.)
    return dataclasses.replace(settings, loop=loop, mix=mix, level_weights=(), device="cpu")


def train_decoder(
    stage: QuantizerStage,
    settings: DecoderTraining,
    training: EmbeddedCorpus,
    validation: EmbeddedCorpus,
    work: Path,
    seed: int,
) -> Decoder:
    """A decoder that learned the codes of a variant; what is trained already is read from `work`."""
    quantizer, vectors = stage.quantizer(), stage.all_vectors(training.items)
    codes = quantizer.codes(vectors, training.pool.modality)
    asked, known = (
        CodedCorpus(
            some, vectors, codes, {task: stage.all_vectors(parts) for task, parts in some.queries.items()}
        )
        for some in (training, validation)
    )
    learned = DecoderStage(settings, quantizer, stage.code_quality().modality_of, asked, known, seed=seed)
    train(
        learned, settings.loop, work / f"decoder-{trained_on(quantizer.codebooks, seed, settings)}", seed=seed
    )
    return exported(learned)


def judge(stage: QuantizerStage, judged: EmbeddedCorpus, learned: Decoder | None = None) -> dict[str, float]:
    """Figures in percent: hit rates @5 in the union pool by codes and by each decoder, the mean of all tasks,
    that of text → image, and each task's; how many of the five best by codes are of the wrong modality; and
    how many items have a first semantic code that stands for their modality."""
    quantizer, modality = stage.quantizer(), judged.pool.modality
    codes = quantizer.codes(stage.all_vectors(judged.items), modality)
    units, pool = quantizer.units(codes), CodePool(codes, quantizer.codebooks, quantizer.semantic)
    decoders: dict[str, Decoder] = {
        "geometry": Geometry(quantizer.codebooks, stage.code_quality().temperature)
    }
    if learned is not None:
        decoders["learned"] = learned
    hits: dict[str, dict[Task, float]] = {}
    wrong = []
    for task in judged.tasks.values():
        vectors = stage.all_vectors(judged.queries[task.task])
        results = {"codes": nearest(vectors, units, 5)[1]}
        for name, decoder in decoders.items():
            positives = [task.positives(query) for query in range(len(task))]
            results[name] = pool.search(decoder, vectors, positives)[0]
        for system, found in results.items():
            hit = 100 * hit_rate(task, np.arange(len(task)), found)
            hits.setdefault(system, {})[task.task] = hit
        wrong.append(100 * float((modality[results["codes"]] != task.want).mean()))
    level = quantizer.semantic
    table = confusion(codes[:, level], modality, quantizer.sizes[level])
    figures = {WRONG: float(np.mean(wrong)), PURITY: 100 * purity(table)}
    for system, by_task in hits.items():
        pictures = [hit for task, hit in by_task.items() if is_text_to_image(task)]
        figures[system] = float(np.mean(list(by_task.values())))
        figures[f"{system}, text → image"] = float(np.mean(pictures)) if pictures else 0.0
        figures |= {f"{system}, {task}": hit for task, hit in by_task.items()}
    return figures


def is_text_to_image(task: Task) -> bool:
    """Whether texts ask for pictures: what loses most in the paper without a modality code."""
    return (task.query, task.target) == (Modality.TEXT, Modality.IMAGE)


if __name__ == "__main__":
    main()
