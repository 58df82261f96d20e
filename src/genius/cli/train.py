"""`genius train`: trains a model from a recipe, stage by stage, resumably."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius train recipes/demo.toml --tree TREE -o model/")(train)


def train(
    recipe: Annotated[
        Path,
        typer.Argument(
            help="A TOML file that says how to train, or the name of one that ships with genius: demo."
        ),
    ],
    tree: Annotated[Path, typer.Option(help="The M-BEIR tree to train on.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Where to write the model.")],
    seed: Annotated[int | None, typer.Option(help="A seed instead of the recipe's.")] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Train a decoder even if the doctor calls its quantizer broken.")
    ] = False,
) -> None:
    """Train a model; an interrupted run resumes, and finished stages are skipped."""
    import dataclasses

    from genius.errors import require

    require("torch", "train", "training")
    from genius.data.mbeir import Tree
    from genius.encode.pipeline import default_cache
    from genius.progress import log_to_terminal
    from genius.train.run import duration, plan, read_recipe, train_model

    log_to_terminal(verbose=True)
    chosen = read_recipe(recipe)
    if seed is not None:
        chosen = dataclasses.replace(chosen, seed=seed)
    for line in (*plan(chosen, out), duration(chosen, out)):
        if line:
            typer.echo(line)
    model = train_model(chosen, Tree(tree), out, cache=default_cache(), force=force)
    typer.echo(f"{model.path}: a model with the stages {', '.join(model.stages)}")
