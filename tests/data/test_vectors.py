"""Vectors of one's own from files: what was written is what items get, and what can't be used is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from genius.data.read import read
from genius.data.records import Item, Modality, Query, Vectors
from genius.data.vectors import VectorTable, read_vector
from genius.errors import InputError

IDS = ["a", "b", "c d"]
ROWS = np.random.default_rng(0).normal(size=(3, 5)).astype(np.float32)
PRESENT = np.array([True, False, True])


def write(folder: Path, ending: str, ids: list[str] = IDS, rows: np.ndarray = ROWS) -> Path:
    path = folder / f"vectors{ending}"
    if ending == ".npy":
        np.save(path, rows)
    elif ending == ".npz":
        np.savez(path, vectors=rows, ids=np.array(ids))
    elif ending == ".safetensors":
        save_file({"vectors": rows}, path)
    else:
        pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.table({"id": ids, "vector": [row.tolist() for row in rows]}), path)
    if ending in (".npy", ".safetensors"):
        path.with_suffix(".txt").write_text("\n".join(ids) + "\n")
    return path


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors", ".parquet"])
def test_each_format_gives_items_their_vectors(tmp_path: Path, ending: str) -> None:
    vectors = write(tmp_path, ending)
    items = tmp_path / "items.jsonl"
    items.write_text("".join(f'{{"id": "{id}", "text": "text of {id}"}}\n' for id in reversed(IDS)))
    given = {item.id: item for item in read(items, vectors=vectors)}
    assert [given[id].text for id in IDS] == [f"text of {id}" for id in IDS]
    for id, row in zip(IDS, ROWS, strict=True):
        found_vectors = given[id].vectors
        assert found_vectors is not None and found_vectors.whole is not None
        np.testing.assert_array_equal(found_vectors.whole, row)


@pytest.mark.parametrize("ending", [".npy", ".npz", ".safetensors"])
def test_a_file_of_vectors_alone_is_a_collection(tmp_path: Path, ending: str) -> None:
    items = list(read(write(tmp_path, ending)))
    assert [(item.id, item.text, item.modality) for item in items] == [(id, id, Modality.TEXT) for id in IDS]


def test_a_parquet_file_of_vectors_alone_is_a_collection(tmp_path: Path) -> None:
    items = list(read(write(tmp_path, ".parquet")))
    assert [item.id for item in items] == IDS
    assert all(not item.metadata and item.vectors is not None for item in items)


def test_parts_may_be_absent(tmp_path: Path) -> None:
    path = tmp_path / "parts.npz"
    np.savez(path, ids=np.array(IDS), image=ROWS, text=2 * ROWS, has_image=PRESENT, has_text=~PRESENT)
    table = VectorTable.open(path)
    for row, (id, has_image) in enumerate(zip(IDS, PRESENT, strict=True)):
        given = table[id]
        assert (given.image is not None, given.text is not None, given.whole) == (
            has_image,
            not has_image,
            None,
        )
        np.testing.assert_array_equal(
            given.image if has_image else given.text, ROWS[row] * (1 if has_image else 2)
        )


@pytest.mark.parametrize(
    ("ids", "rows", "message"),
    [
        (["a", "b"], ROWS, "vectors has 3 rows for 2 ids"),
        (["a", "b", "a"], ROWS, "the id 'a' occurs twice"),
        (IDS, np.where(np.arange(5) == 2, np.nan, ROWS), "the vector of 'a' is all zeros or holds NaN"),
        (IDS, ROWS * np.array([[1], [0], [1]]), "the vector of 'b' is all zeros"),
        (IDS, ROWS[0], r"should be an array \[vectors, width\]"),
    ],
)
def test_what_can_not_be_used_is_named(
    tmp_path: Path, ids: list[str], rows: np.ndarray, message: str
) -> None:
    with pytest.raises(InputError, match=message) as raised:
        VectorTable.open(write(tmp_path, ".npz", ids, rows.astype(np.float32)))
    assert raised.value.path == tmp_path / "vectors.npz"


def test_a_file_without_ids_says_where_to_put_them(tmp_path: Path) -> None:
    path = write(tmp_path, ".npy")
    path.with_suffix(".txt").unlink()
    with pytest.raises(InputError, match=r"has no ids: put them into vectors.txt beside it"):
        VectorTable.open(path)


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "broken.npz").write_bytes(b"nothing")
    with pytest.raises(InputError, match="is no whole file of vectors"):
        VectorTable.open(tmp_path / "broken.npz")
    with pytest.raises(InputError, match=r"is no file of vectors: expected \.npy"):
        VectorTable.open(tmp_path / "vectors.csv")
    np.savez(tmp_path / "other.npz", ids=np.array(IDS), numbers=ROWS)
    with pytest.raises(InputError, match="holds no vectors"):
        VectorTable.open(tmp_path / "other.npz")


def test_ids_that_do_not_fit_are_said(tmp_path: Path) -> None:
    items = tmp_path / "items.jsonl"
    items.write_text('{"id": "a", "text": "x"}\n{"id": "z", "text": "y"}\n')
    collection = read(items, vectors=write(tmp_path, ".npz"))
    assert [item.id for item in collection] == ["a"]
    assert "item 'z' has no vector in" in str(collection.failures.first[0])
    (note,) = collection.notes
    assert note.startswith(f"{len(IDS) - 1} vectors of") and note.endswith("have an id that no item has")
    items.write_text('{"id": "a.jpg", "text": "x"}\n')
    with pytest.raises(InputError, match=r"ids like '.+' don't fit items like 'a.jpg'"):
        list(read(items, vectors=tmp_path / "vectors.npz"))


def test_a_vector_to_search_by(tmp_path: Path) -> None:
    for name, array in (("one", ROWS[0]), ("row", ROWS[:1])):
        np.save(tmp_path / f"{name}.npy", array)
        np.testing.assert_array_equal(read_vector(tmp_path / f"{name}.npy").whole, ROWS[0])
    with pytest.raises(InputError, match=r"not an array of the shape \[3, 5\]"):
        read_vector(write(tmp_path, ".npy"))
    with pytest.raises(InputError, match="holds 3 vectors, and a search is by one"):
        read_vector(write(tmp_path, ".npz"))


def test_records_take_vectors_and_refuse_what_is_none() -> None:
    assert Item("7", vector=[1.0, 2.0]).text == "7"
    assert Query(vector=Vectors(image=[1.0])).modality is Modality.IMAGE
    assert Query(vector=[1.0]).modality is Modality.TEXT
    for given, message in (
        ([1.0, float("nan")], "NaN or infinity"),
        ([0.0, 0.0], "all zeros"),
        ([[1.0]], "shape"),
        ("words", "list of numbers"),
    ):
        with pytest.raises(InputError, match=message):
            Query(vector=given)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="give one of them"):
        Query(text="a", vector=[1.0])
    with pytest.raises(InputError, match="differ in width"):
        Vectors(image=[1.0], text=[1.0, 2.0])
    with pytest.raises(InputError, match="give one vector of the whole"):
        Vectors([1.0], text=[1.0])


@pytest.mark.parametrize(
    "vectors", [Vectors([1.0, 2.0]), Vectors(image=[1.0]), Vectors(image=[1.0], text=[2.0])]
)
def test_vectors_survive_json(vectors: Vectors) -> None:
    assert Vectors.of(vectors.to_json()).tobytes() == vectors.tobytes()
