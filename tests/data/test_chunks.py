from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from genius.data.chunks import cut, read_chunk
from genius.data.read import read
from genius.errors import InputError
from tests.data.chunk_sources import (
    in_chunks,
    whole,
    write_csv,
    write_folder,
    write_gzip,
    write_jsonl,
    write_parquet,
    write_tables,
    write_tars,
)

KINDS = [write_jsonl, write_gzip, write_csv, write_parquet, write_tables, write_tars, write_folder]
sources = pytest.mark.parametrize("write", KINDS)


@sources
def test_chunks_together_are_the_collection(write: Callable[[Path], Path], tmp_path: Path) -> None:
    collection = read(write(tmp_path))
    items, errors = whole(collection)
    assert len(items) > 4 and (errors or write is write_parquet)
    counts = set()
    for size in (1, 3, 4, 7, 1000):
        chunked, failed, count = in_chunks(collection, size)
        assert (chunked, failed) == (items, errors)
        counts.add(count)
    assert min(counts) == 1 and max(counts) > 3


@sources
def test_the_cut_is_the_same_again_and_tells_a_changed_source(
    write: Callable[[Path], Path], tmp_path: Path
) -> None:
    path = write(tmp_path)
    chunks = list(cut(read(path), 4))
    assert [chunk.name for chunk in cut(read(path), 4)] == [chunk.name for chunk in chunks]
    assert len({chunk.name for chunk in chunks}) == len(chunks)
    changed = next(file for file in sorted(path.rglob("*")) if file.is_file()) if path.is_dir() else path
    changed.write_bytes(changed.read_bytes()[:-1] + b"\xff\xff")
    with pytest.raises(InputError, match=r"changed since|no whole"):
        for chunk in chunks:
            list(read_chunk(read(path), chunk, lambda error: None))


def test_a_change_while_a_chunk_is_read_is_noticed(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path)
    (chunk,) = cut(read(path), 1000)
    items = read_chunk(read(path), chunk, lambda error: None)
    next(items)
    path.write_text(path.read_text().replace("text 3", "text 4"))
    with pytest.raises(InputError, match=r"items.jsonl: has changed since it was cut"):
        list(items)


def test_an_appended_line_leaves_the_chunks_before_it(tmp_path: Path) -> None:
    path = write_jsonl(tmp_path)
    path.write_text(path.read_text() + "\n")
    before = [chunk.name for chunk in cut(read(path), 4)]
    with path.open("a") as file:
        file.write('{"id": "new", "text": "new"}\n' * 4)
    after = [chunk.name for chunk in cut(read(path), 4)]
    assert after[: len(before)] == before and len(after) == len(before) + 1


def test_vectors_and_trees_are_cut_by_their_items(tmp_path: Path, miniature: Path) -> None:
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "vectors.npy", np.eye(5, dtype=np.float32))
    (tmp_path / "vectors.txt").write_text("\n".join("abcde"))
    for collection in (read(tmp_path / "vectors.npy"), read(miniature)):
        assert in_chunks(collection, 2)[0] == whole(collection)[0]
