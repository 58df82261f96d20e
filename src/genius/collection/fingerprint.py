"""A small fingerprint of an image's pixels, which tells a copy from another shot of the same thing.

Embeddings say that two images show the same; whether one is a copy of the other, only pixels say. The image
is shrunk to a grid of brightness, and a bit says for each cell whether its neighbour to the right, and below,
is brighter (a difference hash): that stays as it is if the image is scaled, compressed or made brighter. As a
crop moves the grid, the same is done for five windows that leave a twentieth out. Colours are compared on a
coarser grid, so that a product in another colour is no copy.

Drawings on white may have the same outline and differ in a detail. So images whose bits agree are compared
once more on a finer grid, in which each cell must be about as bright as one of those around it in the other
image: a crop moves cells, and a detail that is another one shows nowhere around.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from PIL import Image

from genius.data.images import load
from genius.data.records import ImageSource
from genius.errors import InputError

GRID = 8
"""Cells along each side, of brightness."""
COLOURS = 4
"""Cells along each side, of colour."""
CUT = 0.05
"""What a window leaves out of each side's length."""
WINDOWS = (
    (0.0, 0.0, 1.0),
    *((x, y, 1 - CUT) for x in (0.0, CUT) for y in (0.0, CUT)),
    (CUT / 2, CUT / 2, 1 - CUT),
)
"""Left, top and side of the whole and of the windows, as shares."""
SAME_SHARE = 0.15
"""Of the bits that say something, this share may differ in a copy."""
NOTICEABLE = 2
"""Cells that differ less in brightness, as on a white ground, say nothing."""
SAME_COLOUR = 32.0
"""So much may the colour of a cell differ in a copy, of 256."""
FLAT = 3.0
"""An image whose brightness varies less has no gradients to compare."""
SAME_SHADE = 24.0
"""Of such images brightness is compared."""
FINE = 32
"""Cells along each side of the finer grid."""
SAME_CELL = 20.0
"""So much may a cell's brightness differ from all those around it in a copy, of 256;"""
DIFFERING_CELLS, DIFFERING_IN_CROPS = 0.03, 0.05
"""in this share of cells more, also of a crop, whose cells are not quite those of a window."""
CROPPED_BITS, DIFFERING_IN_SURE_CROPS = 4, 0.005
"""Of a crop, so many more bits of a window may differ than of the whole; more, if next to no cell does."""
MIN_DRAWN = 64
"""A share of fewer cells than these says little."""
BRIGHT, SATURATED = 170, 250
"""In a copy with another contrast, a bright cell may be all white in the other image."""
SIDE = 256
"""Large images are decoded at about this size."""


@dataclass(frozen=True, eq=False)
class Fingerprint:
    """What is compared of an image.

    Attributes:
        bits: uint64 [windows, 2].
        colours: blue and red difference of each cell, float32 [2 * COLOURS ** 2].
        telling: how many bits of the whole say something.
        shade: its mean brightness.
        flat: whether it is all of one brightness.
        cells: the finer grid of brightness, uint8 [windows, FINE, FINE].
    """

    bits: np.ndarray
    colours: np.ndarray
    telling: int
    shade: float
    flat: bool
    cells: np.ndarray


def fingerprint(source: ImageSource) -> Fingerprint | None:
    """The fingerprint of an image, or None if it can't be read."""
    try:
        image = load(source)
    except InputError:
        return None
    return fingerprint_of(image)


def fingerprint_of(image: Image.Image) -> Fingerprint:
    """The fingerprint of an upright RGB image."""
    image = image.copy()
    image.thumbnail((SIDE, SIDE), Image.Resampling.BOX)
    brightness, *colours = image.convert("YCbCr").split()
    shades = np.asarray(brightness.resize((GRID + 1, GRID + 1), Image.Resampling.BOX), np.float32)
    coarse = [
        np.asarray(part.resize((COLOURS, COLOURS), Image.Resampling.BOX), np.float32) for part in colours
    ]
    return Fingerprint(
        np.stack([_bits(brightness, *window) for window in WINDOWS]),
        np.concatenate(coarse).ravel(),
        int(sum((np.abs(np.diff(shades, axis=axis)) >= NOTICEABLE).sum() for axis in (0, 1))),
        float(shades.mean()),
        bool(shades.std() < FLAT),
        np.stack([_window(brightness, FINE, *window) for window in WINDOWS]),
    )


def _window(brightness: Image.Image, cells: int, left: float, top: float, side: float) -> np.ndarray:
    """A window of an image in so many cells along each side, uint8."""
    width, height = brightness.size
    box = (left * width, top * height, (left + side) * width, (top + side) * height)
    return np.asarray(brightness.resize((cells, cells), Image.Resampling.BOX, box=box))


def _bits(brightness: Image.Image, left: float, top: float, side: float) -> np.ndarray:
    shades = _window(brightness, GRID + 1, left, top, side).astype(np.int16)
    rises = [shades[:-1, 1:] > shades[:-1, :-1], shades[1:, :-1] > shades[:-1, :-1]]
    return np.packbits(np.stack(rises)).view(np.uint64)


def copies(prints: list[Fingerprint | None]) -> np.ndarray:
    """Which of some images are copies of each other: pairs of places int64 [pairs, 2], rising.

    An image without a fingerprint is no copy.
    """
    known = np.array([place for place, print in enumerate(prints) if print is not None], np.int64)
    read = [print for print in prints if print is not None]
    if len(read) < 2:
        return np.zeros((0, 2), np.int64)
    bits = np.stack([print.bits for print in read])
    colours = np.stack([print.colours for print in read])
    telling = np.array([print.telling for print in read])
    shades, flat = np.array([print.shade for print in read]), np.array([print.flat for print in read])
    pairs = []
    for place in range(len(read) - 1):
        rest = slice(place + 1, None)
        whole_and_window = _differing(bits[place, 0], bits[rest]).min(1)
        window_and_whole = _differing(bits[place][None], bits[rest, :1]).min(1)
        most = SAME_SHARE * np.maximum(telling[rest], telling[place])
        alike = np.minimum(whole_and_window, window_and_whole) <= most
        alike &= np.abs(colours[rest] - colours[place]).max(1) <= SAME_COLOUR
        both_flat = flat[rest] & flat[place]
        alike &= np.where(
            both_flat, np.abs(shades[rest] - shades[place]) <= SAME_SHADE, flat[rest] == flat[place]
        )
        others = [
            other
            for other in (place + 1 + np.flatnonzero(alike)).tolist()
            if _agree(read[place], read[other])
        ]
        pairs.append(np.stack([np.full(len(others), known[place]), known[others]], axis=1))
    return np.concatenate(pairs)


def _differing(bits: np.ndarray, others: np.ndarray) -> np.ndarray:
    """How many bits differ, int64 [images, windows]."""
    return np.asarray(np.bitwise_count(bits ^ others).sum(-1, dtype=np.int64))


def _agree(first: Fingerprint, other: Fingerprint) -> bool:
    """Whether two images agree cell by cell: as they are, or the whole of one with a window of the other
    that is about as like it as the whole, or all but equal to it."""
    if _differing_cells(first.cells[0], other.cells[0], moved=False) <= DIFFERING_CELLS:
        return True
    whole = int(_differing(first.bits[0], other.bits[:1])[0])
    most = SAME_SHARE * max(first.telling, other.telling)
    for cropped, entire in ((first, other), (other, first)):
        for window, bits in enumerate(_differing(cropped.bits[0], entire.bits[1:]).tolist(), 1):
            allowed = DIFFERING_IN_CROPS if bits <= whole + CROPPED_BITS else DIFFERING_IN_SURE_CROPS
            if bits <= max(most, whole + CROPPED_BITS) and (
                _differing_cells(cropped.cells[0], entire.cells[window], moved=True) <= allowed
            ):
                return True
    return False


def _differing_cells(cells: np.ndarray, others: np.ndarray, *, moved: bool) -> float:
    """The share of cells that are not about as bright in the other grid, but for brightness and contrast of
    the whole; if one grid may be `moved` a little, as bright as one of the cells around, and the reverse.

    Cells that are white in both, as around a drawing, say nothing and do not count.
    """
    grid, other = cells.astype(np.float32), others.astype(np.float32)
    both = (grid < SATURATED) & (other < SATURATED)
    gain = 1.0
    if both.mean() > DIFFERING_CELLS and other[both].std() > FLAT:
        gain = float(grid[both].std() / other[both].std())
        other = gain * (other - other[both].mean()) + grid[both].mean()
    by = np.maximum(_beyond_neighbours(grid, other), _beyond_neighbours(other, grid))
    differing = (by if moved else np.abs(grid - other)) > SAME_CELL
    if abs(gain - 1) > 0.1:
        differing &= (np.maximum(cells, others) < SATURATED) | (np.minimum(cells, others) < BRIGHT)
    drawn = (cells < SATURATED) | (others < SATURATED)
    return float(differing.sum() / max(int(drawn.sum()), MIN_DRAWN))


def _beyond_neighbours(grid: np.ndarray, other: np.ndarray) -> np.ndarray:
    """By how much each cell of a grid is darker or brighter than all those around its place in the other."""
    around = np.lib.stride_tricks.sliding_window_view(np.pad(other, 1, mode="edge"), (3, 3))
    return np.asarray(np.maximum(grid - around.max((2, 3)), around.min((2, 3)) - grid))
