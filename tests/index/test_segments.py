from __future__ import annotations

import tempfile
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.errors import DamagedError, InputError, MismatchError
from genius.index import segments
from genius.index.segments import Coding, gather, open_segment, write_segment
from genius.index.writer import merge
from genius.search.codes import PackedCodes
from tests.index.made_up import CODING, EXACT, LEARNED, NO_FIRST, NONE, block, segment


@pytest.mark.parametrize("coding", [CODING, LEARNED, NO_FIRST])
@pytest.mark.parametrize("count", [1, 50, 45_000])
def test_what_is_written_is_what_is_opened(tmp_path: Path, coding: Coding, count: int) -> None:
    made = block(np.random.default_rng(count), count, coding, first_row=7)
    found = segment(tmp_path / "s", made, coding)
    order = np.lexsort((np.arange(count), *made.codes.T[::-1]))
    np.testing.assert_array_equal(found.codes, made.codes[order])
    np.testing.assert_array_equal(found.rows, made.rows[order])
    np.testing.assert_array_equal(found.halves, made.halves[order])
    np.testing.assert_array_equal(found.exact, made.embeddings[order])
    np.testing.assert_array_equal(found.modality, made.modality[order])
    assert found.coarse is not None and found.coarse.dtype == np.int8
    off = np.abs(found.coarse * found.scale - made.embeddings[order].astype(np.float32))
    assert off.max() <= found.scale / 2 + 1e-6
    assert (tmp_path / "s/modality.npy").exists() != coding.told


@pytest.mark.parametrize("coding", [EXACT, NONE])
def test_an_index_keeps_the_embeddings_that_it_is_told_to(tmp_path: Path, coding: Coding) -> None:
    made = block(np.random.default_rng(1), 50, coding)
    found = segment(tmp_path / "s", made, coding)
    order = np.lexsort((np.arange(50), *made.codes.T[::-1]))
    kept = made.embeddings[order] if coding is EXACT else made.embeddings[:, :0]
    np.testing.assert_array_equal(found.exact, kept)
    assert found.coarse is None and not (tmp_path / "s/coarse.npy").exists()
    assert (found.part(np.zeros(0)).exact is None) == (coding is NONE)
    np.testing.assert_array_equal(gather([found], np.arange(50)), kept)
    again = segment(tmp_path / "t", merge([found], np.zeros(0, np.int64)).block, coding)
    np.testing.assert_array_equal(again.exact, kept)
    assert Coding.read(asdict(coding)) == coding
    with pytest.raises(InputError, match="unknown embeddings 'int4': expected one of int8, fp16, none"):
        Coding.read({**asdict(coding), "embeddings": "int4"})


def test_embeddings_are_gathered_through_several_segments(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    made = [segment(tmp_path / str(n), block(random, n, CODING), CODING) for n in (3, 1, 5)]
    numbers = random.permutation(9)
    expected = np.concatenate([one.exact for one in made])[numbers].astype(np.float32)
    np.testing.assert_array_equal(gather(made, numbers), expected)


def test_a_damaged_segment_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "s"
    fingerprint = write_segment(path, block(np.random.default_rng(0), 30, LEARNED), LEARNED, "model")
    for name in ("hi", "firsts", "rows", "exact", "coarse", "halves", "modality"):
        file = path / f"{name}.npy"
        whole = file.read_bytes()
        for wrong in (whole[:-1], b"", whole[:-1] + bytes([whole[-1] ^ 1]), whole[:9] + b"X" + whole[10:]):
            file.write_bytes(wrong)
            with pytest.raises(DamagedError, match=f"{name}.npy is damaged"):
                open_segment(path, LEARNED, fingerprint)
        file.unlink()
        with pytest.raises(DamagedError, match=f"{name}.npy is gone"):
            open_segment(path, LEARNED, fingerprint)
        file.write_bytes(whole)
    open_segment(path, LEARNED, fingerprint, verify=True)
    with pytest.raises(DamagedError, match="is not the segment that the catalogue names"):
        open_segment(path, LEARNED, "0" * 64)
    with pytest.raises(DamagedError, match="is gone"):
        open_segment(tmp_path / "t", LEARNED, fingerprint)


def test_a_segment_of_an_old_format_is_refused_with_a_way_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        before.setattr(segments, "FORMAT", segments.FORMAT - 1)
        made = block(np.random.default_rng(0), 3, CODING)
        fingerprint = write_segment(tmp_path / "s", made, CODING, "model")
    with pytest.raises(MismatchError, match="make the index again, with: genius index"):
        open_segment(tmp_path / "s", CODING, fingerprint)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 999),
    st.sampled_from([CODING, LEARNED, NO_FIRST]),
    st.integers(1, 60),
    st.booleans(),
    st.booleans(),
)
def test_a_segment_opens_to_the_bit_as_it_was_packed(
    seed: int, coding: Coding, count: int, one_modality: bool, alike: bool
) -> None:
    random = np.random.default_rng(seed)
    made = block(random, count, coding)
    if one_modality:
        made.codes[:, 0] = 1
    if alike:
        made.codes[:] = made.codes[0]
    packed, order = PackedCodes.build(made.codes, coding.sizes, coding.semantic)
    with tempfile.TemporaryDirectory() as folder:
        opened = segment(Path(folder, "s"), made, coding)
        assert {name: array.tobytes() for name, array in opened.packed.arrays().items()} == {
            name: array.tobytes() for name, array in packed.arrays().items()
        }
        assert opened.exact.tobytes() == made.embeddings[order].tobytes()
        assert opened.halves.tobytes() == made.halves[order].tobytes()
        assert opened.part(np.zeros(0, np.int64)).allowed is None
        gone = np.sort(random.choice(made.rows, count // 2, replace=False))
        allowed = opened.part(gone).allowed
        expected = ~np.isin(made.rows[order], gone)
        np.testing.assert_array_equal(np.ones(count, bool) if allowed is None else allowed, expected)
