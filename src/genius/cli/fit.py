"""`genius fit`: a searchable model from any encoder and a collection without labels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genius.cli.examples import examples

if TYPE_CHECKING:
    from genius.data.collection import Collection
    from genius.model import Model


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("genius fit photos/ --encoder clip:openai/clip-vit-base-patch32 -o model/"))(
        fit
    )


def fit(
    source: Annotated[
        Path, typer.Argument(help="A collection: folder, JSONL, CSV, Parquet, tar, or a file of vectors.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")],
    # The model that ships, without importing the module that names it; a test compares them.
    encoder: Annotated[
        str,
        typer.Option(
            help="photo, the folder of a model, of CLIP, SigLIP or sentence-transformers, clip:NAME or "
            "sentence-transformers:NAME of the hub, or precomputed."
        ),
    ] = "photo",
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="For the encoder precomputed: a file of the items' vectors with their ids (.npy, .npz, "
            ".safetensors, Parquet)."
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="The number of processes that encode; 0 is one per core.")] = 0,
    root: Annotated[
        Path | None, typer.Option(help="The folder of a table's images, if not beside it.")
    ] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first item that can't be read.")] = False,
    seed: Annotated[int, typer.Option(help="The seed of what is drawn at random.")] = 0,
    learn: Annotated[
        bool,
        typer.Option(
            "--learn",
            help="First train the encoder's heads on what the collection says of itself: captions, titles, "
            "alt texts, names of files and folders.",
        ),
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Fetch nothing, not even the built-in encoder on first use.")
    ] = False,
    trust_remote_code: Annotated[
        bool,
        typer.Option("--trust-remote-code", help="Run the Python code of a sentence-transformers model."),
    ] = False,
) -> None:
    """Fit a model to the items of SOURCE by an encoder; no queries and no labels are needed.

    Codebooks are fitted to the collection itself, in minutes. The model finds what exact search by the
    encoder would find, as closely as the printed overlap says.
    """
    from genius.cli.source import show_failures, show_notes
    from genius.data.read import read
    from genius.data.vectors import is_vector_file
    from genius.encode.feature_pools import open_vectors
    from genius.errors import InputError
    from genius.fit.run import fit_model
    from genius.progress import log_to_terminal
    from genius.runtime import cores

    if encoder != "precomputed" and (vectors or is_vector_file(source)):
        raise InputError("vectors of your own are for --encoder precomputed", path=vectors or source)
    log_to_terminal(verbose=learn)
    table = None if vectors is None else open_vectors(vectors)
    collection = read(source, root=root, strict=strict, vectors=table)
    base = _learn(collection, encoder, out, seed) if learn else encoder
    fitted = fit_model(
        collection,
        base,
        out,
        workers=workers or cores(),
        seed=seed,
        strict=strict,
        trust_remote_code=trust_remote_code,
        offline=offline,
    )
    codes = " × ".join(map(str, fitted.model.quantizer.sizes))
    read_items = fitted.total - fitted.failures.count
    drawn = "" if fitted.items >= read_items else f" drawn from {fitted.total:,}"
    typer.echo(f"{out}: a model fitted to {fitted.items:,} items{drawn}; codes {codes}")
    if fitted.codes_overlap:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in fitted.codes_overlap.items())
        typer.echo(f"of the ten nearest by exact search, codes alone keep: {shares}; re-ranking, nearly all")
    show_failures((collection.failures, fitted.failures))
    show_notes(collection.notes)
    given = f" --vectors {vectors}" if vectors else ""
    typer.echo(f"next: genius index {source}{given} -m {out} -o index/")


def _learn(collection: Collection, encoder: str, out: Path, seed: int) -> Model:
    """The encoder with heads that learned from the collection's own pairs."""
    from genius.cli.source import show_failures
    from genius.data.collection import Failures
    from genius.errors import require

    require("torch", "train", "learning from a collection")
    from genius.train.weak_supervision import learn_from

    failures = Failures()
    work = out.with_name(f"{out.name}-training")
    model, data = learn_from(collection, encoder, work, report=failures.add, seed=seed)
    typer.echo(
        f"learned from {data.train_queries:,} pairs that the collection holds, {data.val_queries:,} held out"
    )
    show_failures((failures,))
    return model
