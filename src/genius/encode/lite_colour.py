"""A small colour descriptor, for what a network trained to name objects has learned to ignore.

Soft histograms in CIE Lab, of the middle of the image and of what differs from its border, and a tiny
thumbnail with the foreground's mean and spread.
"""

from __future__ import annotations

import numpy as np
from PIL import Image

SIDE = 32
CELLS = 8
_LIGHTNESS = np.linspace(0, 1, 5, dtype=np.float32)
_CHROMA = np.linspace(-0.8, 0.8, 7, dtype=np.float32)
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]], np.float32)
_WHITE = np.array([0.9505, 1.0, 1.089], np.float32)

HISTOGRAM_WIDTH = 2 * len(_LIGHTNESS) * len(_CHROMA) ** 2
THUMBNAIL_WIDTH = CELLS * CELLS * 3 + 3 * 3 + 1

_ROWS, _COLUMNS = np.mgrid[0:SIDE, 0:SIDE] / (SIDE - 1) - 0.5
_MIDDLE = np.exp(-(_ROWS**2 + _COLUMNS**2) / 0.08).ravel().astype(np.float32)


def describe(image: Image.Image) -> tuple[np.ndarray, np.ndarray]:
    """An image's colour histograms [HISTOGRAM_WIDTH] and thumbnail [THUMBNAIL_WIDTH]."""
    lab = _lab(np.asarray(image.resize((SIDE, SIDE), Image.Resampling.BILINEAR), np.float32) / 255)
    border = np.concatenate([lab[0], lab[-1], lab[:, 0], lab[:, -1]])
    background = np.median(border, axis=0)
    foreground = 1 - np.exp(-((lab - background) ** 2).sum(-1).ravel() / 0.02)
    pixels = lab.reshape(-1, 3)
    histograms = [_histogram(pixels, weights) for weights in (_MIDDLE, foreground * _MIDDLE)]
    weights = foreground + 1e-3
    mean = np.average(pixels, axis=0, weights=weights)
    spread = np.sqrt(np.average((pixels - mean) ** 2, axis=0, weights=weights))
    step = SIDE // CELLS
    thumbnail = lab.reshape(CELLS, step, CELLS, step, 3).mean((1, 3)).ravel()
    rest = [thumbnail, mean, spread, background, [foreground.mean()]]
    return np.concatenate(histograms).astype(np.float32), np.concatenate(rest).astype(np.float32)


def _lab(rgb: np.ndarray) -> np.ndarray:
    """CIE Lab with lightness from 0 to 1 and chroma scaled to a similar range."""
    linear = np.where(rgb > 0.04045, ((rgb + 0.055) / 1.055) ** 2.4, rgb / 12.92)
    xyz = linear @ _TO_XYZ.T / _WHITE
    curve = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    lightness = 1.16 * curve[..., 1] - 0.16
    red_green = 5 * (curve[..., 0] - curve[..., 1])
    yellow_blue = 2 * (curve[..., 1] - curve[..., 2])
    return np.stack([lightness, red_green, yellow_blue], axis=-1)


def _histogram(pixels: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Shares of lightness × chroma cells, a pixel spread over its neighbouring cells; square roots."""
    lightness = _spread(pixels[:, 0], _LIGHTNESS)
    chroma = _spread(pixels[:, 1], _CHROMA)[:, :, None] * _spread(pixels[:, 2], _CHROMA)[:, None, :]
    weighted = lightness * (weights / (weights.sum() + 1e-3))[:, None]
    return np.asarray(np.sqrt(weighted.T @ chroma.reshape(len(pixels), -1))).ravel()


def _spread(values: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """How near values are to each point of an even grid: 1 on it, 0 from the next one on."""
    inside = np.clip(values, grid[0], grid[-1])[:, None]
    return np.asarray(np.maximum(0, 1 - np.abs(inside - grid) / (grid[1] - grid[0])))
