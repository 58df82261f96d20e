"""Images that show nothing: background queries that no collection has an answer to.

To an encoder, shapes and noise on a gradient are about as far from a photo as a photo of something else is.
"""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

SIDE = 224
SHAPES = ("ellipse", "rectangle", "triangle", "line")


def drawn(random: np.random.Generator) -> Image.Image:
    """A few shapes on a gradient, blurred and noisy."""
    corners = random.integers(0, 256, (2, 2, 3)).astype(np.uint8)
    image = Image.fromarray(corners).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
    pencil = ImageDraw.Draw(image)
    for _ in range(int(random.integers(2, 12))):
        colour: tuple[int, ...] = tuple(random.integers(0, 256, 3).tolist())
        (x, y), radius = random.uniform(0, SIDE, 2).tolist(), float(random.uniform(8, 90))
        corners_of_shape = [tuple(point) for point in random.uniform(0, SIDE, (4, 2)).tolist()]
        match SHAPES[int(random.integers(len(SHAPES)))]:
            case "ellipse":
                pencil.ellipse((x - radius, y - radius / 2, x + radius, y + radius), fill=colour)
            case "rectangle":
                pencil.rectangle((x - radius, y - radius / 2, x + radius, y + radius / 2), fill=colour)
            case "triangle":
                pencil.polygon(corners_of_shape[:3], fill=colour)
            case _:
                pencil.line(corners_of_shape, fill=colour, width=int(random.integers(2, 14)))
    noisy = np.asarray(image, np.float64) + random.normal(0, random.uniform(2, 25), (SIDE, SIDE, 3))
    blurred = Image.fromarray(noisy.clip(0, 255).astype(np.uint8))
    return blurred.filter(ImageFilter.GaussianBlur(float(random.uniform(0, 1.5))))
