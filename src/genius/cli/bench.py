"""`genius bench`: our times and sizes beside other people's, in one run and as ratios."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

app = typer.Typer(
    help="Measure speed and size beside other systems, in one run and as ratios.", no_args_is_help=True
)
Json = Annotated[bool, typer.Option("--json", help="Print a JSON object a line instead.")]


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    program.add_typer(app, name="bench")


def _print_lines(measured: Sequence[Any]) -> None:
    import orjson

    for figures in measured:
        typer.echo(orjson.dumps(figures.fields()).decode())


@app.command(epilog="Example: genius bench speed -n 10000 -n 1000000 --rounds 9 --plot speed.png")
def speed(
    items: Annotated[
        list[int] | None,
        typer.Option("-n", help="How many items; repeatable. By default 10,000 and 100,000."),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Search the items of this index instead of some that are made up.")
    ] = None,
    width: Annotated[int, typer.Option(help="Of embeddings.")] = 512,
    rounds: Annotated[int, typer.Option(help="How often each system has its turn.")] = 5,
    queries: Annotated[int, typer.Option(help="How many different queries.")] = 64,
    small: Annotated[
        bool, typer.Option("--small", help="Network and codes of our default sizes, not of the paper's.")
    ] = False,
    hugging_face: Annotated[bool, typer.Option(help="Measure generate, which ratios refer to.")] = True,
    hugging_face_items: Annotated[int, typer.Option(help="How many items its dictionary holds.")] = 20_000,
    libraries: Annotated[bool, typer.Option(help="Measure faiss and usearch.")] = True,
    library_items: Annotated[int, typer.Option(help="Leave them out above so many items.")] = 1_000_000,
    graph_items: Annotated[int, typer.Option(help="How many items a graph (HNSW) holds.")] = 20_000,
    workers: Annotated[
        int, typer.Option(help="Measure instead how much so many processes do together (safe and fast).")
    ] = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw queries a second over items (PNG).")] = None,
    as_json: Json = False,
) -> None:
    """Queries a second of our modes, of Hugging Face's generate, faiss and usearch; one thread each."""
    from genius.bench.plot import plot_speeds
    from genius.bench.speed import SpeedSettings, measure_index_speed, measure_speed, table
    from genius.errors import InputError
    from genius.progress import log_to_terminal

    log_to_terminal()
    settings = SpeedSettings(
        items=tuple(items or SpeedSettings().items),
        width=width,
        queries=queries,
        rounds=rounds,
        paper_sizes=not small,
        hugging_face=hugging_face,
        hugging_face_items=hugging_face_items,
        libraries=libraries,
        library_items=library_items,
        graph_items=graph_items,
    )
    if workers:
        if index is not None or plot is not None:
            raise InputError("--workers measures items that are made up, and has no plot")
        _throughput(settings, workers, as_json)
        return
    speeds = measure_speed(settings) if index is None else measure_index_speed(index, settings)
    if plot is not None:
        plot_speeds(plot, speeds)
    if as_json:
        _print_lines(speeds)
        return
    for count in dict.fromkeys(speed.n for speed in speeds):
        table(speeds, count).print()


def _throughput(settings: Any, workers: int, as_json: bool) -> None:
    from genius.bench.workers import measure_throughput, table

    measured = measure_throughput(settings, workers)
    if as_json:
        _print_lines(measured)
    else:
        table(measured).print()


@app.command(epilog="Example: genius bench storage -n 1000000")
def storage(
    items: Annotated[int, typer.Option("-n", help="How many items.")] = 100_000,
    width: Annotated[int, typer.Option(help="Of embeddings.")] = 512,
    graph_items: Annotated[
        int, typer.Option(help="How many items others' forms are measured with.")
    ] = 20_000,
    as_json: Json = False,
) -> None:
    """Bytes that an item takes in files: our codes, embeddings, product quantization and graphs."""
    from genius.bench.storage import measure_storage, table
    from genius.progress import log_to_terminal

    log_to_terminal()
    measured = measure_storage(items, width=width, graph_items=graph_items)
    if as_json:
        _print_lines(measured)
    else:
        table(measured).print()


@app.command(epilog="Example: genius bench index -n 1000000 -n 5600000 --width 512")
def index(
    items: Annotated[
        list[int] | None,
        typer.Option("-n", help="How many items; repeatable. By default 10,000 and 100,000."),
    ] = None,
    width: Annotated[int, typer.Option(help="Of embeddings.")] = 64,
    as_json: Json = False,
) -> None:
    """How long it takes to make and to open an index of items that are coded, and what memory that needs."""
    from genius.bench.index import measure_build, table

    measured = [measure_build(count, width=width) for count in items or (10_000, 100_000)]
    if as_json:
        _print_lines(measured)
    else:
        table(measured).print()


@app.command(epilog="Example: genius bench search index/ --mode fast --mode exact")
def search(
    path: Annotated[Path, typer.Argument(metavar="INDEX", help="The index to search.")],
    mode: Annotated[
        list[str] | None, typer.Option(help="A mode; repeatable. By default all but scan.")
    ] = None,
    queries: Annotated[int, typer.Option(help="How many queries of each kind.")] = 50,
    decoder: Annotated[
        str | None, typer.Option(help="geometry or learned; by default the model's own.")
    ] = None,
    precision: Annotated[str, typer.Option(help="Of the learned decoder: fp32 or int8.")] = "fp32",
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")
    ] = None,
    as_json: Json = False,
) -> None:
    """From a text or a picture to hits: how long, with the shares of encoder, decoder and what follows."""
    from genius.bench.search import measure_latency, table
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    chosen: Any = {"precision": precision, **({"modes": mode} if mode else {})}
    with Index.open(path, model) as opened:
        measured = measure_latency(opened, queries=queries, decoder=decoder, **chosen)
    if as_json:
        _print_lines(measured)
    else:
        table(measured).print()
