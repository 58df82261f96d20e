"""The paper's findings on the quantizer (its Tables 4 to 6), at our scale: a row for each change.

    python benchmarks/findings.py --tree TREE --model MODEL [--steps 200] [--only NAME …]
    python benchmarks/findings.py --tree TREE --model MODEL --decoder-steps 600 [--queries 300]
    python benchmarks/findings.py --tree TREE --model MODEL --split test --final

Every variant is trained on the embeddings of the model (its stage 0), for the same number of steps. Queries
are searched in the union pool without knowing the wanted modality: exhaustively by codes alone, and by
beams that geometry scores. With --decoder-steps a learned decoder is trained over each variant's codes and
searches by beams, too, and there is a row for a decoder that is trained without query augmentation. Prints
a Markdown table, and with --json a JSON line for each row. When it is stopped and started again, it
continues.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
from options import add_recipe, add_sample_size, add_split, add_tree_and_model, check_split, script_parser
from training import export_decoder, training_digest
from union_pool import code_queries, hit_percent, read_splits

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
from genius.train.quantizer import QuantizerSettings, QuantizerStage
from genius.train.run import read_recipe

UNCHANGED = "as the recipe has it (modality given)"
NOT_AUGMENTED = "no augmentation"
WRONG, PURITY = "wrong modality by codes", "purity of the first semantic code"
VARIANTS: dict[str, dict[str, Any]] = {
    UNCHANGED: {},
    NOT_AUGMENTED: {},  # the same codes, for a decoder that is trained on queries as they are
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
    """Train every variant, and print its figures."""
    parser = script_parser(__doc__)
    add_tree_and_model(parser, "a trained model; its embeddings are used")
    add_recipe(parser)
    parser.add_argument("--steps", type=int, default=200, help="of training, for each variant (default: 200)")
    parser.add_argument(
        "--decoder-steps", type=int, default=0, help="of training a decoder for each variant; 0 is none"
    )
    add_sample_size(parser, 0)
    parser.add_argument("--only", nargs="*", choices=list(VARIANTS), metavar="NAME", help="; ".join(VARIANTS))
    parser.add_argument("--work", type=Path, default=Path("out/findings"), help="where training is kept")
    add_split(parser)
    options = parser.parse_args()
    split = check_split(parser, options)
    model, recipe = Model.open(options.model), read_recipe(options.recipe)
    tree = training_view(Tree(options.tree), model.settings["recipe"])
    settings = recipe.quantizer or QuantizerSettings()
    training, validation, measured = read_splits(
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
        # Variants with equal settings are trained once; another model or setting is another run.
        folder = options.work / training_digest([training.items.embeddings], recipe.seed, changed)
        train(stage, changed.loop, folder, seed=recipe.seed)
        learned = None
        if options.decoder_steps:
            decoding = decoder_settings(recipe.decoder, options.decoder_steps, name != NOT_AUGMENTED)
            learned = train_decoder(stage, decoding, training, validation, options.work, recipe.seed)
        figures = measure(stage, measured, learned)
        print(f"| {name} | " + " | ".join(f"{figures[column]:.1f}" for column in columns) + " |", flush=True)
        if options.json:
            print(json.dumps({"variant": name, "split": split, **figures}, ensure_ascii=False), flush=True)


def vary(settings: QuantizerSettings, steps: int, **changes: Any) -> QuantizerSettings:
    """The settings with changes to them, their codebooks or their fusion, for training of `steps` steps."""
    loop = dataclasses.replace(settings.loop, steps=steps, validate_every=steps, save_every=steps)
    codebooks, fusion = (
        {key: value for key, value in changes.items() if hasattr(inner, key)}
        for inner in (settings.codebooks, settings.fusion)
    )
    own = {key: value for key, value in changes.items() if key not in codebooks | fusion}
    return dataclasses.replace(
        settings,
        loop=loop,
        codebooks=dataclasses.replace(settings.codebooks, **codebooks),
        fusion=dataclasses.replace(settings.fusion, **fusion),
        **own,
    )


def decoder_settings(settings: DecoderTraining | None, steps: int, augmented: bool) -> DecoderTraining:
    """The recipe's decoder or the default one, for training of `steps` steps on the CPU."""
    settings = settings or DecoderTraining()
    loop = dataclasses.replace(settings.loop, steps=steps, validate_every=steps, save_every=min(steps, 50))
    mix = settings.mix if augmented else "off"
    # Without weights of levels: variants differ in their number of levels.
    return dataclasses.replace(settings, loop=loop, mix=mix, level_weights=(), device="cpu")


def train_decoder(
    stage: QuantizerStage,
    settings: DecoderTraining,
    training: EmbeddedCorpus,
    validation: EmbeddedCorpus,
    work: Path,
    seed: int,
) -> Decoder:
    """A decoder trained on the codes of a variant; one that was trained before is read from `work`."""
    quantizer, vectors = stage.quantizer(), stage.all_vectors(training.items)
    codes = quantizer.codes(vectors, training.pool.modality)
    coded, coded_validation = (
        code_queries(embedded, vectors, codes, stage.all_vectors) for embedded in (training, validation)
    )
    modality_of = stage.code_quality().modality_of
    decoder_stage = DecoderStage(settings, quantizer, modality_of, coded, coded_validation, seed=seed)
    folder = work / f"decoder-{training_digest(quantizer.codebooks, seed, settings)}"
    train(decoder_stage, settings.loop, folder, seed=seed)
    return export_decoder(decoder_stage)


def measure(
    stage: QuantizerStage, measured: EmbeddedCorpus, learned: Decoder | None = None
) -> dict[str, float]:
    """Figures in percent, by column.

    Hit rates @5 by codes and by each decoder: the mean of all tasks, that of text → image, and each task's.
    Of the five best results by codes, how many are of the wrong modality. And how many items have a first
    semantic code that stands for their modality.
    """
    quantizer, modality = stage.quantizer(), measured.pool.modality
    codes = quantizer.codes(stage.all_vectors(measured.items), modality)
    units, pool = quantizer.units(codes), CodePool(codes, quantizer.codebooks, quantizer.semantic)
    decoders: dict[str, Decoder] = {
        "geometry": Geometry(quantizer.codebooks, stage.code_quality().temperature)
    }
    if learned is not None:
        decoders["learned"] = learned
    hits: dict[str, dict[Task, float]] = {}
    wrong = []
    for task in measured.tasks.values():
        vectors = stage.all_vectors(measured.queries[task.task])
        results = {"codes": nearest(vectors, units, 5)[1]}
        for name, decoder in decoders.items():
            positives = [task.positives(query) for query in range(len(task))]
            results[name] = pool.search(decoder, vectors, positives)[0]
        for system, items in results.items():
            hit = hit_percent(task, np.arange(len(task)), items)
            hits.setdefault(system, {})[task.task] = hit
        wrong.append(100 * float((modality[results["codes"]] != task.want).mean()))
    level = quantizer.semantic
    table = confusion(codes[:, level], modality, quantizer.sizes[level])
    figures = {WRONG: float(np.mean(wrong)), PURITY: 100 * purity(table)}
    for system, by_task in hits.items():
        text_to_image = [hit for task, hit in by_task.items() if is_text_to_image(task)]
        figures[system] = float(np.mean(list(by_task.values())))
        figures[f"{system}, text → image"] = float(np.mean(text_to_image)) if text_to_image else 0.0
        figures |= {f"{system}, {task}": hit for task, hit in by_task.items()}
    return figures


def is_text_to_image(task: Task) -> bool:
    """Whether texts ask for images: the tasks that lose most in the paper without a modality code."""
    return (task.query, task.target) == (Modality.TEXT, Modality.IMAGE)


if __name__ == "__main__":
    main()
