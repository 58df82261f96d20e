"""What an index exports, read back: the same items, in the same order, and so the same index."""

from __future__ import annotations

import gzip
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import genius
from genius.data.records import ImageBytes, ImageFile, ImageInTar, Item
from genius.errors import InputError, MissingError
from genius.index import stored_items
from genius.index.stored_items import open_stored_items
from tests.index.made_up import made_up_items
from tests.index.made_up_index import encode, made, open_made_up

FORMATS = ["items.jsonl", "items.ndjson.gz", "items.parquet"]
METADATA: dict[str, Any] = {
    "nothing": None,
    "whole": 2**63 - 1,
    "real": 1.0,
    "small": 1e-9,
    "true": True,
    "text": "42",
    "list": '["a", 1]',
    "nested": '{"a": {"b": [1, null]}}',
    "genius_code": "its own",
    "id": "another",
    "": "no name",
    "metadata": "{",
    "ünïcödé \n\t\u2028": '"',
}
ODD = [
    Item("007", "007", None, METADATA),
    Item(" two\nlines ", " spaces \r\n and\u2028breaks ", None, {"whole": "now a text"}),
    Item("-", "=1+1", None, {}),
    Item("1e5", "\u00e9 e\u0301 🦊", None, {"whole": 1.5}),
]


@pytest.fixture(scope="module", autouse=True)
def _small_chunks() -> Iterator[None]:
    """So that items come in several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_items, "CHUNK", 4)
        yield


def fields(item: Item) -> tuple[Any, ...]:
    metadata = [(key, type(value), value) for key, value in sorted(item.metadata.items())]
    return item.id, item.text, item.image and item.image.read(), metadata


@pytest.mark.parametrize("name", FORMATS)
def test_an_export_is_read_back(tmp_path: Path, name: str) -> None:
    for number in range(3):
        (tmp_path / f"photo {number}.jpg").write_bytes(b"\xff\xd8\xffcontent %d" % (number // 2))
    files = [Item(f"f{n}", None, ImageFile(str(tmp_path), f"photo {n}.jpg")) for n in range(3)]
    kept = [Item("kept", "a text", ImageBytes(b"\x89PNG kept", "no name"))]
    items = [*ODD, *files, *kept, *made_up_items(6)]
    path = made(tmp_path / "index", items)
    out = tmp_path / "export" / name
    with open_made_up(path) as index:
        report = index.export(out, codes=True, embeddings=True, images=tmp_path / "export" / "images")
        assert (report.items, report.images, report.failures.count) == (14, 7, 0)
        before = [(fields(item), index.code(item.id)) for item in index]
    (tmp_path / "export").rename(tmp_path / "elsewhere")  # it needs nothing else
    for number in range(3):
        (tmp_path / f"photo {number}.jpg").unlink()
    table = tmp_path / "elsewhere" / name
    with open_made_up(tmp_path / "again") as again:
        added = again.add(genius.read(table))
        assert (added.added, added.failures.count, added.prefix) == (14, 0, "")
        assert [(fields(item), again.code(item.id)) for item in again] == before
        assert [hit.item.id for hit in again.search("a dog", k=20)]
    endings = {file.suffix for file in (tmp_path / "elsewhere" / "images").rglob("*") if file.is_file()}
    assert endings == {".jpg", ".png"}


KEYS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
SCALARS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | KEYS
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
NO_ZERO = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
ANY_ITEMS = st.lists(
    st.builds(Item, NO_ZERO, NO_ZERO, st.none(), st.dictionaries(KEYS, SCALARS | FLOATS, max_size=4)),
    min_size=1,
    max_size=6,
    unique_by=lambda item: item.id,
)


@settings(max_examples=25)
@given(ANY_ITEMS, st.sampled_from(FORMATS))
def test_any_item_is_read_back(
    tmp_path_factory: pytest.TempPathFactory, items: list[Item], name: str
) -> None:
    folder = tmp_path_factory.mktemp("any")
    with open_made_up(folder / "index") as index:
        assert index.add(items).added == len(items)
        index.export(folder / name)
    assert [fields(item) for item in genius.read(folder / name)] == [fields(item) for item in items]


def test_codes_and_embeddings(tmp_path: Path) -> None:
    items = made_up_items(30)[1::3]  # texts
    encoded = encode(items)
    path = made(tmp_path / "index", items)
    with open_made_up(path) as index:
        index.export(tmp_path / "bare.jsonl")
        index.export(tmp_path / "full.jsonl", codes=True, embeddings=True)
        index.export(tmp_path / "full.parquet", codes=True, embeddings=True)
    rows = [orjson.loads(line) for line in (tmp_path / "full.jsonl").read_bytes().splitlines()]
    import pyarrow.parquet

    assert [row["genius_code"] for row in rows] == encoded.codes.tolist()
    assert np.array_equal([row["genius_embedding"] for row in rows], encoded.embeddings)
    columns = pyarrow.parquet.read_table(tmp_path / "full.parquet")
    assert columns["genius_code"].to_pylist() == encoded.codes.tolist()
    assert np.array_equal(columns["genius_embedding"].to_pylist(), encoded.embeddings)
    assert set(orjson.loads((tmp_path / "bare.jsonl").read_bytes().splitlines()[0])) == {
        "id",
        "text",
        "metadata",
    }
    for name in ("full.jsonl", "full.parquet"):  # which are no metadata and no vectors when they are read
        assert [fields(item) for item in genius.read(tmp_path / name)] == [fields(item) for item in items]
        assert all(item.vector is None for item in genius.read(tmp_path / name))


def test_images_stay_where_they_are(tmp_path: Path) -> None:
    for name in ("near/a.jpg", "far/b.jpg", "far/odd\\name.jpg"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(name.encode())
    items = [
        Item("near", None, ImageFile(str(tmp_path / "near"), "a.jpg")),
        Item("far", None, ImageFile(str(tmp_path), "far/b.jpg")),
        Item("odd", None, ImageFile(str(tmp_path), "far/odd\\name.jpg")),
        Item("tar", None, ImageInTar(str(tmp_path / "far/b.jpg"), "b.jpg", 0, 9)),
    ]
    path = made(tmp_path / "index", items)
    heard: list[InputError] = []
    with open_made_up(path) as index:
        report = index.export(tmp_path / "near" / "items.jsonl", on_failure=heard.append)
        with pytest.raises(InputError, match=r"item 'odd'.*--images"):
            index.export(tmp_path / "strict.jsonl", strict=True)
        assert not (tmp_path / "strict.jsonl").exists()
        copied = index.export(tmp_path / "copied.jsonl", images=tmp_path / "copies")
    assert (report.items, report.absolute, report.images, report.failures.count) == (2, 1, 0, 2)
    assert "odd" in str(heard[0]) and "is no file of its own" in str(heard[1])
    read = {item.id: item for item in genius.read(tmp_path / "near" / "items.jsonl", root="/")}
    assert read["far"].image_path == (tmp_path / "far/b.jpg").resolve()
    rows = [orjson.loads(line) for line in (tmp_path / "near" / "items.jsonl").read_bytes().splitlines()]
    assert rows[0]["image"] == "a.jpg" and rows[1]["image"] == str((tmp_path / "far/b.jpg").resolve())
    assert (copied.items, copied.images) == (4, 3)  # two are the same bytes
    assert [item.image and item.image.read() for item in genius.read(tmp_path / "copied.jsonl")] == [
        item.image and item.image.read() for item in items
    ]


def test_an_export_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = made(tmp_path / "index", made_up_items(12))
    images, out = tmp_path / "images", tmp_path / "items.jsonl"
    real, written = Path.write_bytes, list[Path]()

    def full_after_three(self: Path, content: bytes) -> int:
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(self)
        return real(self, content)

    with open_made_up(path) as index:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "write_bytes", full_after_three)
            with pytest.raises(KeyboardInterrupt):
                index.export(out, images=images)
        assert not out.exists() and not list(tmp_path.glob(".items*"))
        done = [file for file in images.rglob("*") if file.is_file()]
        assert len(done) == 3
        done[0].write_bytes(b"cut sho")  # as a power loss may leave it
        report = index.export(out, images=images)
    assert (report.items, report.images) == (12, 8)
    assert [fields(item) for item in genius.read(out)] == [fields(item) for item in made_up_items(12)]


def test_an_image_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"a")
    path = made(tmp_path / "index", [Item("a", "text", ImageFile(str(tmp_path), "a.jpg")), *made_up_items(2)])
    (tmp_path / "a.jpg").unlink()
    with open_made_up(path) as index:
        report = index.export(tmp_path / "out.jsonl", codes=True, images=tmp_path / "images")
        assert (report.items, report.failures.count) == (2, 1)
        assert "item 'a': " in str(report.failures.first[0])
        codes = [
            orjson.loads(line)["genius_code"] for line in (tmp_path / "out.jsonl").read_bytes().splitlines()
        ]
        assert codes == [list(index.code(item.id) or ()) for item in made_up_items(2)]


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "there.jsonl").write_text("mine")
    with open_made_up(made(tmp_path / "none", made_up_items(2)[1:], "none")) as index:
        with pytest.raises(InputError, match="keeps no embeddings"):
            index.export(tmp_path / "out.jsonl", embeddings=True)
        with pytest.raises(InputError, match="exists already"):
            index.export(tmp_path / "there.jsonl")
        with pytest.raises(InputError, match=r"end it in one of \.parquet"):
            index.export(tmp_path / "out.csv")
        for wrong in (tmp_path, tmp_path.parent / "elsewhere"):
            with pytest.raises(InputError, match="a folder below"):
                index.export(tmp_path / "out.jsonl", images=wrong)
        with pytest.raises(InputError, match="is no folder"):
            index.export(tmp_path / "out.jsonl", images=tmp_path / "there.jsonl")
        monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
        with pytest.raises(MissingError, match="writing Parquet files needs pyarrow"):
            index.export(tmp_path / "out.parquet")
        index.export(tmp_path / "one.jsonl", codes=True)
    assert len(list(genius.read(tmp_path / "one.jsonl"))) == 1
    with (
        open_made_up(made(tmp_path / "empty")) as index,
        pytest.raises(InputError, match="the index is empty: there is nothing to export"),
    ):
        index.export(tmp_path / "out.jsonl")
    assert (tmp_path / "there.jsonl").read_text() == "mine"
    assert not (tmp_path / "out.jsonl").exists()


def test_packed_exports_are_the_same_every_time(tmp_path: Path) -> None:
    path = made(tmp_path / "index", ODD)
    with open_made_up(path) as index:
        index.export(tmp_path / "a.jsonl.gz")
        index.export(tmp_path / "b.jsonl.gz")
        index.export(tmp_path / "c.jsonl")
    packed = (tmp_path / "a.jsonl.gz").read_bytes()
    assert packed == (tmp_path / "b.jsonl.gz").read_bytes()
    assert gzip.GzipFile(fileobj=io.BytesIO(packed)).read() == (tmp_path / "c.jsonl").read_bytes()
    with open_stored_items(path) as stored:
        assert len(stored) == len(ODD)
