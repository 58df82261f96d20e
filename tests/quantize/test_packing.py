from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError
from genius.quantize import packing
from genius.quantize.packing import bits, pack, unpack

PAPER = [3] + 8 * [4096]


@st.composite
def coded(draw: st.DrawFn) -> tuple[list[int], list[list[int]]]:
    sizes = draw(
        st.lists(st.sampled_from([1, 2, 3, 7, 256, 1000, 4096, 65535, 65536]), min_size=1, max_size=9)
    )
    row = st.tuples(*(st.integers(0, size - 1) for size in sizes)).map(list)
    return sizes, draw(st.lists(row, max_size=40))


def packed_by_hand(rows: list[list[int]], sizes: list[int]) -> bytes:
    """The stream as one great integer, bit by bit."""
    stream = ""
    for row in rows:
        for code, size in zip(row, sizes, strict=True):
            width = (size - 1).bit_length()
            stream += f"{code:0{width}b}" if width else ""
    stream += "0" * (-len(stream) % 8)
    return int(stream, 2).to_bytes(len(stream) // 8, "big") if stream else b""


@given(coded())
def test_packing_equals_python_integers_and_unpacking_undoes_it(
    drawn: tuple[list[int], list[list[int]]],
) -> None:
    sizes, rows = drawn
    codes = np.array(rows, np.uint32).reshape(len(rows), len(sizes))
    packed = pack(codes, sizes)
    assert packed.tobytes() == packed_by_hand(rows, sizes)
    again = unpack(packed, len(rows), sizes)
    assert again.dtype == np.uint16
    np.testing.assert_array_equal(again, codes)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17, 31])
def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    sizes = [3, 4096, 5, 1024]
    codes = np.random.default_rng(count).integers(0, sizes, (count, 4))
    whole = pack(codes, sizes)
    monkeypatch.setattr(packing, "BLOCK", 8)
    np.testing.assert_array_equal(pack(codes, sizes), whole)
    np.testing.assert_array_equal(unpack(whole, count, sizes), codes)


def test_bytes_per_item() -> None:
    assert bits(PAPER) == 98
    assert bits([3] + 8 * [1024]) == 82
    assert bits([1, 2, 3, 4, 5, 65536]) == 0 + 1 + 2 + 2 + 3 + 16
    for count, size in ((0, 0), (1, 13), (3, 37), (4, 49), (100_000, 1_225_000)):
        assert pack(np.zeros((count, 9), np.uint16), PAPER).shape == (size,)


def test_bad_input() -> None:
    codes = np.array([[0, 5], [2, 4095]])
    with pytest.raises(InputError, match="level 1 has codes from 0 to 1, and there is 2"):
        pack(codes, [2, 4096])
    with pytest.raises(InputError, match="level 2 has codes from 0 to 4095, and there is -1"):
        pack(np.array([[0, -1]]), [2, 4096])
    with pytest.raises(InputError, match=r"integers of 3 levels, not int64 of the shape \(2, 2\)"):
        pack(codes, [3, 4096, 4096])
    with pytest.raises(InputError, match="integers of 2 levels, not float64"):
        pack(codes.astype(float), [3, 4096])
    with pytest.raises(InputError, match=r"from 1 to 65536, not \[0, 70000\]"):
        pack(codes, [0, 70000])
    packed = pack(codes, [3, 4096])
    with pytest.raises(
        InputError, match=r"3 codes of 14 bits take 6 bytes, and these are uint8 of the shape \(4,\)"
    ):
        unpack(packed, 3, [3, 4096])
    with pytest.raises(InputError, match="level 1 has codes from 0 to 2, and there is 3"):
        unpack(np.full(4, 255, np.uint8), 2, [3, 4096])
