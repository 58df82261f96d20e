"""`genius search`: the items of an index that answer a text, an image or both, or that a filter selects."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from genius.cli.examples import examples
from genius.cli.query_parts import PARTS, WHOLE, PartName, read_parts
from genius.display import Table, shortened

if TYPE_CHECKING:
    from genius.data.records import Query, QueryPart
    from genius.index.hits import Hit, Hits

TEXT_LENGTH = 60
"""How many characters of a text a row of the table shows, where there is room."""
MIN_LENGTH = 12
"""How many characters of an id, a text or a metadatum it shows on the narrowest terminal."""
NARROW = 80
"""On a terminal of fewer characters it does not say how sure hits are."""
GAP = 3
"""How many characters are between two columns."""
WEIGHTED = "genius.weighted"
"""Under this name a command's context knows the part that each `--weight` belongs to."""


class WeightedCommand(TyperCommand):
    """A command that knows which part each `--weight` stands behind.

    The parser collects options by their names and forgets their order, so that is read from the arguments.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Look at the order of the arguments, then parse them as usual."""
        ctx.meta[WEIGHTED] = weighted_parts(args)
        return super().parse_args(ctx, args)


def weighted_parts(arguments: Sequence[str]) -> list[PartName]:
    """The part that each `--weight` of these arguments belongs to."""
    current, weighted, counts = WHOLE, [], dict.fromkeys(PARTS, 0)
    for argument in arguments:
        if argument == "--":
            break
        name = argument.partition("=")[0]
        if name in counts:
            current = name, counts[name]
            counts[name] += 1
        elif name == "--weight":
            weighted.append(current)
    return weighted


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(
        epilog=examples(
            "genius search index/ a dog on the beach --want image -k 5",
            "genius search index/ --filter 'price<20' --sort price",
            "genius search index/ sunset --plus-image photo.jpg --minus people --weight 0.5",
            "genius search index/ red shoes --paths | tr '\\n' '\\0' | xargs -0 open",
        ),
        cls=WeightedCommand,
    )(search)


def search(
    context: typer.Context,
    index: Annotated[Path, typer.Argument(help="The index to search.")],
    text: Annotated[
        list[str] | None,
        typer.Argument(help="What to search for, in words; without it and an image, items are browsed."),
    ] = None,
    image: Annotated[Path | None, typer.Option(help="An image to search by, alone or with the text.")] = None,
    plus: Annotated[
        list[str] | None, typer.Option(help="A text that is added to the query; repeatable.")
    ] = None,
    plus_image: Annotated[
        list[Path] | None, typer.Option(help="An image that is added to the query; repeatable.")
    ] = None,
    minus: Annotated[
        list[str] | None,
        typer.Option(help="A text that is taken away from the query; repeatable."),
    ] = None,
    minus_image: Annotated[
        list[Path] | None,
        typer.Option(help="An image that is taken away from the query; repeatable."),
    ] = None,
    weight: Annotated[
        list[float] | None,
        typer.Option(
            help="How much the part before it counts: behind --plus or --minus that one, before them the "
            "query's own text and image; 1 by default."
        ),
    ] = None,
    instruction: Annotated[
        str | None, typer.Option(help="What to find, as in 'Find a picture that matches this text.'")
    ] = None,
    want: Annotated[
        list[str] | None,
        typer.Option(help="Find items that have an image, a text, or a pair of both; repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(help="Find items that are an image alone, a text alone, or a pair; repeatable."),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="The number of hits.")] = 10,
    offset: Annotated[int, typer.Option(help="The number of hits to leave out before them.")] = 0,
    sort: Annotated[
        list[str] | None,
        typer.Option(
            help="Order these hits by a metadata key: 'price', or '-price' for the largest first; repeatable."
        ),
    ] = None,
    # The default beam, without importing the module that defines it; a test compares them.
    beam: Annotated[int, typer.Option(help="The number of prefixes kept at each level.")] = 50,
    plain: Annotated[bool, typer.Option("--plain", help="Rank by codes alone, without re-ranking.")] = False,
    mode: Annotated[
        str, typer.Option(help="How far codes are searched: auto, paper, exact, safe, fast or scan.")
    ] = "auto",
    decoder: Annotated[
        str | None,
        typer.Option(help="What scores codes: geometry (the default) or learned (that of mode paper)."),
    ] = None,
    precision: Annotated[str, typer.Option(help="The learned decoder's precision: fp32 or int8.")] = "fp32",
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--filter",
            "--where",
            help="Find only items with such metadata: 'brand=acme', 'price<50', 'colour in red,blue'; "
            "repeatable.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="The id of an item not to find; repeatable.")
    ] = None,
    near: Annotated[str | None, typer.Option(help="The id of an item, to find more like it.")] = None,
    vector: Annotated[
        Path | None,
        typer.Option(
            help="A file with a vector to search by, instead of a text: .npy, .npz, .safetensors, Parquet."
        ),
    ] = None,
    at_least: Annotated[
        str | None,
        typer.Option(
            help="Show only hits of this confidence: likely (0.8), sure (0.95) or a number from 0 to 1; "
            "there may be none."
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the path of codes to each hit, level by level.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")
    ] = None,
    paths: Annotated[
        bool, typer.Option("--paths", help="Print the full path of each hit's image, one a line.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Find the items of INDEX that answer a text, an image or both, or that are like another item."""
    from genius.data.vectors import read_vector
    from genius.errors import InputError
    from genius.index.filters import filter_of
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    words = " ".join(text or ())
    shared: dict[str, Any] = {
        "want": want,
        "only": only,
        "k": k,
        "offset": offset,
        "sort": sort or (),
        "filter": filter_of(where) if where else None,
        "exclude": exclude or (),
    }
    how: dict[str, Any] = {
        "beam": beam,
        "rerank": False if plain else None,
        "mode": mode,
        "decoder": decoder,
        "precision": precision,
        "at_least": at_least,
    }
    contents = {"--plus": plus, "--plus-image": plus_image, "--minus": minus, "--minus-image": minus_image}
    own_weight = 1.0
    parts: list[QueryPart] = []
    if weight or any(contents.values()):
        own_weight, parts = read_parts(context.meta[WEIGHTED], contents, weight)
    with Index.open(index, model) as opened:
        query: dict[str, Any] = {
            "text": words or None,
            "image": image,
            "instruction": instruction,
            "near": near,
            "vector": None if vector is None else read_vector(vector),
        }
        if parts:
            hits = opened.search(_combined(query, own_weight, parts), **shared, **how)
        elif vector is not None or any(query[name] for name in ("text", "image", "instruction", "near")):
            hits = opened.search(**query, **shared, **how)
        elif at_least is not None:
            raise InputError("--at-least needs a query: say what to search for")
        else:
            hits = opened.browse(**shared)
        if as_json:
            _print_json(hits)
            return
        for note in hits.notes:
            typer.secho(f"note: {note}", fg="yellow", err=True)
        if paths:
            _print_paths(hits)
        elif explain:
            _print_explanations(hits)
        else:
            _print_hits(hits, sort or (), plain=plain)


def _combined(query: Mapping[str, Any], weight: float, parts: Sequence[QueryPart]) -> Query:
    """The query with what is added to it and taken away. Raises InputError."""
    from genius.data.images import image_source
    from genius.errors import InputError
    from genius.index.query import combined_query

    if query["near"] is not None:
        raise InputError("--near is a query of its own: give it without --plus and --minus")
    image = None if query["image"] is None else image_source(query["image"])
    named = {name: query[name] for name in ("instruction", "vector")}
    return combined_query(query["text"], image, weight, parts, **named)


def _print_json(hits: Hits) -> None:
    import orjson

    from genius.index.hits import hits_to_dict

    typer.echo(orjson.dumps(hits_to_dict(hits, explain=True, local=True)).decode())


def _print_paths(hits: Hits) -> None:
    existing = [path for hit in hits if (path := hit.item.image_path) is not None]
    for path in existing:
        typer.echo(path)
    if left_out := len(hits) - len(existing):
        typer.secho(f"note: {left_out:,} hits have no image file of their own", fg="yellow", err=True)


def _print_explanations(hits: Hits) -> None:
    from genius.errors import InputError

    if hits.total is not None:
        raise InputError("--explain needs a query: say what to search for")
    for hit in hits:
        path_table(hit).print()


def _print_hits(hits: Hits, sort: list[str] | tuple[()], *, plain: bool) -> None:
    """A table on a terminal; else a line a hit, of columns between tabs, for other programs."""
    if not sys.stdout.isatty():
        for hit in hits:
            score = "" if math.isnan(hit.score) else f"{hit.score:.4f}"
            sorted_by = (hit.item.metadata.get(key.removeprefix("-"), "") for key in sort)
            cells = (hit.rank, score, hit.item.modality.value, hit.item.id, hit.item.text or "", *sorted_by)
            typer.echo("\t".join(" ".join(str(cell).split()) for cell in cells))
        return
    if not hits:
        return
    from rich.console import Console

    by_probability = hits.mode == "paper" or (plain and hits.decoder == "learned")
    score_name = "log-probability" if by_probability else "score"
    hit_table(hits, score_name, [key.removeprefix("-") for key in sort], Console().width).print()
    if hits.total is not None:
        last = hits[-1].rank
        more = f"; --offset {last} goes on" if last < hits.total else ""
        typer.echo(f"{hits[0].rank:,} to {last:,} of {hits.total:,}{more}")


def hit_table(hits: Hits, score_name: str, keys: list[str], width: int) -> Table:
    """Hits as a table that fits into `width` characters; codes and modalities only where there is room.

    `keys` are metadata to show. Ids keep their end, where the name of a file is.
    """
    scored, texts = hits.total is None, [shortened(hit.item.text, TEXT_LENGTH) for hit in hits]
    judged = scored and width >= NARROW
    names = ["rank", *([score_name] if scored else []), *(["sure"] if judged else []), *keys]
    cells = [
        [
            str(hit.rank),
            *([f"{hit.score:.4f}"] if scored else []),
            *([f"{hit.confidence:.2f}"] if judged else []),
            *(_value(hit, key) for key in keys),
        ]
        for hit in hits
    ]
    taken = sum(GAP + max(map(len, column)) for column in zip(names, *cells, strict=True))
    room = max(2 * MIN_LENGTH, width - taken - 2 * GAP - 1)
    id_length = min(max(len(hit.item.id) for hit in hits), room // 2 if any(texts) else room)
    table = Table((*names, "id", *(["text"] if any(texts) else []), "modality", "code"), optional=2)
    for hit, first, text in zip(hits, cells, texts, strict=True):
        id = hit.item.id if len(hit.item.id) <= id_length else f"…{hit.item.id[1 - id_length :]}"
        content = [shortened(text, room - id_length)] if any(texts) else []
        table.add(*first, id, *content, hit.item.modality.value, " ".join(map(str, hit.code)))
    return table


def _value(hit: Hit, key: str) -> str:
    value = hit.item.metadata.get(key)
    return "" if value is None else shortened(str(value), MIN_LENGTH)


def path_table(hit: Hit) -> Table:
    """A hit's code, level by level: its probability given those before, and how many items share it."""
    item = hit.item
    caption = shortened(item.text, TEXT_LENGTH) or (item.image.name if item.image else "")
    title = (
        f"{hit.rank}. {item.id} ({item.modality.value}), {caption}, cosine {hit.cosine:.4f}, "
        f"confidence {hit.confidence:.2f}"
    )
    table = Table(("level", "code", "probability", "log-probability", "items"), title=title)
    levels = zip(hit.code, hit.log_probabilities, hit.prefix_counts, strict=True)
    for level, (code, log_probability, count) in enumerate(levels, 1):
        table.add(level, code, f"{math.exp(log_probability):.1%}", f"{log_probability:.3f}", count)
    table.add("all", None, f"{math.exp(hit.log_probability):.2g}", f"{hit.log_probability:.3f}", None)
    return table
