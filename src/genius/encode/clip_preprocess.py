"""The preprocessing of images for CLIP and SigLIP, with Pillow and numpy."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
from PIL import Image

from genius.errors import InputError
from genius.storage import Json

CropOffset = Literal["floor", "even"]
CROP_OFFSET = "genius_crop_offset"
"""The key of a preprocessor's configuration that says it; other programs ignore it."""
_STEPS = {"do_resize", "do_center_crop", "do_rescale", "do_normalize", "do_convert_rgb"}
_LONGEST = 8
"""Ratio of the sides; of a longer strip only the middle is resized, as the crop drops the rest anyway."""


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes numbers: resized, cropped, scaled, normalised."""

    resize: int | tuple[int, int] | None
    """The shorter side, or height and width."""
    crop: tuple[int, int] | None
    resample: int
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    crop_offset: CropOffset = "floor"
    """Where a crop begins if margins are odd: half a pixel lower, as in Hugging Face's code, or at the even
    one, as in torchvision's, by which OpenAI's CLIP and all that was tuned from it were trained."""

    @classmethod
    def parse(cls, config: Json, kind: str) -> Preprocessing:
        """The preprocessing that a `preprocessor_config.json` describes, for a model of type `kind`.

        Raises InputError for a step that is not supported, and for settings that are missing.
        """
        if other := sorted(k for k, on in config.items() if k.startswith("do_") and on and k not in _STEPS):
            raise InputError(f"asks for {', '.join(other)}, which is not supported here")
        cropped = config.get("do_center_crop", kind == "clip")
        normal = config.get("do_normalize", True)
        try:
            resize = _size(config["size"]) if config.get("do_resize", True) else None
            crop = _size(config["crop_size"]) if cropped else None
            crop = (crop, crop) if isinstance(crop, int) else crop
            mean = tuple(map(float, config["image_mean"])) if normal else (0.0,) * 3
            std = tuple(map(float, config["image_std"])) if normal else (1.0,) * 3
            resample = Image.Resampling(config.get("resample", Image.Resampling.BICUBIC))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"does not say how pictures are prepared ({error!r})") from error
        if crop is None and not isinstance(resize, tuple):
            raise InputError("leaves pictures of different sizes: a crop, or a height and a width are needed")
        scale = float(config.get("rescale_factor", 1 / 255)) if config.get("do_rescale", True) else 1.0
        offset = config.get(CROP_OFFSET, "floor")
        if offset not in get_args(CropOffset):
            raise InputError(f"asks for a crop offset {offset!r}, which is not known here")
        return cls(resize, crop, int(resample), scale, mean, std, offset)

    def described(self) -> Json:
        """All of it as JSON has it; what is usual is left out, so that older descriptions stay the same."""
        described = asdict(self)
        if self.crop_offset == "floor":
            del described["crop_offset"]
        return described

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of a preprocessed image."""
        assert self.crop is not None or isinstance(self.resize, tuple)
        return self.crop or self.resize  # type: ignore[return-value]

    @cached_property
    def _values(self) -> np.ndarray:
        """The normalised value of each of the 256 bytes, per channel [3, 256], for a fast lookup."""
        scaled = (np.arange(256, dtype=np.float64) * self.scale).astype(np.float32)
        mean, std = (np.array(part, np.float32)[:, None] for part in (self.mean, self.std))
        return np.asarray((scaled - mean) / std, np.float32)

    def pixels(self, image: Image.Image) -> np.ndarray:
        """The image as numbers, float32 [3, height, width]."""
        image = image if image.mode == "RGB" else image.convert("RGB")
        if isinstance(self.resize, int):
            image = _resized(image, self.resize, self.resample)
        elif self.resize is not None:
            image = image.resize(self.resize[::-1], self.resample)
        if self.crop is not None:
            image = _middle(image, *self.crop, self.crop_offset)
        values = np.asarray(image)
        return np.stack([self._values[channel][values[..., channel]] for channel in range(3)])


def _size(size: int | Json) -> int | tuple[int, int]:
    if isinstance(size, int):
        return size
    if set(size) == {"shortest_edge"}:
        return int(size["shortest_edge"])
    if set(size) == {"height", "width"}:
        return int(size["height"]), int(size["width"])
    raise ValueError(f"size {size}")


def _resized(image: Image.Image, side: int, resample: int) -> Image.Image:
    short = min(image.size)
    if max(image.size) > _LONGEST * short:  # else a strip of 10 × 100,000 becomes gigabytes
        width, height = (min(n, _LONGEST * short) for n in image.size)
        image = _middle(image, height, width)
    width, height = (side if n == short else int(side * n / short) for n in image.size)
    return image.resize((width, height), resample)


def _middle(image: Image.Image, height: int, width: int, offset: CropOffset = "floor") -> Image.Image:
    """The middle of the image; what reaches beyond it is black."""
    place = math.floor if offset == "floor" else round
    left, top = place((image.width - width) / 2), place((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))
