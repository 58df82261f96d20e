"""`genius plan`: what a collection would take on a number of machines."""

from __future__ import annotations

from typing import Annotated

import typer

from genius.cli.collection import AsJson
from genius.cli.examples import examples


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("genius plan --items 1e9 --machines 16 --cores 32"))(plan)


def plan(
    items: Annotated[float, typer.Option(help="How many items there are, such as 1e9.")],
    machines: Annotated[int, typer.Option(help="The number of machines, all alike.")] = 1,
    cores: Annotated[int, typer.Option(help="The cores of each; 0 is as many as this one has.")] = 0,
    gpus: Annotated[
        str | None, typer.Option(help="The GPU that each machine has, such as A100; for models with a CLIP.")
    ] = None,
    gpus_per_machine: Annotated[int, typer.Option(help="With --gpus: how many each has.")] = 1,
    shards: Annotated[
        int, typer.Option(help="The indexes that the items are spread over; 0 is one per machine.")
    ] = 0,
    text_bytes: Annotated[float, typer.Option(help="Bytes of an item's text and metadata.")] = 100,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="The model: a folder; by default photo, which ships.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a collection would take on a cluster: hours, bytes and queries a second.

    What an item and a query take on one core is measured on this machine, in some seconds; rates of GPUs are
    their data sheets'. The rest is extrapolated, as docs/scale.md says.
    """
    from dataclasses import asdict

    import orjson

    from genius.cluster.cost_model import Machines, estimate, gpu_items_per_second, measure, rows_of
    from genius.display import Table
    from genius.model import DEFAULT, Model
    from genius.runtime import cores as own_cores

    opened = Model.open(model or DEFAULT)
    rate = gpu_items_per_second(opened, gpus) if gpus else 0.0
    measured = measure(opened)
    each = Machines(machines, cores or own_cores(), gpus_per_machine if gpus else 0, rate)
    estimates = estimate(items, measured, each, shards=shards or machines, text_bytes=text_bytes)
    if as_json:
        fields = {"measured": asdict(measured), "machines": asdict(each)}
        typer.echo(orjson.dumps(fields | {"estimates": [asdict(one) for one in estimates]}).decode())
        return
    typer.echo(
        f"measured on a core of this machine: {measured.items_per_second:,.1f} items and "
        f"{measured.queries_per_second:,.0f} queries a second; "
        f"{measured.code_bytes:g} bytes a code, {measured.width} numbers an embedding"
    )
    if gpus:
        typer.echo(f"by the data sheet of {gpus}: {rate:,.0f} items a second; not measured")
    header, *rows = rows_of(estimates)
    table = Table(header, title=f"{items:,.0f} items on {machines:,} machines, extrapolated")
    for row in rows:
        table.add(*row)
    table.print()
