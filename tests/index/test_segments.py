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
from genius.index.segments import Segment, SegmentFormat, gather_embeddings, open_segment, write_segment
from genius.index.writer import merge
from genius.search.codes import PackedCodes
from tests.index.made_up import FP16, GIVEN, LEARNED, NO_MODALITY_CODE, NONE, made_up_block, written

NO_TOMBSTONES = np.zeros(0, np.int64)


@pytest.mark.parametrize("format", [GIVEN, LEARNED, NO_MODALITY_CODE])
@pytest.mark.parametrize("count", [1, 50, 45_000])
def test_what_is_written_is_what_is_opened(tmp_path: Path, format: SegmentFormat, count: int) -> None:
    block = made_up_block(np.random.default_rng(count), count, format, first_key=7)
    segment = written(tmp_path / "s", block, format)
    order = np.lexsort((np.arange(count), *block.codes.T[::-1]))
    np.testing.assert_array_equal(segment.codes, block.codes[order])
    np.testing.assert_array_equal(segment.item_keys, block.item_keys[order])
    np.testing.assert_array_equal(segment.half_sq_norms, block.half_sq_norms[order])
    np.testing.assert_array_equal(segment.embeddings, block.embeddings[order])
    np.testing.assert_array_equal(segment.modality, block.modality[order])
    assert segment.embeddings_int8 is not None and segment.embeddings_int8.dtype == np.int8
    errors = np.abs(segment.embeddings_int8 * segment.scale - block.embeddings[order].astype(np.float32))
    assert errors.max() <= segment.scale / 2 + 1e-6
    assert (tmp_path / "s/modality.npy").exists() != format.modality_given


@pytest.mark.parametrize("format", [FP16, NONE])
def test_an_index_keeps_the_embeddings_that_its_format_says(tmp_path: Path, format: SegmentFormat) -> None:
    block = made_up_block(np.random.default_rng(1), 50, format)
    segment = written(tmp_path / "s", block, format)
    order = np.lexsort((np.arange(50), *block.codes.T[::-1]))
    kept = block.embeddings[order] if format is FP16 else block.embeddings[order][:, :0]
    np.testing.assert_array_equal(segment.embeddings, kept)
    assert segment.embeddings_int8 is None and not (tmp_path / "s/embeddings_int8.npy").exists()
    assert (segment.view(NO_TOMBSTONES).embeddings is None) == (format is NONE)
    np.testing.assert_array_equal(gather_embeddings([segment], np.arange(50)), kept)
    merged = written(tmp_path / "t", merge([segment], NO_TOMBSTONES).block, format)
    np.testing.assert_array_equal(merged.embeddings, kept)
    assert SegmentFormat.read(asdict(format)) == format
    with pytest.raises(InputError, match="unknown embeddings 'int4': expected one of int8, fp16, none"):
        SegmentFormat.read({**asdict(format), "embeddings": "int4"})


@pytest.mark.parametrize("format", [GIVEN, LEARNED, NO_MODALITY_CODE, FP16, NONE])
def test_a_segment_in_memory_is_what_a_written_one_is(tmp_path: Path, format: SegmentFormat) -> None:
    block = made_up_block(np.random.default_rng(2), 60, format, first_key=5)
    opened, in_memory = written(tmp_path / "s", block, format), Segment.in_memory(block, format)
    for name in ("codes", "item_keys", "embeddings", "half_sq_norms", "modality"):
        np.testing.assert_array_equal(getattr(in_memory, name), getattr(opened, name))
    assert in_memory.embeddings.dtype == opened.embeddings.dtype
    assert in_memory.scale == opened.scale
    if format.embeddings == "int8":
        np.testing.assert_array_equal(in_memory.embeddings_int8, opened.embeddings_int8)
    else:
        assert in_memory.embeddings_int8 is None


def test_embeddings_are_gathered_through_several_segments(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    opened = [written(tmp_path / str(n), made_up_block(random, n, GIVEN), GIVEN) for n in (3, 1, 5)]
    rows = random.permutation(9)
    expected = np.concatenate([segment.embeddings for segment in opened])[rows].astype(np.float32)
    np.testing.assert_array_equal(gather_embeddings(opened, rows), expected)


def test_a_damaged_segment_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "s"
    block = made_up_block(np.random.default_rng(0), 30, LEARNED)
    fingerprint = write_segment(path, block, LEARNED, "model")
    names = (
        "hi",
        "modality_starts",
        "item_keys",
        "embeddings",
        "embeddings_int8",
        "half_sq_norms",
        "modality",
    )
    for name in names:
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
        block = made_up_block(np.random.default_rng(0), 3, GIVEN)
        fingerprint = write_segment(tmp_path / "s", block, GIVEN, "model")
    with pytest.raises(MismatchError, match="make the index again, with: genius index"):
        open_segment(tmp_path / "s", GIVEN, fingerprint)


@settings(max_examples=25)
@given(
    st.integers(0, 999),
    st.sampled_from([GIVEN, LEARNED, NO_MODALITY_CODE]),
    st.integers(1, 60),
    st.booleans(),
    st.booleans(),
)
def test_a_segment_opens_to_the_bit_as_it_was_packed(
    seed: int, format: SegmentFormat, count: int, same_modality: bool, same_codes: bool
) -> None:
    random = np.random.default_rng(seed)
    block = made_up_block(random, count, format)
    if same_modality:
        block.codes[:, 0] = 1
    if same_codes:
        block.codes[:] = block.codes[0]
    packed, order = PackedCodes.build(block.codes, format.sizes, format.semantic)
    with tempfile.TemporaryDirectory() as folder:
        opened = written(Path(folder, "s"), block, format)
        assert {name: array.tobytes() for name, array in opened.packed.arrays().items()} == {
            name: array.tobytes() for name, array in packed.arrays().items()
        }
        assert opened.embeddings.tobytes() == block.embeddings[order].tobytes()
        assert opened.half_sq_norms.tobytes() == block.half_sq_norms[order].tobytes()
        assert opened.view(NO_TOMBSTONES).allowed is None
        tombstones = np.sort(random.choice(block.item_keys, count // 2, replace=False))
        allowed = opened.view(tombstones).allowed
        expected = ~np.isin(block.item_keys[order], tombstones)
        np.testing.assert_array_equal(np.ones(count, bool) if allowed is None else allowed, expected)


def test_a_view_is_made_again_only_when_an_item_of_the_segment_is_removed() -> None:
    block = made_up_block(np.random.default_rng(0), 9, GIVEN, first_key=10)
    segment = Segment.in_memory(block, GIVEN)
    view = segment.view(NO_TOMBSTONES)
    assert segment.view(np.array([3, 99])) is view
    assert segment.view(np.array([3, 12])) is not view
