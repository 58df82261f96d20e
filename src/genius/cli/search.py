"""`genius search`: the items of an index that answer a text, an image or both."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genius.display import Table, shortened

if TYPE_CHECKING:
    from genius.index.hits import Hit

TEXT_LENGTH = 40
"""How many characters of a text a row of the table shows."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog='Example: genius search index/ "a dog on the beach" --want image -k 5 --explain')(
        search
    )


def search(
    index: Annotated[Path, typer.Argument(help="The index to search.")],
    text: Annotated[str, typer.Argument(help="What to search for, in words.")] = "",
    image: Annotated[Path | None, typer.Option(help="An image to search by, alone or with the text.")] = None,
    instruction: Annotated[
        str | None, typer.Option(help="What to find, as in 'Find a picture that matches this text.'")
    ] = None,
    want: Annotated[str | None, typer.Option(help="Find only this modality: image, text or pair.")] = None,
    k: Annotated[int, typer.Option("-k", help="The number of hits.")] = 10,
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
            help="Find only items with such metadata: 'brand=acme', 'price<50', 'colour in red,blue'; "
            "repeatable."
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
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the path of codes to each hit, level by level.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Find the items of INDEX that answer a text, an image or both, or that are like another item."""
    import orjson

    from genius.data.vectors import read_vector
    from genius.index.filters import filter_of
    from genius.index.hits import hits_to_dict
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    options: dict[str, Any] = {
        "want": want,
        "k": k,
        "beam": beam,
        "rerank": False if plain else None,
        "mode": mode,
        "decoder": decoder,
        "precision": precision,
        "filter": filter_of(where) if where else None,
        "exclude": exclude or [],
    }
    with Index.open(index, model) as opened:
        given = None if vector is None else read_vector(vector)
        hits = opened.search(
            text=text or None, image=image, instruction=instruction, near=near, vector=given, **options
        )
    if as_json:
        typer.echo(orjson.dumps(hits_to_dict(hits, explain=True, image_name=True)).decode())
        return
    for note in hits.notes:
        typer.secho(f"note: {note}", fg="yellow", err=True)
    if explain:
        for hit in hits:
            _path_table(hit).print()
    elif hits:
        by_probability = hits.mode == "paper" or (plain and hits.decoder == "learned")
        _hit_table(hits, "log-probability" if by_probability else "score").print()


def _hit_table(hits: list[Hit], score: str) -> Table:
    table = Table(("rank", score, "id", "modality", "item", "code"), optional=1)
    for hit in hits:
        item = hit.item
        code = " ".join(map(str, hit.code))
        table.add(hit.rank, f"{hit.score:.4f}", item.id, item.modality.value, _caption(hit), code)
    return table


def _caption(hit: Hit) -> str:
    """The beginning of an item's text, or the name of its image."""
    item = hit.item
    return shortened(item.text, TEXT_LENGTH) or (item.image.name if item.image else "")


def _path_table(hit: Hit) -> Table:
    """A hit's code, level by level: its probability given those before, and how many items share it."""
    item = hit.item
    title = f"{hit.rank}. {item.id} ({item.modality.value}), {_caption(hit)}, cosine {hit.cosine:.4f}"
    table = Table(("level", "code", "probability", "log-probability", "items"), title=title)
    levels = zip(hit.code, hit.log_probabilities, hit.prefix_counts, strict=True)
    for level, (code, log_probability, count) in enumerate(levels, 1):
        table.add(level, code, f"{math.exp(log_probability):.1%}", f"{log_probability:.3f}", count)
    table.add("all", None, f"{math.exp(hit.log_probability):.2g}", f"{hit.log_probability:.3f}", None)
    return table
