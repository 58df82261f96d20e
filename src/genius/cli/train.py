"""`genius train`: trains a model from pairs or by a recipe, stage by stage, resumably."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from genius.cli.examples import examples
from genius.cli.source import GpusPerWorker, Ray

if TYPE_CHECKING:
    from genius.data.mbeir import Tree
    from genius.train.recipe import Recipe

WAYS_IN = (
    "say what to train on: --pairs TABLE (queries and the items that answer them, or photos with captions), "
    "or a recipe and --tree TREE (an M-BEIR tree); without any labels, genius fit makes a model from a "
    "collection alone, and genius index needs no training at all"
)


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples("genius train --pairs pairs.csv -o model/", "genius train demo --tree TREE -o model/")
    )(train)


def train(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write the model; a dry run needs none.")
    ] = None,
    recipe: Annotated[
        Path | None,
        typer.Argument(
            help="A TOML file that says how to train, or the name of one that ships with genius: demo, "
            "rivals/pro."
        ),
    ] = None,
    tree: Annotated[Path | None, typer.Option(help="The M-BEIR tree to train on.")] = None,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Instead of recipe and tree: a table with the columns query, query_image, item, item_image "
            "(those that you have), or photos with captions."
        ),
    ] = None,
    root: Annotated[
        Path | None, typer.Option(help="The folder of the images of --pairs, if not beside it.")
    ] = None,
    start: Annotated[
        str | None, typer.Option(help="With --pairs: the model to start from; by default photo.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="A seed instead of the recipe's.")] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Say what would be done and what it takes, and stop."),
    ] = False,
    gpu: Annotated[
        str | None,
        typer.Option(
            help="With --dry-run: the GPU to count hours for, such as A100; by default RTX 3090, if the "
            "recipe uses any."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Train a decoder even if the doctor calls its quantizer broken.")
    ] = False,
    ray: Ray = None,
    workers: Annotated[
        int, typer.Option(help="With --ray: the number of processes; 0 is one per GPU, or per machine.")
    ] = 0,
    gpus_per_worker: GpusPerWorker = 0.0,
) -> None:
    """Train a model, on pairs of your own or by a recipe; an interrupted run resumes."""
    import dataclasses

    from genius.errors import InputError, require

    if pairs is not None and (recipe is not None or tree is not None):
        raise InputError("--pairs stands alone: it needs neither a recipe nor a tree")
    if pairs is None and (recipe is None or tree is None):
        raise InputError(WAYS_IN)
    if ray is not None and pairs is not None:
        raise InputError("--pairs trains on this machine, and --ray by a recipe and a tree")
    if ray is None and (workers or gpus_per_worker):
        raise InputError("--workers and --gpus-per-worker go with --ray ADDRESS")
    if out is None and not dry_run:
        raise InputError("say where to write the model: -o MODEL")
    source = _open_tree(tree) if tree is not None else None
    require("torch", "train", "training")
    from genius.model import DEFAULT, KIND
    from genius.progress import log_to_terminal
    from genius.storage import check_target
    from genius.train.run import read_recipe

    log_to_terminal(verbose=True)
    out = out or Path("model")
    check_target(out, kind=KIND)
    if pairs is not None:
        _train_on_pairs(pairs, root, out, start or DEFAULT, seed or 0, dry_run)
        return
    assert recipe is not None and source is not None
    chosen = read_recipe(recipe)
    if seed is not None:
        chosen = dataclasses.replace(chosen, seed=seed)
    together = None if ray is None else Together(ray, workers, gpus_per_worker)
    _train(chosen, source, out, dry_run=dry_run, force=force, gpu=gpu, together=together)


class Together(NamedTuple):
    """How several processes train together on a Ray cluster."""

    address: str
    workers: int
    gpus_per_worker: float

    def run(self, train: Callable[[], Any], out: Path) -> None:
        """Have all of them train."""
        from genius.cluster.ray_train import train_on_cluster

        storage = out.with_name(f"{out.name}-training") / "ray"
        train_on_cluster(
            self.address, train, storage, workers=self.workers, gpus_per_worker=self.gpus_per_worker
        )


def _train(
    recipe: Recipe,
    tree: Tree,
    out: Path,
    *,
    dry_run: bool,
    force: bool = False,
    gpu: str | None = None,
    together: Together | None = None,
) -> None:
    """Say what will be done, and do it unless this is a dry run."""
    import functools

    from genius.encode.pipeline import default_cache
    from genius.model import Model
    from genius.train.cost import cost_lines, find_gpu
    from genius.train.run import duration, plan, train_model

    stages = (recipe.towers, recipe.quantizer, recipe.decoder)
    on_gpu = gpu is not None or any(stage is not None and stage.device == "cuda" for stage in stages)
    costs = cost_lines(recipe, out, find_gpu(gpu or "RTX 3090")) if on_gpu else []
    estimate = [duration(recipe, out)] if dry_run else []  # a real run tells by its first steps
    for line in (*plan(recipe, out), *estimate, *costs):
        if line:
            typer.echo(line)
    if not dry_run:
        out = out.absolute()  # other processes have other working folders
        run = functools.partial(train_model, recipe, tree, out, cache=default_cache(), force=force)
        run() if together is None else together.run(run, out)
        model = Model.open(out)
        typer.echo(f"{model.path}: a model with the stages {', '.join(model.stages)}")


def _train_on_pairs(source: Path, root: Path | None, out: Path, start: str, seed: int, dry_run: bool) -> None:
    """Train on pairs, and say how much better than the start the model finds those that were held out."""
    import contextlib
    import tempfile

    from genius.cli.source import show_failures
    from genius.data.collection import Failures
    from genius.errors import InputError
    from genius.model import Model
    from genius.train.fine_tuning import compare_on_held_out, fine_tuning_recipe, prepare_pairs

    failures = Failures()
    Model.open(start)  # before anything is read or written
    with tempfile.TemporaryDirectory(prefix="genius-pairs-") as scratch:
        folder = Path(scratch) / "tree" if dry_run else out.with_name(f"{out.name}-training") / "tree"
        try:
            data = prepare_pairs(source, folder, failures.add, root=root)
        except InputError:
            show_failures((failures,))  # why nothing is left
            if not dry_run:
                with contextlib.suppress(OSError):
                    folder.parent.rmdir()  # unless an earlier run left something there
            raise
        typer.echo(
            f"{source}: {data.train_queries:,} queries to train on, {data.val_queries:,} held out, "
            f"{data.items:,} items"
        )
        show_failures((failures,))
        _train(fine_tuning_recipe(data, start=start, seed=seed), data.tree, out, dry_run=dry_run)
        if not dry_run:
            before, after = compare_on_held_out(data, start, out)
            typer.echo(
                f"Of the {data.val_queries:,} held-out queries, {after:.1%} have a right item among the "
                f"first five; with {start} as it was, {before:.1%}."
            )


def _open_tree(path: Path) -> Tree:
    """The tree, before anything is measured or loaded. Raises InputError that says how to get one."""
    from genius.data.mbeir import Tree, is_tree
    from genius.errors import InputError

    if not path.exists():
        raise InputError("there is no such folder", path=path)
    if not is_tree(path):
        raise InputError(
            "is no M-BEIR tree (a folder with query/ and cand_pool/); a table or a folder of images with "
            "captions is trained on with --pairs",
            path=path,
        )
    return Tree(path.absolute())
