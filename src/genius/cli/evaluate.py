"""`genius evaluate`: a model's figures by M-BEIR's protocol."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genius.cli.examples import examples
from genius.errors import InputError

if TYPE_CHECKING:
    from genius.evaluate.run import Result


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius evaluate TREE -m model/ --split val -o results/",
            "genius evaluate M-BEIR -m model/ --protocol genius",
        )
    )(evaluate)


def evaluate(
    tree: Annotated[Path, typer.Argument(help="The benchmark: an M-BEIR tree.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="The model to evaluate.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write tables, runs and a plot into this folder.")
    ] = None,
    protocol: Annotated[
        str,
        typer.Option(
            help="mbeir: every task and every system; genius: the paper's Tables 1, 2, 8 and 9, with ours in "
            "them."
        ),
    ] = "mbeir",
    pool: Annotated[
        str,
        typer.Option(
            help="The pools to search: local, union or both; or unseen: a task's items that answer no "
            "training query, for the queries that these answer."
        ),
    ] = "both",
    split: Annotated[str, typer.Option(help="The queries: val or test.")] = "test",
    task: Annotated[
        list[str] | None, typer.Option(help="Only this task, such as fashion_task7; repeatable.")
    ] = None,
    system: Annotated[
        list[str] | None, typer.Option(help="Only this system, such as dense or default; repeatable.")
    ] = None,
    mode: Annotated[
        list[str] | None,
        typer.Option(help="Also search in this mode of the engine, such as fast; repeatable."),
    ] = None,
    exclude_query_item: Annotated[
        bool, typer.Option(help="Leave out items with the image or the text of the query.")
    ] = False,
    want: Annotated[
        str | None,
        typer.Option(
            help="Whether searches by code know the wanted modality: known or inferred; by default known, "
            "with --protocol genius inferred."
        ),
    ] = None,
    beams: Annotated[int | None, typer.Option(min=1, help="Beams of searches by code instead of 50.")] = None,
    queries: Annotated[
        int, typer.Option(min=0, help="Search at most so many queries of each task; 0 is all.")
    ] = 0,
    vectors: Annotated[
        Path | None,
        typer.Option(
            help="A folder of embeddings that others extracted (UniIR's .npy, GENIUS's .pt), to be taken "
            "instead of encoding items and queries."
        ),
    ] = None,
    device: Annotated[
        str | None, typer.Option(help="Where a CLIP and the learned decoder run, such as cuda.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line instead.")] = False,
) -> None:
    """Search every task's queries in its local pool and in the union of all pools, and measure."""
    from genius.encode.pipeline import default_cache
    from genius.evaluate.report import write_results
    from genius.evaluate.run import evaluate_model
    from genius.progress import log_to_terminal
    from genius.search.beam import BEAMS

    log_to_terminal()
    _check_choice("protocol", protocol, ("mbeir", "genius"))
    _check_choice("pool", pool, ("local", "union", "both", "unseen"))
    _check_choice("split", split, ("val", "test"))
    _check_choice("want", want or "known", ("known", "inferred"))
    if protocol == "genius":
        _check_published(split, system, mode, exclude_query_item, pool, beams)
    if vectors is not None and exclude_query_item:
        raise InputError("--exclude-query-item compares images and texts, and with --vectors none are read")
    pools: Any = ("local", "union") if pool == "both" else (pool,)
    chosen: Any = split
    by_protocol: Any = protocol
    result = evaluate_model(
        tree,
        model,
        split=chosen,
        pools=pools,
        tasks=task,
        systems=system,
        modes=_modes(mode or ()),
        exclude=exclude_query_item,
        want=None if want is None else want == "known",
        protocol=by_protocol,
        beams=beams or BEAMS,
        sample=queries,
        vectors=vectors,
        device=device,
        cache=default_cache(),
    )
    if not result.evaluation.runs:
        raise InputError(
            f"all answers of its {split} queries are answers in training, too, so that the pool unseen has "
            "nothing to measure: use others (--pool both)",
            path=tree,
        )
    _show(result, pools, as_json=as_json)
    if out is not None:
        write_results(out, result)
        typer.echo(f"results: {out}", err=True)


def _show(result: Result, pools: Sequence[str], *, as_json: bool) -> None:
    """Print the tables or the figures of an evaluation."""
    import orjson

    from genius.evaluate.paper import PaperComparison
    from genius.evaluate.report import table

    comparison = PaperComparison(result) if result.settings["protocol"] == "genius" else None
    if as_json:
        rows = result.evaluation.measurements if comparison is None else comparison.figures()
        for row in rows:
            typer.echo(orjson.dumps(dataclasses.asdict(row)).decode())
    elif comparison is None:
        for name in pools:
            table(result.evaluation, name).print()
    else:
        for shown in comparison.tables():
            shown.print()
        for note in comparison.notes():
            typer.echo(note)


def _check_choice(name: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InputError(f"--{name} should be one of {', '.join(allowed)}, but is {value!r}")


def _check_published(
    split: str,
    system: list[str] | None,
    mode: list[str] | None,
    exclude_query_item: bool,
    pool: str,
    beams: int | None,
) -> None:
    """Raise InputError for what the published figures have no counterpart of."""
    given = {
        "--split val": split != "test",
        "--system": bool(system),
        "--mode": bool(mode),
        "--exclude-query-item": exclude_query_item,
        "--pool unseen": pool == "unseen",
        "--beams": beams is not None,
    }
    for option, is_given in given.items():
        if is_given:
            raise InputError(
                f"{option} has no published figures: leave it out, or leave out --protocol genius"
            )


def _modes(names: Sequence[str]) -> Any:
    from genius.search.engine import MODES

    for name in names:
        if name not in MODES:
            raise InputError(f"unknown mode {name!r}: expected one of {', '.join(MODES)}")
    return tuple(dict.fromkeys(("auto", *names)))
