"""`genius evaluate`: a model's figures by M-BEIR's protocol."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

import typer

from genius.errors import InputError


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius evaluate TREE -m model/ --split val -o results/")(evaluate)


def evaluate(
    tree: Annotated[Path, typer.Argument(help="The benchmark: an M-BEIR tree.")],
    model: Annotated[Path, typer.Option("--model", "-m", help="The model to evaluate.")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Write tables, runs and a plot into this folder.")
    ] = None,
    pool: Annotated[str, typer.Option(help="The pools to search: local, union or both.")] = "both",
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
        str, typer.Option(help="Whether searches by code know the wanted modality: known or inferred.")
    ] = "known",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line instead.")] = False,
) -> None:
    """Search every task's queries in its local pool and in the union of all pools, and measure."""
    import orjson

    from genius.encode.pipeline import default_cache
    from genius.evaluate.report import table, write_results
    from genius.evaluate.run import evaluate_model
    from genius.progress import log_to_terminal
    from genius.search.engine import MODES

    log_to_terminal()
    choices = (
        ("pool", pool, ("local", "union", "both")),
        ("split", split, ("val", "test")),
        ("want", want, ("known", "inferred")),
    )
    for name, value, allowed in choices:
        if value not in allowed:
            raise InputError(f"--{name} should be one of {', '.join(allowed)}, but is {value!r}")
    for name in mode or ():
        if name not in MODES:
            raise InputError(f"unknown mode {name!r}: expected one of {', '.join(MODES)}")
    modes: Any = tuple(dict.fromkeys(("auto", *(mode or ()))))
    pools: Any = ("local", "union") if pool == "both" else (pool,)
    chosen: Any = split
    result = evaluate_model(
        tree,
        model,
        split=chosen,
        pools=pools,
        tasks=task,
        systems=system,
        modes=modes,
        exclude=exclude_query_item,
        want=want == "known",
        cache=default_cache(),
    )
    if as_json:
        for measurement in result.evaluation.measurements:
            typer.echo(orjson.dumps(dataclasses.asdict(measurement)).decode())
    else:
        for name in pools:
            table(result.evaluation, name).print()
    if out is not None:
        write_results(out, result)
        typer.echo(f"results: {out}", err=True)
