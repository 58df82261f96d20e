"""`genius show`: what an artifact, index or collection is, what made it, and whether it is intact."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from genius.cli.examples import examples
from genius.cli.source import (
    FailureFile,
    IdColumn,
    ImageColumn,
    ReadOptions,
    Root,
    Strict,
    TextColumn,
    failure_file,
    root_hint,
    show_failures,
    show_notes,
)
from genius.display import Table, numbered, shortened, size
from genius.errors import InputError, ItemError

if TYPE_CHECKING:
    from genius.data.collection import Failures
    from genius.data.mbeir import Tree
    from genius.data.records import Item
    from genius.storage import Manifest

_LISTED_FILES = 8
_FINGERPRINT = 12
"""How many characters of a fingerprint are shown."""
_CHECKED_AT_ONCE = 64


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command(epilog=examples("genius show photos/ --sheet photos.png"))(show)


def show(
    path: Annotated[
        Path, typer.Argument(help="A folder or file: an artifact or index of genius, or a collection.")
    ],
    verify: Annotated[bool, typer.Option(help="Check every byte of an artifact, large files too.")] = False,
    sheet: Annotated[Path | None, typer.Option(help="Write a contact sheet of the collection (PNG).")] = None,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Don't open the images of a collection to see whether they are whole."),
    ] = False,
    root: Root = None,
    id_column: IdColumn = None,
    text_column: TextColumn = None,
    image_column: ImageColumn = None,
    strict: Strict = False,
    failures: FailureFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead.")] = False,
) -> None:
    """Tell what PATH is, what made it and whether it is whole; of a collection, what an index can read."""
    from genius import storage
    from genius.data.mbeir import is_tree
    from genius.index.snapshot import is_index
    from genius.model import model_folder

    path = path if path.exists() else model_folder(path)  # `photo` is a model that ships
    if is_index(path):
        _show_index(path, verify, as_json)
        return
    collection = is_tree(path)  # the demo corpus is both, an artifact and a collection
    if storage.is_artifact(path):
        _show_artifact(path, verify, as_json and not collection)
    if collection or not storage.is_artifact(path):
        options = ReadOptions(root, strict, id_column, text_column, image_column)
        _show_collection(path, options, sheet, failures, quick=quick, as_json=as_json)


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
    facts.add("fingerprint", manifest.fingerprint[:_FINGERPRINT])
    for name, value in manifest.made_from.items():
        facts.add(f"made from {name}", value[:_FINGERPRINT])
    for name, setting in _settings_facts(manifest):
        facts.add(name, setting)
    for name, count in manifest.counts.items():
        facts.add(f"number of {name}", count)
    facts.print()
    total = sum(record.bytes for record in manifest.files.values())
    files = Table(("file", "size"), title=f"{len(manifest.files):,} files, {size(total)}")
    by_size = sorted(manifest.files.items(), key=lambda entry: -entry[1].bytes)
    for name, record in by_size[:_LISTED_FILES]:
        files.add(name, size(record.bytes))
    if len(by_size) > _LISTED_FILES:
        files.add(f"… and {len(by_size) - _LISTED_FILES:,} smaller ones", "")
    files.print()


def _settings_facts(manifest: Manifest) -> Iterator[tuple[str, str | int | float]]:
    """What made an artifact, in short: of a model what it is made of and how good it was; --json has all."""
    settings = manifest.settings
    if manifest.kind != "model":
        for name, value in settings.items():
            yield name, _in_words(value)
        return
    yield "stages", ", ".join(settings["stages"])
    encoder = settings["encoder"]
    named = (encoder["kind"], encoder.get("precision"), encoder["source"], encoder["fingerprint"][:12])
    yield "encoder", " ".join(filter(None, named))
    yield "width of embeddings", settings["width"]
    if "quantizer" in settings:
        yield "codes", " × ".join(map(str, settings["quantizer"]["sizes"]))
    if "identifiers" in settings:
        described = settings["identifiers"]
        yield "identifiers", f"{described['kind']}: {' × '.join(map(str, described['sizes']))}"
    if recipe := settings.get("recipe"):
        yield "recipe", recipe["name"]
    for stage, scores in (settings.get("validation") or {}).items():
        yield f"validation of the {stage}", _in_words(scores)
    yield "settings", "all of them: genius show --json"


def _in_words(value: Any) -> str | int | float:
    """A setting on one line: `name value, name value` for several."""
    if isinstance(value, bool) or value is None:
        return str(value).lower()
    if isinstance(value, int | str):
        return value
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_in_words(inner)}" for name, inner in value.items())
    return ", ".join(str(_in_words(inner)) for inner in value)


def _show_index(path: Path, verify: bool, as_json: bool) -> None:
    import orjson

    from genius.index.inspect import describe

    facts = describe(path, verify=verify)
    if as_json:
        typer.echo(orjson.dumps(facts).decode())
        return
    table = Table(
        ("", ""), title=f"{path}: index of {numbered(facts['items'], 'item')}, {size(facts['bytes'])}"
    )
    table.add("whole", "yes, every byte" if verify else "yes; --verify checks the catalogue and every byte")
    table.add("made by", f"{facts['made_by']} at {facts['made_at']}")
    table.add("model", f"{facts['model']['path']} ({facts['model']['fingerprint'][:12]})")
    table.add("codes", " × ".join(map(str, facts["codes"]["sizes"])))
    table.add("embeddings", facts["codes"]["embeddings"])
    if "shards" in facts:
        table.add("shards", facts["shards"])
    for name, count in facts["modalities"].items():
        table.add(name, count)
    for source in facts.get("sources", []):
        beginning = f", ids begin with {source['prefix']}" if source["prefix"] else ""
        table.add("source", f"{source['path']} ({source['kind']}{beginning})")
    if missing := facts.get("missing_images"):
        way_out = "genius sync follows what was moved, and removes what is gone"
        table.add("not there", f"{numbered(missing, 'image file')}: {way_out}")
    for name in ("segments", "tombstones", "version"):
        table.add(name, facts[name])
    table.print()


def _show_collection(
    path: Path,
    options: ReadOptions,
    sheet: Path | None,
    failures: Path | None,
    *,
    quick: bool,
    as_json: bool,
) -> None:
    import orjson

    from genius.data.collection import Failures
    from genius.data.mbeir import Tree
    from genius.progress import log_to_terminal, track

    log_to_terminal()
    collection = options.read(path)
    modalities: Counter[str] = Counter()
    first: list[Item] = []
    with failure_file(failures) as listener:
        collection.failure_listener = listener
        broken = Failures(listener=listener)
        items = iter(collection) if quick else _whole_items(collection, broken, options.strict)
        for item in track(items, "reading" if quick else "opening images"):
            modalities[item.modality.value] += 1
            if len(first) < 3:
                first.append(item)
    summary: dict[str, Any] = {
        "path": str(path),
        "kind": collection.kind,
        "items": modalities.total(),
        **modalities,
    }
    summary["failures"] = collection.failures.count + broken.count
    summary["skipped"] = {kind.plural: count for kind, count in collection.skipped.items()}
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
    typer.echo(
        f"{path}: {collection.kind} of {numbered(modalities.total(), 'item')} ({parts or 'nothing to index'})"
    )
    for item in first:
        typer.echo(f"  {_in_a_line(item)}")
    for table in tables:
        table.print()
    show_failures((collection.failures, broken), has_option=True, listed_in=failures)
    hint = root_hint(collection, broken)
    show_notes([*collection.notes, *([hint] if hint else [])])
    if sheet is not None:
        typer.echo(f"contact sheet: {sheet}")
    if not modalities:
        raise typer.Exit(1)


def _in_a_line(item: Item) -> str:
    """An item's id, its text, and its image unless that is called the same."""
    name = "" if item.image is None or item.image.name == item.id else f"[{item.image.name}]"
    content = " ".join(filter(None, [shortened(item.text), name]))
    return f"{item.id}: {content}" if content else item.id


def _whole_items(items: Iterable[Item], broken: Failures, strict: bool) -> Iterator[Item]:
    """The items that an index would take; the errors of others are recorded, or raised if `strict`."""
    from concurrent.futures import ThreadPoolExecutor

    from genius.runtime import cores

    remaining = iter(items)
    with ThreadPoolExecutor(cores()) as threads:
        while chunk := list(itertools.islice(remaining, _CHECKED_AT_ONCE)):
            for item, error in zip(chunk, threads.map(_problem, chunk), strict=True):
                if error is None:
                    yield item
                elif strict:
                    raise error
                else:
                    broken.add(error)


def _problem(item: Item) -> ItemError | None:
    """Why an index would not take an item."""
    from genius.data.images import check
    from genius.data.instructions import clean

    try:
        if item.image is not None:
            check(item.image)
        elif not clean(item.text):
            raise InputError("its text says nothing")
    except InputError as error:
        return ItemError(item.id, error)
    return None


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
