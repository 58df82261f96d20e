"""The nearest code of each row, exactly: int8 products rule out nearly all codes, float64 decides the rest.

An int8 product takes a quarter of the time of one in single precision. What rounding to int8 can do to a
score is bounded by the lengths of what was rounded off, so every code that could be the best is compared.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from genius.jit import compiled, compiled_fastmath, frozen
from genius.runtime import session

FEW = 8
"""A codebook of up to this many codes is compared in double precision as a whole."""
BYTE = 90
"""Numbers are rounded to -90 … 90. Processors that add up pairs of products in 16 bits, up to 2 · 180 · 90,
then do not overflow."""
WIDEST = 2**31 // (2 * BYTE * BYTE)
"""From this width on, sums of products could overflow 32 bits."""
ROUNDING = 4e-6
"""An upper limit of single precision's error where bounds are added up, in units of their largest part."""
DOUBT = 4 * float(np.finfo(np.float64).eps)
"""An upper limit of double precision's error for each number added up, in units of the sum's parts."""
GROUPS = 64
"""Codes are divided into this many groups, whose highest bounds are kept: few bounds are then read one by
one."""
LANES = 32
"""Sums that are added to at once."""
UINT8, INT8, INT32 = 2, 3, 6
"""ONNX's numbers of them."""


class Nearest:
    """Finds the code of largest rows · book + offsets; of equal ones the first.

    Scores are summed up in double precision and in one order, so codes are batch-invariant.

    Args:
        book: the vectors of the codes, float32 [codes, width].
        offsets: float64 [codes]; minus half the squared lengths of the vectors make it the nearest code.
    """

    def __init__(self, book: np.ndarray, offsets: np.ndarray) -> None:
        # Repeated codes are never chosen; a level that had few different vectors to learn from has many.
        distinct: dict[tuple[bytes, float], int] = {}
        for code, (vector, offset) in enumerate(zip(book, offsets.tolist(), strict=True)):
            distinct.setdefault((vector.tobytes(), offset), code)
        self._distinct = np.array(list(distinct.values()))
        self._book = frozen(book if len(distinct) == len(book) else book[self._distinct])
        self._offsets = offsets[self._distinct].astype(np.float64)
        self._product: Any = None
        if len(self._distinct) > FEW and book.shape[1] < WIDEST:
            self._prepare()

    def _prepare(self) -> None:
        """Round the vectors e of codes to int8 as they lie around their centre c, where they are shortest:
        row · e = row · c + (row - c) · (e - c) + c · (e - c), and all codes have the first part in common, as
        well as the mean of the last one and the offsets."""
        self._centre = self._book.mean(0, dtype=np.float64)
        rounded, stats = _rounded(self._book, self._centre)
        self._product = session(_product_graph((rounded - np.uint8(BYTE)).view(np.int8)), threads=1)
        steps, errors, kept, common = stats.T
        lengths, fixed = kept + errors, common - self._centre @ self._centre + self._offsets
        mean = float(fixed.mean())
        fixed -= mean
        coarsest, longest, deepest = (float(np.abs(part).max()) or 1.0 for part in (steps, lengths, fixed))
        table = np.stack([steps / coarsest, fixed / deepest, lengths / longest, errors / longest])
        self._table = table.astype(np.float32)
        distance, highest = float(np.linalg.norm(self._centre)), float(np.abs(self._offsets).max())
        self._scales = mean, coarsest, longest, deepest, distance, highest

    def codes(self, rows: np.ndarray) -> np.ndarray:
        """Codes [n] of rows float32 [n, width] of finite numbers."""
        best = np.zeros(len(rows), np.int64)
        if self._product is None:
            _compare_all(rows, self._book, self._offsets, best)
        else:
            rounded, stats = _rounded(rows, self._centre)
            (products,) = self._product.run(None, {"rows": rounded})
            _decide(rows, products, stats, self._table, self._scales, self._book, self._offsets, best)
        return self._distinct[best]


def _rounded(rows: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows rounded around a centre, uint8 [n, width], and the `stats` [n, 4] of `_round`."""
    rounded, stats = np.empty(rows.shape, np.uint8), np.empty((len(rows), 4))
    _round(frozen(rows), centre, rounded, stats)
    return rounded, stats


@compiled_fastmath
def _round(rows: np.ndarray, centre: np.ndarray, rounded: np.ndarray, stats: np.ndarray) -> None:
    """Write rows - centre in steps to `rounded`, where BYTE is zero, and to `stats` of each row the size of a
    step, the length of what was rounded off, the length of what was kept, and the product row · centre."""
    sizes = np.empty(len(centre))
    for number in range(len(rows)):
        row, common, off, kept = rows[number], 0.0, 0.0, 0.0
        for place in range(len(row)):
            sizes[place] = abs(row[place] - centre[place])
            common += row[place] * centre[place]
        step = _largest(sizes) / BYTE
        steps = 1 / step if step > 0 else 0.0
        for place in range(len(row)):
            exact = (row[place] - centre[place]) * steps
            whole = np.rint(exact)
            rounded[number, place] = np.uint8(np.int32(whole) + np.int32(BYTE))
            off += (exact - whole) ** 2
            kept += whole**2
        stats[number, 0], stats[number, 1] = step, step * np.sqrt(off)
        stats[number, 2], stats[number, 3] = step * np.sqrt(kept), common


@compiled_fastmath
def _largest(sizes: np.ndarray) -> Any:
    """The largest size, by taking maxima of two halves, which is quick; overwrites `sizes`."""
    while len(sizes) > 1:
        half = (len(sizes) + 1) // 2
        low, high = sizes[:half], sizes[half:]
        for place in range(len(high)):
            low[place] = max(low[place], high[place])
        sizes = low
    return sizes[0]


@compiled_fastmath
def _bounds(
    products: np.ndarray,
    table: np.ndarray,
    step: Any,
    fixed: Any,
    off: Any,
    kept: Any,
    bounds: np.ndarray,
    tops: np.ndarray,
) -> None:
    """Write the upper bound of each code's score to `bounds`, and the highest of each group to `tops`.

    The codes of a group are not neighbours: maxima of neighbours would be taken one by one.
    """
    steps, fixed_parts, lengths, errors = table[0], table[1], table[2], table[3]
    for code in range(len(products)):
        bound = np.float32(products[code]) * (step * steps[code]) + fixed * fixed_parts[code]
        bounds[code] = bound + (off * lengths[code] + kept * errors[code])
    groups = len(tops)
    tops[:] = bounds[:groups]
    for start in range(groups, len(bounds), groups):
        part = bounds[start : start + groups]
        for group in range(len(part)):
            tops[group] = max(tops[group], part[group])


@compiled
def _decide(
    rows: np.ndarray,
    products: np.ndarray,
    stats: np.ndarray,
    table: np.ndarray,
    scales: tuple[float, float, float, float, float, float],
    book: np.ndarray,
    offsets: np.ndarray,
    best_codes: np.ndarray,
) -> None:
    """Compare the most promising code of each row exactly, and then all that may still be better."""
    mean, coarsest, longest, deepest, distance, highest = scales
    doubt = DOUBT * (book.shape[1] + LANES)
    groups, lanes = min(GROUPS, len(book)), np.empty(LANES)
    bounds, tops = np.empty(len(book), np.float32), np.empty(groups, np.float32)
    for number in range(len(rows)):
        step, off, kept = stats[number, 0], stats[number, 1], stats[number, 2]
        common = stats[number, 3] + mean
        # In this unit no part of a score is more than one, however long or short the vectors are.
        unit = (kept + off) * longest + deepest
        _bounds(
            products[number],
            table,
            np.float32(step * coarsest / unit),
            np.float32(deepest / unit),
            np.float32(off * longest / unit),
            np.float32(kept * longest / unit),
            bounds,
            tops,
        )
        slack = ROUNDING + doubt * ((kept + off + distance) * (longest + distance) + highest) / unit
        top: Any = tops.argmax()
        best: Any = top + groups * bounds[top::groups].argmax()
        most = _score(rows[number], book[best], lanes) + offsets[best]
        least = (most - common) / unit - slack
        for group in range(groups):
            if tops[group] < least:
                continue
            for code in range(group, len(book), groups):
                if bounds[code] < least or code == best:
                    continue
                score = _score(rows[number], book[code], lanes) + offsets[code]
                if score > most or (score == most and code < best):
                    best, most = code, score
                    least = (most - common) / unit - slack
        best_codes[number] = best


@compiled
def _compare_all(rows: np.ndarray, book: np.ndarray, offsets: np.ndarray, best_codes: np.ndarray) -> None:
    """Compare all codes exactly."""
    lanes = np.empty(LANES)
    for number in range(len(rows)):
        most = -np.inf
        for code in range(len(book)):
            score = _score(rows[number], book[code], lanes) + offsets[code]
            if score > most:
                best_codes[number], most = code, score


@compiled
def _score(row: np.ndarray, vector: np.ndarray, lanes: np.ndarray) -> Any:
    """Their product in double precision, always summed up in the same order."""
    lanes[:] = 0.0
    full = len(row) // LANES * LANES
    for start in range(0, full, LANES):
        for lane in range(LANES):
            lanes[lane] += np.float64(row[start + lane]) * np.float64(vector[start + lane])
    for place in range(full, len(row)):
        lanes[place - full] += np.float64(row[place]) * np.float64(vector[place])
    total = 0.0
    for lane in range(LANES):
        total += lanes[lane]
    return total


def _product_graph(book: np.ndarray) -> bytes:
    """An ONNX graph from rows uint8 [n, width] to their products int32 [n, codes] with a codebook int8.

    Written byte by byte: the package `onnx`, which would do it, is for training only.
    """
    codes, width = book.shape
    shape = _field(1, width) + _field(1, codes)
    constant = shape + _field(2, INT8) + _field(8, b"book") + _field(9, book.T.tobytes())
    zero = _field(2, UINT8) + _field(8, b"zero") + _field(9, bytes([BYTE]))
    names = _field(1, b"rows") + _field(1, b"book") + _field(1, b"zero") + _field(2, b"products")
    graph = _field(1, names + _field(4, b"MatMulInteger")) + _field(2, b"products")
    graph += _field(5, constant) + _field(5, zero)
    graph += _field(11, _matrix(b"rows", UINT8, width)) + _field(12, _matrix(b"products", INT32, codes))
    return _field(1, 8) + _field(7, graph) + _field(8, _field(2, 17))


def _matrix(name: bytes, kind: int, width: int) -> bytes:
    """An ONNX graph's input or output [n, width]."""
    shape = _field(1, _field(2, b"n")) + _field(1, _field(1, width))
    return _field(1, name) + _field(2, _field(1, _field(1, kind) + _field(2, shape)))


def _field(number: int, value: int | bytes) -> bytes:
    """One field of a protocol buffer."""
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    low = bytes([value & 127 | (128 if value > 127 else 0)])
    return low + _varint(value >> 7) if value > 127 else low
