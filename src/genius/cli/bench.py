"""`genius bench`: speed and size of genius beside other systems, measured in one run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genius.cli.examples import examples

if TYPE_CHECKING:
    from genius.display import Table

app = typer.Typer(
    help="Measure speed and size beside other systems, in one run and as ratios.", no_args_is_help=True
)
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object per line instead.")]


def register(program: typer.Typer) -> None:
    """Add the commands to the program."""
    program.add_typer(app, name="bench")


def _print(results: Sequence[Any], tables: Sequence[Table], as_json: bool) -> None:
    import orjson

    if as_json:
        for result in results:
            typer.echo(orjson.dumps(result.fields()).decode())
    else:
        for table in tables:
            table.print()


@app.command(epilog=examples("genius bench speed -n 10000 -n 1000000 --rounds 9 --plot speed.png"))
def speed(
    items: Annotated[
        list[int] | None,
        typer.Option("-n", help="The number of items; repeatable. By default 10,000 and 100,000."),
    ] = None,
    index: Annotated[
        Path | None, typer.Option(help="Search the items of this index instead of synthetic ones.")
    ] = None,
    width: Annotated[int, typer.Option(help="The width of embeddings.")] = 512,
    rounds: Annotated[int, typer.Option(help="How often each system is measured, in turns.")] = 5,
    queries: Annotated[int, typer.Option(help="The number of different queries.")] = 64,
    small: Annotated[
        bool, typer.Option("--small", help="Network and codes of our default sizes, not of the paper's.")
    ] = False,
    hugging_face: Annotated[
        bool, typer.Option(help="Measure Hugging Face's generate, which ratios refer to.")
    ] = True,
    hugging_face_items: Annotated[
        int, typer.Option(help="The number of items in Hugging Face's prefix dictionary.")
    ] = 20_000,
    libraries: Annotated[bool, typer.Option(help="Measure faiss and usearch.")] = True,
    library_items: Annotated[
        int, typer.Option(help="Leave faiss and usearch out above this number of items.")
    ] = 1_000_000,
    graph_items: Annotated[int, typer.Option(help="The number of items in a graph (HNSW).")] = 20_000,
    workers: Annotated[
        int, typer.Option(help="Measure the throughput of this many processes instead (safe and fast).")
    ] = 0,
    plot: Annotated[Path | None, typer.Option(help="Plot queries per second over items (PNG).")] = None,
    as_json: Json = False,
) -> None:
    """Queries per second of our modes, Hugging Face's generate, faiss and usearch; one thread each."""
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
        _measure_workers(settings, workers, as_json)
        return
    results = measure_speed(settings) if index is None else measure_index_speed(index, settings)
    if plot is not None:
        plot_speeds(plot, results)
    counts = dict.fromkeys(result.n for result in results)
    _print(results, [table(results, count) for count in counts], as_json)


@app.command(epilog=examples("genius bench curves index/ --plot curves.png"))
def curves(
    index: Annotated[Path, typer.Argument(metavar="INDEX", help="The index whose items are searched.")],
    items: Annotated[
        int | None,
        typer.Option("-n", help="So many items: more than the index has are copies with noise."),
    ] = None,
    rounds: Annotated[int, typer.Option(help="How often each setting is measured, in turns.")] = 3,
    queries: Annotated[int, typer.Option(help="The number of different queries.")] = 200,
    k: Annotated[int, typer.Option("-k", help="The number of items that are searched for.")] = 10,
    libraries: Annotated[bool, typer.Option(help="Measure faiss, usearch and sqlite-vec.")] = True,
    plot: Annotated[Path | None, typer.Option(help="Plot recall against queries per second (PNG).")] = None,
    as_json: Json = False,
) -> None:
    """Recall against queries per second over real vectors: ours, HNSW, IVF and IVF-PQ at several settings."""
    from genius.bench.curves import CurveSettings, measure_curves, table
    from genius.bench.plot import plot_curves
    from genius.progress import log_to_terminal

    log_to_terminal()
    settings = CurveSettings(items=items, queries=queries, rounds=rounds, k=k, libraries=libraries)
    points = measure_curves(index, settings)
    if plot is not None:
        plot_curves(plot, points)
    _print(points, [table(points)], as_json)


def _measure_workers(settings: Any, workers: int, as_json: bool) -> None:
    from genius.bench.workers import measure_throughput, table

    results = measure_throughput(settings, workers)
    _print(results, [table(results)], as_json)


@app.command(epilog=examples("genius bench storage -n 1000000"))
def storage(
    items: Annotated[int, typer.Option("-n", help="The number of items.")] = 100_000,
    width: Annotated[int, typer.Option(help="The width of embeddings.")] = 512,
    graph_items: Annotated[
        int, typer.Option(help="The number of items that other systems' files are measured with.")
    ] = 20_000,
    as_json: Json = False,
) -> None:
    """Bytes per item in files: our codes, embeddings, product quantization and graphs."""
    from genius.bench.storage import measure_storage, table
    from genius.progress import log_to_terminal

    log_to_terminal()
    results = measure_storage(items, width=width, graph_items=graph_items)
    _print(results, [table(results)], as_json)


@app.command(epilog=examples("genius bench index -n 1000000 -n 5600000 --width 512"))
def index(
    items: Annotated[
        list[int] | None,
        typer.Option("-n", help="The number of items; repeatable. By default 10,000 and 100,000."),
    ] = None,
    width: Annotated[int, typer.Option(help="The width of embeddings.")] = 64,
    as_json: Json = False,
) -> None:
    """Time and memory to make and to open an index of items that are coded already."""
    from genius.bench.index import measure_build, table

    results = [measure_build(count, width=width) for count in items or (10_000, 100_000)]
    _print(results, [table(results)], as_json)


@app.command(epilog=examples("genius bench search index/ --mode fast --mode exact"))
def search(
    path: Annotated[Path, typer.Argument(metavar="INDEX", help="The index to search.")],
    mode: Annotated[
        list[str] | None, typer.Option(help="A mode; repeatable. By default all but scan.")
    ] = None,
    queries: Annotated[int, typer.Option(help="The number of queries of each kind.")] = 50,
    decoder: Annotated[
        str | None, typer.Option(help="geometry (the default) or learned (that of mode paper).")
    ] = None,
    precision: Annotated[str, typer.Option(help="The learned decoder's precision: fp32 or int8.")] = "fp32",
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Time from a text or an image to hits, with the shares of encoder, decoder and the rest."""
    from genius.bench.search import measure_latency, table
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    chosen: Any = {"precision": precision, **({"modes": mode} if mode else {})}
    with Index.open(path, model) as opened:
        results = measure_latency(opened, queries=queries, decoder=decoder, **chosen)
    _print(results, [table(results)], as_json)
