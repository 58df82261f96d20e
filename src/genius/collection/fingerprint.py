"""A small fingerprint of an image's pixels, which tells a copy from another shot of the same thing.

Embeddings say that two images show the same; whether one is a copy of the other, only pixels say. The image
is shrunk to a grid of brightness, and a bit says for each cell whether its neighbour to the right, and below,
is brighter (a difference hash): that stays as it is if the image is scaled, compressed or made brighter. As a
crop moves the grid, the same is done for five windows that leave a twentieth out. Colours are compared on a
coarser grid, so that a product in another colour is no copy.
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
    """

    bits: np.ndarray
    colours: np.ndarray
    telling: int
    shade: float
    flat: bool


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
    )


def _bits(brightness: Image.Image, left: float, top: float, side: float) -> np.ndarray:
    width, height = brightness.size
    box = (left * width, top * height, (left + side) * width, (top + side) * height)
    cells = brightness.resize((GRID + 1, GRID + 1), Image.Resampling.BOX, box=box)
    shades = np.asarray(cells, np.int16)
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
        others = place + 1 + np.flatnonzero(alike)
        pairs.append(np.stack([np.full(len(others), known[place]), known[others]], axis=1))
    return np.concatenate(pairs)


def _differing(bits: np.ndarray, others: np.ndarray) -> np.ndarray:
    """How many bits differ, int64 [images, windows]."""
    return np.asarray(np.bitwise_count(bits ^ others).sum(-1, dtype=np.int64))
