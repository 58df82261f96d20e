"""`genius doctor`: whether a model's codes are good, and if not, where recall is lost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from genius.cli.examples import examples
from genius.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("genius doctor model/ --source photos/", "genius doctor model/ --tree TREE"))(
        doctor
    )


def doctor(
    model: Annotated[Path, typer.Argument(help="The model to examine; it needs its quantizer stage.")],
    tree: Annotated[Path | None, typer.Option(help="Queries with answers: an M-BEIR tree.")] = None,
    source: Annotated[
        Path | None,
        typer.Option(help="A collection without queries, to compare the model with exact search on."),
    ] = None,
    vectors: Annotated[
        Path | None,
        typer.Option(help="With --source: the items' own vectors, if the model was fitted on such."),
    ] = None,
    split: Annotated[str, typer.Option(help="The queries: train, val or test.")] = "val",
    queries: Annotated[int, typer.Option(min=1, help="The most queries of a task.")] = 500,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
    plots: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Write plots, a map, and sheets of the items of some codes here."
        ),
    ] = None,
    code: Annotated[
        list[str] | None,
        typer.Option(help="With --plots: show the items of this code, as in '*,17'; repeatable."),
    ] = None,
) -> None:
    """Examine a model's codes: their use, recall step by step, what survives the beam, and a verdict.

    By the queries of a --tree; or, without any, by how much of exact search over a --source it keeps. Exits
    with 1 if the model is broken. docs/doctor.md explains each figure.
    """
    import orjson

    from genius.data.mbeir import SPLITS, Tree
    from genius.doctor.examine import examine
    from genius.doctor.report import as_json as json_of
    from genius.doctor.report import tables, write_report_images
    from genius.doctor.sheets import parse_pattern
    from genius.encode.pipeline import default_cache
    from genius.model import Model
    from genius.progress import log_to_terminal

    log_to_terminal()
    if (tree is None) == (source is None):
        raise InputError("give --tree TREE, with queries and answers, or --source SOURCE, without any")
    if source is not None:
        _examine_source(model, source, vectors, queries, as_json)
        return
    if split not in SPLITS:
        raise InputError(f"--split should be one of {', '.join(SPLITS)}, but is {split!r}")
    if code and plots is None:
        raise InputError("--code chooses what is shown: say with --plots where to put it")
    patterns = [parse_pattern(text) for text in code or ()]
    chosen: Any = split
    assert tree is not None
    examined = examine(Tree(tree), Model.open(model), cache=default_cache(), split=chosen, queries=queries)
    if as_json:
        typer.echo(orjson.dumps(json_of(examined.health, examined.verdict)).decode())
    else:
        for table in tables(examined.health):
            table.print()
        _print_verdict(examined.verdict)
    if plots is not None:
        for path in write_report_images(examined, plots, patterns):
            typer.echo(path, err=True)
    if examined.verdict.state == "broken":
        raise typer.Exit(1)


def _examine_source(model: Path, source: Path, vectors: Path | None, queries: int, as_json: bool) -> None:
    """Print how much of exact search a model keeps on a collection, and the verdict."""
    import orjson

    from genius.data.read import read
    from genius.doctor.unlabelled import examine_unlabelled, judge_overlap, overlap_json, overlap_table
    from genius.encode.pipeline import default_cache
    from genius.model import Model
    from genius.runtime import cores

    items = read(source, vectors=vectors)
    opened = Model.open(model)
    overlap = examine_unlabelled(items, opened, cache=default_cache(), workers=cores(), queries=queries)
    verdict = judge_overlap(overlap)
    if as_json:
        typer.echo(orjson.dumps(overlap_json(overlap, verdict)).decode())
    else:
        overlap_table(overlap).print()
        _print_verdict(verdict)
    if verdict.state == "broken":
        raise typer.Exit(1)


def _print_verdict(verdict: Any) -> None:
    """Print the verdict with its reasons, and what to change."""
    colours = {"healthy": "green", "weak": "yellow", "broken": "red"}
    typer.secho(verdict.summary, fg=colours[verdict.state], bold=True)
    for name, reasons in (("because", verdict.reasons), ("by the way", verdict.advice)):
        for reason in reasons:
            typer.echo(f"  {name}: {reason.finding}\n      {reason.change}")
