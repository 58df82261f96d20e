"""`genius train`: trains a model from a recipe, stage by stage, resumably."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from genius.data.mbeir import Tree


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

    source = _open_tree(tree)
    require("torch", "train", "training")
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
    model = train_model(chosen, source, out, cache=default_cache(), force=force)
    typer.echo(f"{model.path}: a model with the stages {', '.join(model.stages)}")


def _open_tree(path: Path) -> Tree:
    """The tree, before anything is measured or loaded. Raises InputError that says how to get one."""
    from genius.data.mbeir import Tree, is_tree
    from genius.errors import InputError

    if path.exists() and not is_tree(path):
        raise InputError(
            "is no M-BEIR tree (a folder with query/ and cand_pool/); docs/training.md has ten lines of "
            "Python that make one from a table or a folder of images with captions",
            path=path,
        )
    return Tree(path)
