"""Collections of every kind with something wrong in each, and what they hold, whole and in chunks."""

from __future__ import annotations

import csv
import gzip
import io
import json
import tarfile
from pathlib import Path

import pytest

from genius.data.chunks import cut, read_chunk, shared_errors
from genius.data.collection import Collection
from genius.data.records import Item
from genius.errors import InputError
from tests.pictures import square

ROWS = [
    {"id": "0", "text": "first"},
    {"id": "1", "text": "second,\nof two lines", "colour": "red"},
    {"id": "", "text": "without an id"},
    *({"id": f"i{number}", "text": f"text {number}", "colour": "blue"} for number in range(17)),
    {"id": "last", "text": "", "colour": "none"},
]


def jsonl(path: Path) -> Path:
    lines = [json.dumps(row) for row in ROWS]
    lines[4:4] = ["", "{broken", '"a text"']
    path.write_text("\ufeff" + "\n".join(lines))  # the last line has no end
    return path


def write_jsonl(folder: Path) -> Path:
    return jsonl(folder / "items.jsonl")


def write_gzip(folder: Path) -> Path:
    path = folder / "items.jsonl.gz"
    path.write_bytes(gzip.compress(jsonl(folder / "plain").read_bytes()))
    return path


def write_csv(folder: Path) -> Path:
    with (folder / "items.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["id", "text", "colour"])
        writer.writeheader()
        writer.writerows(ROWS)
        file.write("too,many,fields,here\n")
    return folder / "items.csv"


def write_parquet(folder: Path) -> Path:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = arrow.Table.from_pylist([{"colour": None, **row} for row in ROWS])
    parquet.write_table(table, folder / "items.parquet", row_group_size=4)
    return folder / "items.parquet"


def write_tables(folder: Path) -> Path:
    tables = folder / "tables"
    tables.mkdir()
    for name in ("a", "b"):
        lines = [json.dumps({"text": f"{name} {number}"}) for number in range(5)]
        (tables / f"{name}.jsonl").write_text("\n".join(lines) + "\nbroken\n")
    (tables / "c.csv").write_text("id,text\nc1,one\nc2,two\n")
    if (parquet := write_parquet(folder)).exists():
        parquet.rename(tables / "d.parquet")
    return tables


def write_tars(folder: Path) -> Path:
    shards = folder / "shards"
    shards.mkdir()
    for shard in range(3):
        with tarfile.open(shards / f"{shard}.tar", "w") as archive:
            for number in range(4):
                for ending, content in (("jpg", square()), ("txt", f"{shard} {number}".encode())):
                    member = tarfile.TarInfo(f"{shard}-{number}.{ending}")
                    member.size = len(content)
                    archive.addfile(member, io.BytesIO(content))
    (shards / "3.tar").write_bytes(b"no tar at all")
    return shards


def write_folder(folder: Path) -> Path:
    photos = folder / "photos"
    for name in ("b/c/1.jpg", "b/2.jpg", "a/3.jpg", "4.jpg"):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / name).write_bytes(square())
    (photos / "b/2.txt").write_text("a sidecar")
    (photos / "a/own.txt").write_text("a text of its own")
    (photos / "a/empty.txt").write_text("")
    (photos / "captions.csv").write_text(
        "image,text,place\n4.jpg,four,Rome\n4.jpg,vier,Rome\nno.jpg,none,\n,x,\n"
    )
    return photos


def whole(collection: Collection) -> tuple[list[Item], list[str]]:
    errors: list[InputError] = []
    return [item for _, _, item in collection._located_items(errors.append)], sorted(map(str, errors))


def in_chunks(collection: Collection, size: int) -> tuple[list[Item], list[str], int]:
    errors: list[InputError] = []
    chunks = list(cut(collection, size))
    shared_errors(collection, errors.append)
    items = [item for chunk in chunks for _, _, item in read_chunk(collection, chunk, errors.append)]
    return items, sorted(map(str, errors)), len(chunks)
