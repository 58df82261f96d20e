"""What is fuzzed: our own parsers, with inputs that they accept."""

from __future__ import annotations

import base64
import hashlib
import io
import itertools
import json
import sqlite3
import tarfile
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from genius import storage
from genius.data.mbeir import TreePool
from genius.data.read import read
from genius.encode.checkpoints import open_checkpoint
from genius.errors import GeniusError
from genius.index import filters
from genius.search.codes import PackedCodes

MOST = 10_000
"""Records that are taken of one file."""
CORPUS = Path(__file__).with_name("corpus")
"""For each parser a file of inputs that take paths which others don't, one a line in base64."""


@dataclass(frozen=True)
class Parser:
    """Something that reads bytes.

    Attributes:
        name: of what it reads.
        corpus: gives inputs that it accepts.
        parse: reads the bytes, if need be by a file in the folder. May raise GeniusError.
        words: what is put into inputs now and then.
        needs: modules that the corpus is made with.
    """

    name: str
    corpus: Callable[[], list[bytes]]
    parse: Callable[[bytes, Path], object]
    words: tuple[bytes, ...] = ()
    needs: tuple[str, ...] = ()

    def inputs(self) -> list[bytes]:
        """The corpus, and what fuzzing added to it so far."""
        path = CORPUS / f"{self.name}.txt"
        lines = path.read_text("ascii").splitlines() if path.exists() else []
        return [*self.corpus(), *map(base64.b64decode, lines)]

    def accepts(self, content: bytes, folder: Path) -> bool:
        """Whether it reads some bytes; raises whatever else it does than to refuse them in a sentence."""
        try:
            self.parse(content, folder)
        except GeniusError as error:
            if isinstance(error.__cause__, MemoryError):
                raise MemoryError("refused for want of memory alone") from error
            return False
        return True


def _checkpoints() -> list[bytes]:
    import torch
    from safetensors.torch import save

    tensors = {"a.weight": torch.arange(6.0).reshape(2, 3), "b": torch.zeros(4, dtype=torch.float16)}
    contents = [save(tensors)]
    for zipped in (True, False):
        buffer = io.BytesIO()
        state = {"state_dict": tensors, "epoch": 3, "optimizer": {"lr": 0.1, "groups": [1, 2]}}
        torch.save(state, buffer, _use_new_zipfile_serialization=zipped)
        contents.append(buffer.getvalue())
    return contents


def _read_checkpoint(content: bytes, folder: Path) -> None:
    path = folder / ("a.safetensors" if content[:1] not in (b"P", b"\x80") else "a.pth")
    path.write_bytes(content)
    for tensor in open_checkpoint(path).values():
        if int(np.prod(tensor.shape, dtype=object)) <= 10**6:
            tensor.read()


def _filter_corpus() -> list[bytes]:
    filters_: list[Any] = [
        {"price": {"$lt": 3, "$gte": 1.5}},
        {"brand": "acme", "sizes": {"$in": [7, "b", None, True]}},
        {"$or": [{"a": {"$exists": False}}, {"$not": {"a.b": {"$ne": "x"}}}]},
        {"$and": [{"date": {"$gt": "2024-01-01"}}, {"a": {"$nin": []}}]},
    ]
    return [orjson.dumps(each) for each in filters_]


@cache
def _items() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE items (item_key INTEGER PRIMARY KEY, metadata TEXT NOT NULL)")
    rows = [{"price": 2, "brand": "acme"}, {"a": {"b": "x"}, "date": "2025-02-03"}, {}, {"sizes": [7, "b"]}]
    connection.executemany("INSERT INTO items (metadata) VALUES (?)", [(json.dumps(row),) for row in rows])
    return connection


def _read_filter(content: bytes, folder: Path) -> None:
    try:
        given = orjson.loads(content)
    except ValueError:
        return _read_condition(content, folder)
    if isinstance(given, dict):
        condition = filters.condition(given)
        _items().execute(f"SELECT item_key FROM items WHERE {condition.sql}", condition.values).fetchall()
    return None


def _read_condition(content: bytes, folder: Path) -> None:
    """The same as the command line has it."""
    given = filters.filter_of([content.decode("utf-8", "replace")])
    if given is not None:
        _read_filter(orjson.dumps(given), folder)


def _manifests() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        with storage.create(Path(folder, "a"), kind="test", format=1, settings={"a": [1, {}]}) as draft:
            (draft.folder / "file").write_bytes(b"content")
        return [Path(folder, "a", storage.MANIFEST).read_bytes()]


def _read_manifest(content: bytes, folder: Path) -> None:
    """As it is, and with the checksums that it should have: what is behind them sees few bytes otherwise."""
    try:
        storage.Manifest.parse(content, folder / storage.MANIFEST)
    except GeniusError:
        (folder / "a").mkdir(exist_ok=True)
        (folder / "a" / storage.MANIFEST).write_bytes(_sealed(content))
        storage.open(folder / "a", verify=True)


def _sealed(content: bytes) -> bytes:
    try:
        fields = orjson.loads(content)
    except ValueError:
        return content
    if not isinstance(fields, dict):
        return content
    told = {key: fields[key] for key in fields if key not in ("checksum", "fingerprint")}
    counted = {key: told[key] for key in told if key not in ("made_by", "made_at")}
    digest = hashlib.sha256(orjson.dumps(counted, option=orjson.OPT_SORT_KEYS)).hexdigest()
    return orjson.dumps({**told, "fingerprint": digest})


def _tars() -> list[bytes]:
    contents = []
    for format in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w", format=format) as archive:
            for name, content in (
                ("a.txt", b"text"),
                ("a.json", b'{"id": "x"}'),
                (f"{'b' * 70}/{'c' * 60}.jpg", b"\xff\xd8\xff"),
            ):
                member = tarfile.TarInfo(name)
                member.size = len(content)
                archive.addfile(member, io.BytesIO(content))
        contents.append(buffer.getvalue())
    return contents


def _read_file(name: str, content: bytes, folder: Path) -> None:
    path = folder / name
    path.write_bytes(content)
    for item in itertools.islice(read(path), MOST):
        if item.image is not None and name.endswith(".tar"):
            item.image.read()


def _tables() -> list[bytes]:
    rows: list[dict[str, Any]] = [
        {"id": "a", "text": "one", "image": "a.jpg", "metadata": {"price": 1.5, "tags": ["x"]}},
        {"id": 2, "caption": "zwei", "n": None, "deep": {"a": {"b": True}}},
    ]
    return [b"".join(orjson.dumps(row) + b"\n" for row in rows)]


def _candidates() -> list[bytes]:
    rows = [
        {
            "did": "9:1",
            "txt": "a text",
            "img_path": "mbeir_images/a.jpg",
            "modality": "image,text",
            "src_content": None,
        },
        {"did": "9:2", "txt": None, "img_path": "mbeir_images/b.jpg", "modality": "image"},
        {"did": "9:3", "txt": "only text", "img_path": None, "modality": "text"},
    ]
    return [b"".join(orjson.dumps(row) + b"\n" for row in rows)]


def _read_candidates(content: bytes, folder: Path) -> None:
    path = folder / "mbeir_a_cand_pool.jsonl"
    path.write_bytes(content)
    for _ in itertools.islice(TreePool(path, root=folder), MOST):
        pass


def _code_corpus() -> list[bytes]:
    return [bytes([2, 3, 4, 9, 1]) + bytes(range(60)), bytes([9, 1, 200, 5, 255, 3, 3]) + bytes(90)]


def _read_codes(content: bytes, folder: Path) -> None:
    """Bytes as codes of any sizes: what is packed is what comes out."""
    levels = 1 + content[0] % 9 if content else 1
    sizes = tuple(1 + 257 * size % 5000 for size in (*content[1 : 1 + levels], *[7] * levels)[:levels])
    numbers = np.frombuffer(content[1 + levels :], np.uint8).astype(np.int64)
    count = len(numbers) // levels
    codes = numbers[: count * levels].reshape(count, levels) * 97 % np.array(sizes)
    packed, order = PackedCodes.build(codes, sizes, min(1, levels - 1))
    again = PackedCodes.from_arrays(packed.arrays(), sizes, min(1, levels - 1), count)
    if not np.array_equal(again.codes(np.arange(count)), codes[order]):
        raise AssertionError("other codes come out than were packed")


_JSON_WORDS = (
    b"null",
    b"-1",
    b"1e999",
    b"{}",
    b"[]",
    b'""',
    b"\\ud800",
    b"\\u0000",
    b"true",
    b"{" * 500,
    b"[" * 2000,
    b"9" * 400,
)
PARSERS = (
    Parser(
        "checkpoints",
        _checkpoints,
        _read_checkpoint,
        (b"cos\nsystem\n", b"\x80\x02", b"R", b"b."),
        ("torch",),
    ),
    Parser(
        "filters",
        _filter_corpus,
        _read_filter,
        (*_JSON_WORDS, b'"$or"', b'"$not"', b'"$regex"', b'"a\\"b"', b'"a.b[0]"', b"price<3", b"a=b"),
    ),
    Parser("manifests", _manifests, _read_manifest, _JSON_WORDS),
    Parser(
        "tars",
        _tars,
        partial(_read_file, "a.tar"),
        (b"ustar\0", b"../../a", b"0" * 11, b"77777777777", b"1 size=9\n"),
    ),
    Parser("tables", _tables, partial(_read_file, "a.jsonl"), _JSON_WORDS),
    Parser(
        "csv-tables",
        lambda: [b'id,text,image,price\na,one,a.jpg,1\n"b","tw""o",,x\n'],
        partial(_read_file, "a.csv"),
        (b'"', b"\r", b"\0", b",,,,", b"\xff\xfe", b"\xef\xbb\xbf"),
    ),
    Parser(
        "mbeir-lines",
        _candidates,
        _read_candidates,
        (*_JSON_WORDS, b'"../../a.jpg"', b'"9:1"', b'"modality"'),
    ),
    Parser("packed-codes", _code_corpus, _read_codes),
)
