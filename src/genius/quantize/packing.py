"""Codes packed to the bit: an item takes 12.25 bytes at 3 + 8 × 4096 codes.

A level takes as many bits as its size needs, a row its levels from the high bits down, and rows follow each
other as one stream of bits; the last byte is filled up with zeros.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genius.errors import InputError

LARGEST = 1 << 16
"""The most codes that a level may have: a code is 16 bits wide when it is not packed."""

BLOCK = 1 << 16  # rows at a time: a multiple of 8, so that every block but the last ends with a byte


def bits(sizes: Sequence[int]) -> int:
    """How many bits a row of codes takes, where `sizes` are the codes per level.

    >>> bits([3] + 8 * [4096]) / 8
    12.25
    """
    return len(_places(sizes))


def pack(codes: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """Codes [n, levels] as a stream of bytes: uint8 [⌈n·bits/8⌉].

    Raises InputError for codes that `sizes` does not allow.
    """
    places = _places(sizes)
    _check(codes, sizes)
    packed = np.empty(-(-len(codes) * len(places) // 8), np.uint8)
    for start in range(0, len(codes), BLOCK):
        block = codes[start : start + BLOCK].astype(">u2").view(np.uint8)
        some = np.packbits(np.unpackbits(block, axis=1).take(places, axis=1))
        byte = start * len(places) // 8
        packed[byte : byte + len(some)] = some
    return packed


def unpack(packed: np.ndarray, count: int, sizes: Sequence[int]) -> np.ndarray:
    """The `count` codes that `pack` packed: uint16 [count, levels].

    Raises InputError when the bytes are not as many as that takes, or hold codes that `sizes` does not allow.
    """
    places = _places(sizes)
    expected = -(-count * len(places) // 8)
    if packed.dtype != np.uint8 or packed.shape != (expected,):
        raise InputError(
            f"{count} codes of {len(places)} bits take {expected} bytes, "
            f"and these are {packed.dtype} of the shape {packed.shape}"
        )
    codes = np.empty((count, len(sizes)), np.uint16)
    for start in range(0, count, BLOCK):
        rows = min(BLOCK, count - start)
        byte, length = start * len(places) // 8, rows * len(places)
        wide = np.zeros((rows, 16 * len(sizes)), np.uint8)
        stream = np.unpackbits(packed[byte : byte + -(-length // 8)], count=length)
        wide[:, places] = stream.reshape(rows, len(places))
        codes[start : start + rows] = np.packbits(wide, axis=1).view(">u2")
    _check(codes, sizes)
    return codes


def _places(sizes: Sequence[int]) -> np.ndarray:
    """Which bits of a row of 16-bit codes are kept."""
    if not len(sizes) or not all(1 <= size <= LARGEST for size in sizes):
        raise InputError(f"the sizes of levels must be from 1 to {LARGEST}, not {list(sizes)}")
    return np.concatenate(
        [
            np.arange(16 * level + 16 - (int(size) - 1).bit_length(), 16 * level + 16)
            for level, size in enumerate(sizes)
        ]
    )


def _check(codes: np.ndarray, sizes: Sequence[int]) -> None:
    if not np.issubdtype(codes.dtype, np.integer) or codes.ndim != 2 or codes.shape[1] != len(sizes):
        raise InputError(
            f"codes must be integers of {len(sizes)} levels, not {codes.dtype} of the shape {codes.shape}"
        )
    if not len(codes):
        return
    for level, (low, high, size) in enumerate(
        zip(codes.min(axis=0), codes.max(axis=0), sizes, strict=True), 1
    ):
        if low < 0 or high >= size:
            raise InputError(
                f"level {level} has codes from 0 to {size - 1}, and there is {low if low < 0 else high}"
            )
