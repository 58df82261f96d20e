"""Raw features made comparable: each part centred, turned to its main directions and evened out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from genius.errors import InputError

FIT_ROWS = 20_000


class Projection(nn.Module):
    """Parts of a feature vector, each by its own principal components, side by side at equal strength.

    A fixed map: fitted once on training features, then frozen. `whitening` raises weak directions: 0 keeps
    the spread of the data, 1 makes all directions equally strong. Behind the parts stand `raw` more numbers:
    the direction of the first part, as the tower gave it, in its main dimensions and of unit length.
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
        """Learn centres and directions from the rows of features [n, all parts]."""
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


def _spans(parts: Mapping[str, int], kept: Mapping[str, int]) -> list[tuple[int, int]]:
    """Where the parts that are kept stand among the features."""
    ends = np.cumsum(list(parts.values())).tolist()
    places = {name: (end - width, end) for (name, width), end in zip(parts.items(), ends, strict=True)}
    for name, width in kept.items():
        if name not in places:
            raise InputError(f"these features have no part {name!r}; they have {', '.join(parts)}")
        if width > parts[name]:
            raise InputError(f"part {name!r} has {parts[name]} numbers, so {width} can't be kept of it")
    return [places[name] for name in kept]


def _directions(rows: np.ndarray, kept: int, whitening: float) -> np.ndarray:
    """The strongest directions, scaled so that projected rows have a mean square of 1."""
    away = (rows - rows.mean(0)).astype(np.float64)
    strengths, directions = np.linalg.eigh(away.T @ away / len(away))
    strengths, directions = strengths[::-1][:kept], directions[:, ::-1][:, :kept]
    scaled = directions * np.maximum(strengths, 1e-9 * max(strengths[0], 1e-12)) ** (-whitening / 2)
    return np.asarray(scaled / math.sqrt(max(float(((away @ scaled) ** 2).sum(1).mean()), 1e-12)))


def kept_parts(entries: Sequence[str]) -> dict[str, int]:
    """How much of each part a recipe keeps.

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
