"""`genius show`: what an artifact, index or collection is, what made it, and whether it is intact."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genius.display import Table, shortened, size

if TYPE_CHECKING:
    from genius.data.mbeir import Tree
    from genius.data.records import Item

_LISTED_FILES = 8


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog="Example: genius show photos/ --sheet photos.png")(show)


def show(
    path: Annotated[
        Path, typer.Argument(help="A folder or file: an artifact or index of genius, or a collection.")
    ],
    verify: Annotated[bool, typer.Option(help="Check every byte of an artifact, large files too.")] = False,
    sheet: Annotated[Path | None, typer.Option(help="Write a contact sheet of the collection (PNG).")] = None,
    root: Annotated[Path | None, typer.Option(help="Where a table's pictures are, if not beside it.")] = None,
    strict: Annotated[bool, typer.Option(help="Stop at the first line or file that can't be read.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Tell what PATH is, what made it and whether it is whole."""
    from genius import storage
    from genius.data.mbeir import is_tree
    from genius.index.snapshot import is_index

    if is_index(path):
        _show_index(path, verify, as_json)
        return
    collection = is_tree(path)  # the demo corpus is both, an artifact and a collection
    if storage.is_artifact(path):
        _show_artifact(path, verify, as_json and not collection)
    if collection or not storage.is_artifact(path):
        _show_collection(path, root, strict, sheet, as_json)


def _show_artifact(path: Path, verify: bool, as_json: bool) -> None:
    from genius import storage

    manifest = storage.open(path, verify=verify).manifest
    if as_json:
        typer.echo(manifest.to_json().decode())
        return
    large = any(record.sampled for record in manifest.files.values())
    whole = (
        "yes; large files by samples (--verify checks every byte)"
        if large and not verify
        else "yes, every byte"
    )
    facts = Table(("", ""), title=f"{path}: {manifest.kind}, format {manifest.format}")
    facts.add("whole", whole)
    facts.add("made by", f"{manifest.made_by} at {manifest.made_at}")
    facts.add("fingerprint", manifest.fingerprint)
    for title, entries in (("made from", manifest.made_from), ("", manifest.settings), ("", manifest.counts)):
        for name, value in entries.items():
            facts.add(f"{title} {name}".strip(), value if isinstance(value, int | float) else str(value))
    facts.print()
    total = sum(record.bytes for record in manifest.files.values())
    files = Table(("file", "size"), title=f"{len(manifest.files):,} files, {size(total)}")
    by_size = sorted(manifest.files.items(), key=lambda entry: -entry[1].bytes)
    for name, record in by_size[:_LISTED_FILES]:
        files.add(name, size(record.bytes))
    if len(by_size) > _LISTED_FILES:
        files.add(f"… and {len(by_size) - _LISTED_FILES:,} smaller ones", "")
    files.print()


def _show_index(path: Path, verify: bool, as_json: bool) -> None:
    import orjson

    from genius.index.inspect import describe

    facts = describe(path, verify=verify)
    if as_json:
        typer.echo(orjson.dumps(facts).decode())
        return
    table = Table(("", ""), title=f"{path}: index of {facts['items']:,} items, {size(facts['bytes'])}")
    table.add("whole", "yes, every byte" if verify else "yes; --verify checks the catalogue and every byte")
    table.add("made by", f"{facts['made_by']} at {facts['made_at']}")
    table.add("model", f"{facts['model']['path']} ({facts['model']['fingerprint'][:12]})")
    table.add("codes", " × ".join(map(str, facts["codes"]["sizes"])))
    table.add("embeddings", facts["codes"]["embeddings"])
    for name, count in facts["modalities"].items():
        table.add(name, count)
    for name in ("segments", "tombstones", "version"):
        table.add(name, facts[name])
    table.print()


def _show_collection(path: Path, root: Path | None, strict: bool, sheet: Path | None, as_json: bool) -> None:
    import orjson

    from genius.data.mbeir import Tree
    from genius.data.read import read
    from genius.progress import track

    collection = read(path, root=root, strict=strict)
    modalities: Counter[str] = Counter()
    first: list[Item] = []
    for item in track(collection, "reading"):
        modalities[item.modality.value] += 1
        if len(first) < 3:
            first.append(item)
    summary: dict[str, Any] = {
        "path": str(path),
        "kind": collection.kind,
        "items": modalities.total(),
        **modalities,
    }
    summary["failures"] = collection.failures.count
    tables = _tree_tables(collection) if isinstance(collection, Tree) else []
    if sheet is not None:
        _write_sheet(collection, modalities.total(), sheet)
    if as_json:
        summary |= {
            table.title: [dict(zip(table.columns, row, strict=True)) for row in table.rows]
            for table in tables
        }
        typer.echo(orjson.dumps(summary).decode())
        return
    parts = ", ".join(f"{count:,} {name}" for name, count in modalities.most_common())
    typer.echo(f"{path}: {collection.kind} of {modalities.total():,} items ({parts})")
    for item in first:
        typer.echo(f"  {item.id}: {shortened(item.text)}{f' [{item.image.name}]' if item.image else ''}")
    for table in tables:
        table.print()
    show_failures(collection.failures.count, collection.failures.first)
    if sheet is not None:
        typer.echo(f"contact sheet: {sheet}")


def _tree_tables(tree: Tree) -> list[Table]:
    """The numbers of queries by task and split, and of items by pool and modality."""
    from genius.data.mbeir import SPLITS
    from genius.progress import track

    tasks = {split: tree.tasks(split) for split in SPLITS}
    queries = Table(("task", "asks with", "for", *SPLITS), title="queries")
    for task in dict.fromkeys(itertools.chain(*tasks.values())):
        queries_by_split = [
            sum(1 for _ in track(tree.queries(split, task), f"{task} {split}", unit="queries"))
            if task in tasks[split]
            else None
            for split in SPLITS
        ]
        queries.add(str(task), task.query.value, task.target.value, *queries_by_split)
    pools = Table(("pool", "image", "text", "pair"), title="pools")
    for name in tree.pools:
        counts = Counter(item.modality.value for item in track(tree.pool(name), name))
        pools.add(name, *(counts[modality] for modality in pools.columns[1:]))
    return [queries, pools]


def _write_sheet(collection: Iterable[Item], total: int, path: Path) -> None:
    """Write a contact sheet of 36 items, evenly spread over the collection."""
    from genius.data.contact_sheet import contact_sheet, save, tile_of

    step = max(1, total // 36)
    save(contact_sheet(tile_of(item) for item in itertools.islice(collection, 0, step * 36, step)), path)


def show_failures(count: int, first: list[Any]) -> None:
    """Print how many lines or files could not be read, and the first errors."""
    if not count:
        return
    typer.secho(f"{count:,} could not be read:", fg="yellow", err=True)
    for error in first[:5]:
        typer.echo(f"  {error}", err=True)
    if count > 5:
        typer.echo(f"  … and {count - 5:,} more", err=True)
