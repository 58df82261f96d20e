"""Tiny files of UniIR's BLIP, whose weights follow from their names, and what UniIR's code made of them."""

from __future__ import annotations

import json
import re
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from tests.published_models.layout import Tensors, save

DATA = Path(__file__).parent / "data"
NORM = re.compile(r"(norm\d?|LayerNorm)\.weight$")
IMAGE_SIZES = ((70, 50), (32, 32), (31, 90), (200, 20))


@cache
def recorded() -> dict[str, Any]:
    """The layouts, words and texts."""
    content: dict[str, Any] = json.loads((DATA / "blip_layout.json").read_text("utf-8"))
    return content


@cache
def golden() -> dict[str, np.ndarray]:
    """What UniIR's code made of them."""
    return dict(np.load(DATA / "blip_golden.npz"))


def layout(name: str) -> dict[str, tuple[tuple[int, ...], str]]:
    """Shapes and types by name, with every layer."""
    return {
        pattern.replace("*", str(layer)): (tuple(shape), kind)
        for pattern, (count, shape, kind) in recorded()[name].items()
        for layer in range(count)
    }


def blip_tensors(kind: str) -> Tensors:
    """The tiny `ff` or `sf`, with momentum copies and queues."""
    tensors: Tensors = {}
    for name, (shape, dtype) in layout(f"{kind}_tiny").items():
        values = _numbers(name, shape) if dtype == "float32" else np.zeros(shape, np.int64)
        tensors[name] = torch.from_numpy(values)
    return tensors


def save_blip(kind: str, path: Path, **changed: Any) -> Path:
    """A checkpoint, with changed or (None) without these weights; `__` stands for a dot."""
    tensors = blip_tensors(kind) | {name.replace("__", "."): value for name, value in changed.items()}
    return save({name: value for name, value in tensors.items() if value is not None}, path)


def bert_folder(folder: Path, words: list[str] | None = None) -> Path:
    """A folder with a vocabulary of BERT."""
    folder.mkdir(exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words or recorded()["words"]) + "\n", "utf-8")
    return folder


def images() -> list[Image.Image]:
    """Noise over a ramp of grey."""
    made = []
    for seed, (width, height) in enumerate(IMAGE_SIZES, 1):
        noise = (_bits(seed, width * height * 3) >> np.uint64(56)).astype(np.uint8)
        ramp = np.linspace(0, 255, width).astype(np.uint8)[None, :, None]
        made.append(Image.fromarray(noise.reshape(height, width, 3) // 2 + ramp // 2))
    return made


def _numbers(name: str, shape: tuple[int, ...]) -> np.ndarray:
    count = int(np.prod(shape))
    bits = _bits(zlib.crc32(name.encode()), count) >> np.uint64(40)
    values = (bits.astype(np.float64) / 2**24 - 0.5).reshape(shape)
    return np.asarray(1 + values if NORM.search(name) else 0.3 * values, np.float32)


def _bits(seed: int, count: int) -> np.ndarray:
    """Random bits that numpy promises never to change."""
    return np.asarray(np.random.PCG64(seed).random_raw(count), np.uint64)
