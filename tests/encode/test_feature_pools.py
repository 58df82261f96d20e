"""Embeddings in the files of UniIR and GENIUS: what was written is what ids get, and bad files are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.data.hashed_ids import ids_file, kind_of_file, original_ids
from genius.data.read import read
from genius.data.vectors import VectorTable
from genius.encode.feature_pools import open_vectors
from genius.errors import InputError

WIDTH = 6
ITEMS = ["9:1", "9:1000007", "10:2"]
HASHED = [90_000_001, 91_000_007, 100_000_002]
ROWS = np.random.default_rng(0).normal(size=(3, WIDTH)).astype(np.float32)


def write_uniir(folder: Path, name: str, hashed: Any, rows: np.ndarray = ROWS) -> Path:
    """As UniIR's embedder writes them: 16 bits, ids in a file of their own."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"mbeir_{name}_embed.npy"
    np.save(path, rows.astype(np.float16))
    np.save(folder / f"mbeir_{name}_ids.npy", hashed)
    return path


def write_pool(path: Path, **changes: Any) -> Path:
    """As GENIUS's extraction of features writes a pool."""
    torch = pytest.importorskip("torch")
    path.parent.mkdir(parents=True, exist_ok=True)
    pool = {
        "img": torch.from_numpy(ROWS).half(),
        "text": torch.from_numpy(2 * ROWS).half(),
        "img_mask": torch.tensor([1, 0, 1]),
        "text_mask": torch.tensor([0, 1, 1]),
        "id_to_index": dict(zip(HASHED, range(3), strict=True)),
    }
    torch.save({name: value for name, value in (pool | changes).items() if value is not None}, path)
    return path


def test_names_say_what_a_file_holds() -> None:
    names = {
        "mbeir_mscoco_task0_test_cand_pool_embed.npy": "items",
        "mbeir_union_cand_pool_embed.npy": "items",
        "mbeir_cirr_task7_cand_pool_embeddings.npy": "items",
        "mbeir_mscoco_task0_test_embed.npy": "queries",
        "mbeir_oven_task6_val_embeddings.npy": "queries",
        "cand_pool_mscoco_task3_test_IT_dict.pt": "items",
        "pool_SFpretrained_IT_dict.pt": "items",
        "mbeir_union_cand_pool_IT_dict.pt": "items",
        "query_SFpretrained_instruction_IT_dict.pt": "queries",
        "mbeir_mscoco_task0_test_cand_pool_embed_gpu_0.npy": None,
        "mbeir_mscoco_task0_test_ids.npy": None,
        "vectors.npy": None,
        "rq_clip_large.pt": None,
    }
    assert {name: kind_of_file(Path(name)) for name in names} == names
    assert ids_file(Path("a/mbeir_x_test_embed.npy")) == Path("a/mbeir_x_test_ids.npy")
    assert ids_file(Path("mbeir_x_cand_pool_embeddings.npy")).name == "mbeir_x_cand_pool_ids.npy"


def test_numbers_stand_for_the_ids_of_m_beir() -> None:
    assert original_ids(np.array(HASHED), "items") == ITEMS
    assert original_ids(np.array([4_500_012, 0, 5_000_002]), "queries") == ["9:12", "0:0", "10:2"]
    for wrong in (np.array([0.5]), np.array([-3]), np.array([[1]])):
        with pytest.raises(InputError, match="should hold a whole number for each id"):
            original_ids(wrong, "items")


def test_uniir_s_files(tmp_path: Path) -> None:
    path = write_uniir(tmp_path, "mscoco_task0_test_cand_pool", HASHED)
    table = open_vectors(path)
    assert table.ids == ITEMS
    for id, row in zip(ITEMS, ROWS.astype(np.float16), strict=True):
        np.testing.assert_array_equal(table[id].whole, row.astype(np.float32))
    write_uniir(tmp_path, "mscoco_task0_test", [4_500_001, 4_500_002, 4_500_003])
    assert open_vectors(tmp_path, "queries").ids == ["9:1", "9:2", "9:3"]
    assert open_vectors(tmp_path, "items").ids == ITEMS
    # They are the vectors of a collection's items.
    items = tmp_path / "items.jsonl"
    items.write_text("".join(f'{{"id": "{id}", "text": "text of {id}"}}\n' for id in ITEMS))
    for vectors in (path, open_vectors(tmp_path)):
        assert all(item.vectors is not None for item in read(items, vectors=vectors))


def test_genius_s_pools(tmp_path: Path) -> None:
    path = write_pool(tmp_path / "cand" / "cand_pool_mscoco_task0_test_IT_dict.pt")
    table = open_vectors(path)
    assert table.ids == ITEMS
    parts = {id: (table[id].image is not None, table[id].text is not None) for id in ITEMS}
    assert list(parts.values()) == [(True, False), (False, True), (True, True)]
    np.testing.assert_array_equal(table["10:2"].image, ROWS[2].astype(np.float16))
    np.testing.assert_array_equal(table["10:2"].text, (2 * ROWS[2]).astype(np.float16))
    # Rows are found by the dictionary, in any order, and rows that it does not name are left out.
    other = write_pool(tmp_path / "pool_SFpretrained_IT_dict.pt", id_to_index={90_000_005: 2, 90_000_006: 0})
    table = open_vectors(other)
    assert table.ids == ["9:5", "9:6"]
    np.testing.assert_array_equal(table["9:6"].image, ROWS[0].astype(np.float16))


def test_the_union_s_ids_are_tensors(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    ids = torch.LongTensor(HASHED)
    path = tmp_path / "mbeir_union_cand_pool_IT_dict.pt"
    write_pool(path, id_to_index={id: row for row, id in enumerate(ids)})
    assert open_vectors(path).ids == ITEMS


def test_several_files_are_one_table(tmp_path: Path) -> None:
    write_uniir(tmp_path / "cand_pool", "a_task0_cand_pool", HASHED[:2], ROWS[:2])
    write_uniir(tmp_path / "cand_pool", "b_task0_cand_pool", HASHED[1:], ROWS[1:])
    table = open_vectors(tmp_path)
    assert table.ids == ITEMS and len(table) == 3 and "9:2" not in table
    np.testing.assert_array_equal(table["10:2"].whole, ROWS[2].astype(np.float16))
    write_uniir(tmp_path / "cand_pool", "c_task0_cand_pool", [1], np.ones((1, 4)))
    with pytest.raises(InputError, match=r"its vectors have 4 numbers, and those of mbeir_a.* have 6"):
        open_vectors(tmp_path)


@pytest.mark.parametrize(
    ("name", "hashed", "rows", "message"),
    [
        ("a_cand_pool", HASHED[:2], ROWS, "vectors has 3 rows for 2 ids"),
        ("a_cand_pool", [1, 1, 2], ROWS, "the id '0:1' occurs twice"),
        ("a_cand_pool", ["9:1", "9:2", "9:3"], ROWS, "should hold a whole number for each id, but holds <U3"),
        ("a_cand_pool", HASHED, np.where(ROWS > 0.5, np.nan, ROWS), "is all zeros or holds NaN"),
        ("a_cand_pool", HASHED, ROWS[0], r"vectors should be an array \[vectors, width\], but is \[6\]"),
        ("a_test", HASHED, ROWS, "holds vectors of queries by its name, and not of items"),
    ],
)
def test_files_of_uniir_that_do_not_fit_are_named(
    tmp_path: Path, name: str, hashed: Any, rows: np.ndarray, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        open_vectors(write_uniir(tmp_path, name, hashed, rows))


def test_missing_ids_and_empty_folders_are_named(tmp_path: Path) -> None:
    path = write_uniir(tmp_path, "a_cand_pool", HASHED)
    ids_file(path).unlink()
    with pytest.raises(InputError, match=r"has no ids: mbeir_a_cand_pool_ids\.npy should be beside it"):
        VectorTable.open(path)
    with pytest.raises(InputError, match="has no vectors of queries: expected files such as mbeir_cirr"):
        open_vectors(tmp_path, "queries")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"img": None}, "is no pool of features: it has no img, but img_mask, text, text_mask"),
        ({"id_to_index": None}, "has no dictionary 'id_to_index'; it holds: img, text, img_mask, text_mask"),
        ({"id_to_index": {1: 7}}, "has ids of rows up to 7, but 3 rows"),
        ({"id_to_index": {"9:1": 0}}, "'id_to_index' should be a dictionary of whole numbers"),
        ({"id_to_index": {-5: 0}}, "should hold a whole number for each id"),
    ],
)
def test_pools_that_do_not_fit_are_named(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    path = write_pool(tmp_path / "cand_pool_a_IT_dict.pt", **changes)
    with pytest.raises(InputError, match=message) as raised:
        open_vectors(path)
    assert raised.value.path == path


def test_bad_numbers_and_hostile_pools_are_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    path = tmp_path / "cand_pool_a_IT_dict.pt"
    write_pool(path, img=torch.full((3, WIDTH), torch.nan))
    with pytest.raises(InputError, match="the vector of '9:1' is all zeros or holds NaN"):
        open_vectors(path)
    write_pool(path, text=torch.ones(2, WIDTH))
    with pytest.raises(InputError, match="has tensors of different lengths"):
        open_vectors(path)

    class Hostile:
        def __reduce__(self) -> Any:
            import os

            return os.system, ("true",)

    write_pool(path, more=Hostile())
    with pytest.raises(InputError, match=r"was refused: it asks for \w+\.system, which is no data"):
        open_vectors(path)
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(InputError, match="is no checkpoint, or a damaged one"):
        open_vectors(path)


def test_a_dictionary_that_is_too_large_is_no_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from genius.encode import checkpoints

    monkeypatch.setattr(checkpoints, "MAX_PICKLE_BYTES", 100)
    with pytest.raises(InputError, match="use the files of single pools instead of their union"):
        open_vectors(write_pool(tmp_path / "mbeir_union_cand_pool_IT_dict.pt"))
