from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import DamagedError, InputError
from genius.quantize.quantizer import code_bits
from genius.search import codes as code_layout
from genius.search.codes import PackedCodes

SIZES = st.lists(st.sampled_from([1, 2, 3, 5, 16, 100, 4096, 65536]), min_size=2, max_size=20).filter(
    lambda sizes: code_bits(sizes) <= 256
)


@st.composite
def random_codes(draw: st.DrawFn) -> tuple[np.ndarray, list[int], int]:
    """Codes, the sizes of their levels, and the first semantic level."""
    sizes = draw(SIZES)
    rng = np.random.default_rng(draw(st.integers(0, 999)))
    used = [min(size, draw(st.sampled_from([1, 2, 100_000]))) for size in sizes]  # few codes: many equal ones
    codes = rng.integers(0, used, (draw(st.integers(1, 60)), len(sizes)))
    return codes + np.subtract(sizes, used) * draw(st.booleans()), sizes, draw(st.integers(0, 1))


@given(random_codes(), st.booleans())
def test_sorts_as_lexsort_and_unpacks_the_codes(case: tuple[np.ndarray, list[int], int], large: bool) -> None:
    codes, sizes, semantic = case
    large = large and math.prod(sizes[: semantic + 1]) < 1e5
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_layout, "MIN_ITEMS_FOR_CELLS", 0 if large else 45_000)
        patch.setattr(code_layout, "MAX_CELL_BYTES", 1e6)
        packed, order = PackedCodes.build(codes, sizes, semantic)
        reopened = PackedCodes.from_arrays(packed.arrays(), sizes, semantic, len(codes))
    np.testing.assert_array_equal(order, np.lexsort(codes.T[::-1]))
    rows = np.arange(len(codes))
    np.testing.assert_array_equal(packed.codes(rows), codes[order])
    np.testing.assert_array_equal(reopened.codes(rows[::-1]), codes[order][::-1])
    assert len(reopened) == len(codes) and reopened.sizes == tuple(sizes)
    assert ("cell_starts" in packed.arrays()) == large
    assert ("modality_starts" in packed.arrays()) == bool(semantic)
    if packed.cell_starts is not None:
        cell = codes[order, 0] * sizes[1] + codes[order, 1] if semantic else codes[order, 0]
        expected = np.searchsorted(cell, np.arange(len(packed.cell_starts)))
        np.testing.assert_array_equal(packed.cell_starts, expected)


BITS = {
    64: [65536] * 4,
    65: [65536] * 4 + [2],
    90: [1024] * 9,
    96: [4096] * 8,
    128: [65536] * 8,
    129: [65536] * 8 + [2],
    160: [512] * 4 + [1024] * 8 + [2048] * 4,
    192: [4096] * 16,
    193: [4096] * 16 + [2],
    208: [8192] * 16,
    256: [65536] * 16,
}
"""Sizes of semantic levels whose codes take so many bits."""


@pytest.mark.parametrize("bits", BITS)
@given(st.integers(0, 9999), st.integers(1, 30), st.integers(1, 3))
def test_a_row_is_one_string_of_bits_in_words_of_64(bits: int, seed: int, count: int, used: int) -> None:
    """Against Python's whole numbers, which have any number of bits."""
    sizes, rng = BITS[bits], np.random.default_rng(seed)
    assert code_bits(sizes) == bits
    # Few different codes a level, the highest among them: equal rows, and bits that are all ones.
    codes = np.array(sizes) - 1 - rng.integers(0, used, (count, len(sizes))) ** 7 % sizes
    packed, order = PackedCodes.build(codes, sizes, 0)
    rows = []
    for row in codes.tolist():
        number = 0
        for code, size in zip(row, sizes, strict=True):
            number = number << (size - 1).bit_length() | code
        rows.append(number)
    assert order.tolist() == sorted(range(count), key=lambda item: (rows[item], item))
    arrays = packed.arrays()
    assert list(arrays) == ["hi", "lo", "lo_2", "lo_3"][: -(-bits // 64)]
    for place, (name, array) in enumerate(arrays.items()):
        rest = min(bits - 64 * place, 64)
        width = next(width for width in (64,) * (name == "hi") + (16, 32, 64) if width >= rest)
        expected = [rows[item] >> (bits - 64 * place - rest) & ((1 << rest) - 1) for item in order]
        assert array.dtype == f"u{width // 8}"
        assert array.tolist() == [part << (width - rest) for part in expected]
    np.testing.assert_array_equal(packed.codes(np.arange(count)), codes[order])


def test_an_item_takes_at_most_13_bytes() -> None:
    rng = np.random.default_rng(0)
    sizes = [3] + 8 * [4096]
    large, _ = PackedCodes.build(rng.integers(0, sizes, (45_000, 9)), sizes, 1)
    assert large.nbytes == sum(array.nbytes for array in large.arrays().values()) <= 13.1 * 45_000
    small, _ = PackedCodes.build(rng.integers(0, sizes, (44_999, 9)), sizes, 1)
    assert small.nbytes == 12 * 44_999 + 16
    small_levels, _ = PackedCodes.build(rng.integers(0, [3] + 8 * [256], (10, 9)), [3] + 8 * [256], 1)
    assert set(small_levels.arrays()) == {"hi", "modality_starts"}


def test_8192_codes_in_16_levels_take_26_bytes() -> None:
    sizes = [3] + 16 * [8192]
    packed, _ = PackedCodes.build(np.random.default_rng(0).integers(0, sizes, (1000, 17)), sizes, 1)
    assert packed.nbytes == 26 * 1000 + 16


def test_arrays_that_do_not_fit_are_refused() -> None:
    sizes = [3, 4096] + 5 * [4096]
    packed, _ = PackedCodes.build(np.zeros((5, 7), int), sizes, 1)
    arrays = packed.arrays()
    for wrong, message in [
        ({"hi": arrays["hi"]}, "need the arrays"),
        (arrays | {"hi": arrays["hi"][:4]}, r"'hi' .* must be uint64 \[5\], and it is uint64 \[4\]"),
        (arrays | {"lo": arrays["lo"].astype(np.uint64)}, "'lo' .* must be uint16"),
        (arrays | {"modality_starts": np.array([0, 5, 4, 5], np.uint32)}, "does not rise from 0 to 5"),
    ]:
        with pytest.raises(DamagedError, match=message):
            PackedCodes.from_arrays(wrong, sizes, 1, 5)


def test_bad_input() -> None:
    codes = np.zeros((2, 3), int)
    for bad, sizes, semantic, message in [
        (codes[:0], [2, 2, 2], 1, "at least one item"),
        (codes, [2, 2], 0, "in 2 levels"),
        (codes - 1, [2, 2, 2], 0, "from 0 up to the sizes"),
        (codes + 2, [3, 3, 2], 0, "from 0 up to the sizes"),
        (codes * 0.5, [2, 2, 2], 0, "integers, not float64"),
        (codes, [2, 2, 0], 0, "must be from 1 to 65536"),
        (codes, [2, 2, 2], 3, "not behind 3 of 3"),
        (np.zeros((2, 17), int), 16 * [65536] + [2], 0, "257 bits can't be searched, only 256"),
    ]:
        with pytest.raises(InputError, match=message):
            PackedCodes.build(bad, sizes, semantic)


def test_more_cells_than_items_are_not_kept() -> None:
    sizes = [3, 65536, 16]
    packed, _ = PackedCodes.build(np.random.default_rng(0).integers(0, sizes, (45_000, 3)), sizes, 1)
    assert "cell_starts" not in packed.arrays()
