"""`genius import`: a model of genius from files that others published."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from genius.cli.examples import examples

Normalisation = Literal["vocabulary", "level"]
"""As `genius.decode.onnx_decoder` has it, without importing that."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        "import",
        epilog=examples(
            "genius import --clip clip_sf_large.pth --quantizer rq_clip_large.pth "
            "--decoder GENIUS_t5small.pth --tokenizer openai/clip-vit-large-patch14 -o model/"
        ),
    )(import_model)


def import_model(
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")],
    clip: Annotated[
        Path | None, typer.Option(help="UniIR's CLIP with score fusion: clip_sf_large.pth.")
    ] = None,
    blip: Annotated[
        Path | None,
        typer.Option(help="UniIR's BLIP, with feature fusion or score fusion: blip_ff_large.pth."),
    ] = None,
    quantizer: Annotated[
        Path | None, typer.Option(help="GENIUS's fusion and codebooks: rq_clip_large.pth.")
    ] = None,
    decoder: Annotated[Path | None, typer.Option(help="GENIUS's decoder: GENIUS_t5small.pth.")] = None,
    encoder: Annotated[
        str,
        typer.Option(help="precomputed, in place of --clip: items and queries bring their features along."),
    ] = "",
    tokenizer: Annotated[
        str | None,
        typer.Option(
            help="The folder of any Hugging Face CLIP, or its name on the hub, for CLIP's tokenizer; for a "
            "BLIP, that of bert-base-uncased. By default the folder of the CLIP or BLIP."
        ),
    ] = None,
    normalisation: Annotated[
        Normalisation,
        typer.Option(
            help="Of the decoder's log-probabilities: over the whole vocabulary, as published, or the level."
        ),
    ] = "vocabulary",
) -> None:
    """Make a model of published files: CLIP or BLIP alone is a dense model, CLIP with the quantizer codes and
    searches by geometry, with the decoder it is GENIUS.

    Nothing in the files is executed. All names and shapes are checked before anything is written.
    """
    from genius.errors import InputError, require

    require("torch", "train", "importing a model")
    from genius.published.run import PRECOMPUTED, ImportedFiles
    from genius.published.run import import_model as import_published

    if encoder not in ("", PRECOMPUTED):
        raise InputError(
            f"there is no encoder {encoder!r} to import: give {PRECOMPUTED}, or a CLIP by --clip"
        )
    if (encoder != "") + (clip is not None) + (blip is not None) != 1:
        raise InputError(
            "features come from a CLIP or a BLIP, or are given: say --clip FILE, or --encoder precomputed, "
            "or --blip FILE, and only one of them"
        )
    files = ImportedFiles(clip, quantizer, decoder, tokenizer, blip)
    model = import_published(files, out, normalisation=normalisation, tell=typer.echo)
    what = {1: "a dense model", 2: "a model that searches by geometry", 3: "GENIUS"}[len(model.stages)]
    typer.echo(f"{out}: {what}")
    if len(model.stages) > 1:
        mode = " --mode paper" if len(model.stages) > 2 else ""
        typer.echo(f'next: genius index SOURCE -m {out} -o index/, then genius search index/ "…"{mode}')
    else:
        more = "" if blip else ", or import a quantizer, too"
        typer.echo(f"next: genius fit SOURCE --encoder {out} -o fitted/{more}")
