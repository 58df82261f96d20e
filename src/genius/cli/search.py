"""`genius search`: what an index holds that answers a text, an image or both."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genius.display import Table

if TYPE_CHECKING:
    from genius.index.hits import Hit, Hits

LETTERS = 40
"""Of a text in a row of the table."""


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog='Example: genius search index/ "a dog on the beach" --want image -k 5 --explain')(
        search
    )


def search(
    index: Annotated[Path, typer.Argument(help="The index to search.")],
    text: Annotated[str, typer.Argument(help="What is looked for, in words.")] = "",
    image: Annotated[
        Path | None, typer.Option(help="A picture to search by, alone or with the text.")
    ] = None,
    instruction: Annotated[
        str | None, typer.Option(help="What to find, as in 'Find a picture that matches this text.'")
    ] = None,
    want: Annotated[str | None, typer.Option(help="Only this modality: image, text or pair.")] = None,
    k: Annotated[int, typer.Option("-k", help="How many items.")] = 10,
    # The usual number of beams, without importing what it comes from; a test compares them.
    beam: Annotated[int, typer.Option(help="How many codes are followed at a time.")] = 50,
    plain: Annotated[bool, typer.Option("--plain", help="Rank by codes alone, without re-ranking.")] = False,
    mode: Annotated[
        str, typer.Option(help="How far codes are searched: auto, paper, exact, safe, fast or scan.")
    ] = "auto",
    decoder: Annotated[
        str | None, typer.Option(help="What scores codes: geometry or learned; by default the model's own.")
    ] = None,
    precision: Annotated[str, typer.Option(help="Of the learned decoder: fp32 or int8.")] = "fp32",
    where: Annotated[
        list[str] | None,
        typer.Option(help="Only items whose metadata fit: 'brand=acme', 'price<50', 'colour in red,blue'."),
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(help="The id of an item that is not wanted.")] = None,
    near: Annotated[str | None, typer.Option(help="The id of an item, to find more like it.")] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show the path to each hit, level by level.")
    ] = False,
    model: Annotated[
        Path | None, typer.Option("--model", "-m", help="The index's model, if it was moved.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Find the items of INDEX that answer a text, an image or both, or are like another item."""
    import orjson

    from genius.index.filters import filter_of
    from genius.index.index import Index
    from genius.progress import log_to_terminal

    log_to_terminal()
    with Index.open(index, model) as opened:
        hits = opened.search(
            text=text or None,
            image=image,
            instruction=instruction,
            want=want,
            k=k,
            beam=beam,
            rerank=False if plain else None,
            mode=mode,  # type: ignore[arg-type]
            decoder=decoder,
            precision=precision,  # type: ignore[arg-type]
            filter=filter_of(where or []),
            exclude=exclude or [],
            near=near,
        )
    if as_json:
        typer.echo(orjson.dumps(_answer(hits)).decode())
        return
    for note in hits.notes:
        typer.secho(f"note: {note}", fg="yellow", err=True)
    if explain:
        for hit in hits:
            _path(hit).print()
    elif hits:
        by_probability = hits.mode == "paper" or (plain and hits.decoder == "learned")
        _table(hits, "log-probability" if by_probability else "score").print()


def _answer(hits: Hits) -> dict[str, Any]:
    return {
        "hits": [_fields(hit) for hit in hits],
        "notes": hits.notes,
        "mode": hits.mode,
        "decoder": hits.decoder,
        "under": hits.under,
    }


def _table(hits: list[Hit], score: str) -> Table:
    table = Table(("rank", score, "id", "modality", "item", "code"), optional=1)
    for hit in hits:
        item = hit.item
        code = " ".join(map(str, hit.code))
        table.add(hit.rank, f"{hit.score:.4f}", item.id, item.modality.value, _shown(hit), code)
    return table


def _shown(hit: Hit) -> str:
    """The beginning of an item's text, or the name of its picture."""
    from genius.cli.show import shortened

    item = hit.item
    return shortened(item.text, LETTERS) or (item.image.name if item.image else "")


def _path(hit: Hit) -> Table:
    """A hit's code, level by level: how probable it is, given those before, and how many items share it."""
    item = hit.item
    title = f"{hit.rank}. {item.id} ({item.modality.value}), {_shown(hit)}, cosine {hit.cosine:.4f}"
    table = Table(("level", "code", "share", "log-probability", "items below"), title=title)
    for level, (code, gain, below) in enumerate(
        zip(hit.code, hit.log_probabilities, hit.below, strict=True), 1
    ):
        table.add(level, code, f"{math.exp(gain):.1%}", f"{gain:.3f}", below)
    table.add("all", None, f"{math.exp(hit.log_probability):.2g}", f"{hit.log_probability:.3f}", None)
    return table


def _fields(hit: Hit) -> dict[str, Any]:
    item = hit.item
    return {
        "rank": hit.rank,
        "score": hit.score,
        "cosine": hit.cosine,
        "id": item.id,
        "modality": item.modality.value,
        "text": item.text,
        "image": item.image.name if item.image else None,
        "metadata": dict(item.metadata),
        "code": hit.code,
        "log_probabilities": hit.log_probabilities,
        "below": hit.below,
    }
