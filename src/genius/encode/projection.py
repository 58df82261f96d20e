"""Fixed maps of features, fitted once on training features and then frozen.

`Projection` makes features comparable by principal components. `ClassNaming` says where the caption of an
image would roughly be, from the classes that its tower sees in it (ConSE, Norouzi et al., arXiv 1312.5650);
that needs no training, so it also holds for what training never showed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from genius.errors import InputError

FIT_ROWS = 20_000
LIKELIEST = 20
"""How many classes name an image."""


class Projection(nn.Module):
    """The parts of a feature vector, each by its principal components, concatenated at equal strength.

    `whitening` raises weak directions: 0 keeps the spread of the data, 1 makes all directions equally strong.
    The projected parts are followed by the raw block, `raw` more numbers: the direction of the first part, as
    the tower gave it, in its main dimensions and of unit length.
    """

    def __init__(self, parts: Mapping[str, int], kept: Mapping[str, int], raw: int) -> None:
        super().__init__()
        self.spans = _spans(parts, kept)
        self.width, self.raw = sum(kept.values()), raw
        for number, ((first, last), width) in enumerate(zip(self.spans, kept.values(), strict=True)):
            self.register_buffer(f"centre_{number}", torch.zeros(last - first))
            self.register_buffer(f"directions_{number}", torch.zeros(last - first, width))
        first, last = self.spans[0]
        self.register_buffer("raw_centre", torch.zeros(last - first))
        self.register_buffer("raw_directions", torch.zeros(last - first, raw))

    def fit(self, features: np.ndarray, whitening: float, seed: int = 0) -> None:
        """Fit centres and directions to features [n, all parts].

        Raises InputError if there are none, or if some are NaN or infinite.
        """
        if not len(features):
            raise InputError("there are no features to learn a projection from")
        chosen = np.random.default_rng(seed).permutation(len(features))[:FIT_ROWS]
        rows = np.asarray(features[np.sort(chosen)], np.float32)
        if not np.isfinite(rows).all():
            raise InputError("some features are NaN or infinite: encode the collection again")
        size = math.sqrt(self.width / len(self.spans))
        for number, (first, last) in enumerate(self.spans):
            self._fit(f"centre_{number}", f"directions_{number}", rows[:, first:last], whitening, size)
        first, last = self.spans[0]
        unit = rows[:, first:last] / np.maximum(
            np.linalg.norm(rows[:, first:last], axis=1, keepdims=True), 1e-9
        )
        self._fit("raw_centre", "raw_directions", unit, 0.0, 1.0)

    def _fit(self, centre: str, directions: str, rows: np.ndarray, whitening: float, size: float) -> None:
        kept = self.get_buffer(directions).shape[1]
        self.get_buffer(centre).copy_(torch.from_numpy(rows.mean(0)))
        self.get_buffer(directions).copy_(torch.from_numpy(_directions(rows, kept, whitening) * size))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Project features [n, all parts] to [n, width + raw]."""
        parts = [
            (features[:, first:last] - self.get_buffer(f"centre_{number}"))
            @ self.get_buffer(f"directions_{number}")
            for number, (first, last) in enumerate(self.spans)
        ]
        first, last = self.spans[0]
        unit = functional.normalize(features[:, first:last], dim=1) - self.get_buffer("raw_centre")
        parts.append(functional.normalize(unit @ self.get_buffer("raw_directions"), dim=1))
        return torch.cat(parts, dim=1)


class ClassNaming(nn.Module):
    """From an image's class logits to the raw block of the text that would name it.

    This is the mean of the text embeddings of the likeliest classes' names, by all networks that have
    classes.
    """

    def __init__(self, image_parts: Mapping[str, int], raw: int) -> None:
        super().__init__()
        if "logits" not in image_parts:
            raise InputError("these features have no class logits, so pictures can't be named by them")
        logits = {name: width for name, width in image_parts.items() if name.endswith("logits")}
        self.spans = _spans(image_parts, logits)
        self.register_buffer("vectors", torch.zeros(image_parts["logits"], raw))
        self.register_buffer("centre", torch.zeros(raw))

    def fit(self, sentences: torch.Tensor, text: Projection, features: torch.Tensor) -> None:
        """Take a text feature vector per class [classes, …] and centre on features of training images."""
        first, last = text.spans[0]
        unit = functional.normalize(sentences[:, first:last], dim=1)
        self.get_buffer("vectors").copy_(unit @ text.get_buffer("raw_directions"))
        self.get_buffer("centre").copy_(self._mean_name(features).mean(0))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Raw text blocks [n, raw] of unit length, from image features [n, all parts]."""
        return functional.normalize(self._mean_name(features) - self.get_buffer("centre"), dim=1)

    def _mean_name(self, features: torch.Tensor) -> torch.Tensor:
        """Mean [n, raw] of the likeliest classes' vectors, weighted by the roots of their probabilities."""
        weights = []
        for first, last in self.spans:
            shares = features[:, first:last].softmax(dim=1)
            likeliest = shares.topk(LIKELIEST, dim=1)
            roots = torch.zeros_like(shares).scatter(1, likeliest.indices, likeliest.values.sqrt())
            weights.append(functional.normalize(roots, p=1.0, dim=1))
        return torch.stack(weights).mean(0) @ self.get_buffer("vectors")


def _spans(parts: Mapping[str, int], kept: Mapping[str, int]) -> list[tuple[int, int]]:
    """First and last column (exclusive) of each part that is kept."""
    ends = np.cumsum(list(parts.values())).tolist()
    places = {name: (end - width, end) for (name, width), end in zip(parts.items(), ends, strict=True)}
    for name, width in kept.items():
        if name not in places:
            raise InputError(f"these features have no part {name!r}; they have {', '.join(parts)}")
        if width > parts[name]:
            raise InputError(f"part {name!r} has {parts[name]} numbers, so {width} can't be kept of it")
    return [places[name] for name in kept]


def _directions(rows: np.ndarray, kept: int, whitening: float) -> np.ndarray:
    """The strongest directions [width, kept], scaled so that projected rows have a mean square of 1."""
    centred = (rows - rows.mean(0)).astype(np.float64)
    strengths, directions = np.linalg.eigh(centred.T @ centred / len(centred))
    strengths, directions = strengths[::-1][:kept], directions[:, ::-1][:, :kept]
    scaled = directions * np.maximum(strengths, 1e-9 * max(strengths[0], 1e-12)) ** (-whitening / 2)
    return np.asarray(scaled / math.sqrt(max(float(((centred @ scaled) ** 2).sum(1).mean()), 1e-12)))


def kept_parts(entries: Sequence[str]) -> dict[str, int]:
    """How many dimensions of each part a recipe keeps. Raises InputError for an entry of another form.

    >>> kept_parts(["mean:384", "max:192"])
    {'mean': 384, 'max': 192}
    """
    kept = {}
    for entry in entries:
        name, _, width = entry.partition(":")
        if not width.isdigit() or int(width) < 1:
            raise InputError(
                f"{entry!r} should be a part's name and how many numbers to keep, as in 'mean:384'"
            )
        kept[name] = int(width)
    return kept
