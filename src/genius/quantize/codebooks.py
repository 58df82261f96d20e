"""One level's codebook, which learns by moving averages instead of gradients."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from genius.data import records
from genius.errors import InputError
from genius.quantize.kmeans import kmeans, nearest, sums_by


class Codebook(nn.Module):
    """The vectors of one level, each a moving average of what it stands for."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.vectors: torch.Tensor
        self.register_buffer("vectors", torch.zeros(size, width))
        self.register_buffer("counts", torch.ones(size))
        self.register_buffer("sums", torch.zeros(size, width))
        self.register_buffer("carried", torch.ones(size))

    def start(self, vectors: torch.Tensor, counts: torch.Tensor) -> None:
        """Begin with these vectors, as if each had been used `counts` times a step."""
        self.vectors.copy_(vectors)
        self.get_buffer("carried").copy_(counts)
        self.get_buffer("counts").copy_(counts)
        self.get_buffer("sums").copy_(vectors * counts[:, None])

    def follow(self, rows: torch.Tensor, codes: torch.Tensor, decay: float) -> None:
        """Move every used vector towards the mean of its rows."""
        counts, sums = self.get_buffer("counts"), self.get_buffer("sums")
        new_counts = torch.bincount(codes, minlength=len(counts)).to(rows.dtype)
        new_sums = sums_by(rows, codes, len(counts))
        counts.mul_(decay).add_(new_counts, alpha=1 - decay)
        sums.mul_(decay).add_(new_sums, alpha=1 - decay)
        used = new_counts > 0
        self.vectors[used] = sums[used] / counts[used, None]

    def revive(
        self, items: torch.Tensor, codes: torch.Tensor, share: float, decay: float, generator: torch.Generator
    ) -> int:
        """Start codes that items use less than a share of an even use anew, from items; returns how many.

        Only items count: a code that only queries fall upon leads to nothing. Each takes a row of its own
        (two equal codes would never part), so at most as many as there are rows, and counts as evenly used
        at first, so that it has some steps to find what it stands for.
        """
        counts, carried = self.get_buffer("counts"), self.get_buffer("carried")
        even = len(items) / len(counts)
        carried.mul_(decay).add_(torch.bincount(codes, minlength=len(counts)), alpha=1 - decay)
        dead = (carried < share * even).nonzero().flatten()[: len(items)]
        chosen = items[torch.randperm(len(items), generator=generator)[: len(dead)]]
        self.vectors[dead] = chosen
        counts[dead] = carried[dead] = even
        self.get_buffer("sums")[dead] = chosen * even
        return len(dead)


MODALITIES = len(records.MODALITIES)
FirstCode = Literal["given", "learned", "classifier", "none"]
"""What the first code is: the modality as it is known; the nearest of three learned vectors (as published);
what a classifier says, a mere prefix without a vector; or nothing, all levels being semantic."""


@dataclass(frozen=True)
class CodebookSettings:
    """Levels and sizes of the code, and how codebooks learn."""

    levels: int = 8
    """Semantic levels, after the modality's."""
    size: int = 1024
    """Codes of each semantic level."""
    sizes: tuple[int, ...] = ()
    """Codes by semantic level, where they differ."""
    first: FirstCode = "given"
    shared: bool = False
    """Whether all semantic levels use one codebook."""
    decay: float = 0.95
    """Of the moving averages."""
    revive: float = 0.2
    """A code that is used less than this share of an even use starts anew from some vector; 0 is off."""
    iterations: int = 15
    """Of k-means at the start."""
    gradient: Literal["straight", "rotation"] = "straight"
    """How the gradient passes the quantizer."""
    gain: float = 1.0
    """Strength of the straight gradient; the reference code has, by its library, the number of levels."""

    def __post_init__(self) -> None:
        if self.levels < 1:
            raise InputError(f"there should be at least one semantic level, not {self.levels}")
        if self.sizes and len(self.sizes) != self.levels:
            raise InputError(f"there are {self.levels} levels, but {len(self.sizes)} sizes")
        if min(self.semantic_sizes) < 2 or max(self.semantic_sizes) > 65536:
            raise InputError("a level needs 2 to 65536 codes; a single code would say nothing")
        if self.shared and len(set(self.semantic_sizes)) > 1:
            raise InputError("a shared codebook has one size for all levels")
        if not 0 <= self.decay < 1:
            raise InputError("decay should be at least 0 and below 1")
        if not 0 <= self.revive < 1:
            raise InputError("revive is a share of an even use: at least 0 and below 1")
        if self.iterations < 1:
            raise InputError("iterations of k-means should be at least 1")

    @property
    def semantic_sizes(self) -> tuple[int, ...]:
        """Codes by semantic level."""
        return self.sizes or (self.size,) * self.levels

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """Codes by level, the modality's first."""
        return self.semantic_sizes if self.first == "none" else (MODALITIES, *self.semantic_sizes)


@dataclass(frozen=True)
class Quantized:
    """Codes [n, levels], the quantized vectors [n, width] with their gradient, and how far the residuals are
    from their code vectors (L_rq: mean over levels, rows and dimensions)."""

    codes: torch.Tensor
    vectors: torch.Tensor
    commitment: torch.Tensor


class Codebooks(nn.Module):
    """All levels. `first` in the methods is the modality [n] of items, and of queries the wanted one."""

    def __init__(self, width: int, settings: CodebookSettings) -> None:
        super().__init__()
        self.width, self.settings = width, settings
        sizes = settings.semantic_sizes
        self.modality = Codebook(MODALITIES, width) if settings.first in ("given", "learned") else None
        self.classifier = nn.Linear(width, MODALITIES) if settings.first == "classifier" else None
        self.semantic = nn.ModuleList(
            Codebook(size, width) for size in (sizes[:1] if settings.shared else sizes)
        )

    def level(self, number: int) -> Codebook:
        """The codebook of a semantic level."""
        book = self.semantic[0 if self.settings.shared else number]
        assert isinstance(book, Codebook)
        return book

    @torch.no_grad()
    def start(
        self,
        vectors: torch.Tensor,
        first: torch.Tensor,
        generator: torch.Generator,
        *,
        step: int | None = None,
    ) -> None:
        """Begin with k-means, level by level, of many vectors.

        `step` is how many vectors a step of training will bring: codes begin as if they had been used that
        much, so that they neither jump at the first step nor cling to where they began.

        Raises InputError for vectors that are no numbers, all the same, or fewer than a level has codes.
        """
        check_vectors(vectors)
        largest = max(self.settings.all_sizes)
        if len(vectors) < largest:
            raise InputError(
                f"{len(vectors)} vectors are too few for {largest} codes a level: "
                f"take more, or a size of at most {len(vectors)} in the recipe"
            )
        scale = (step or len(vectors)) / len(vectors)
        rows, iterations = vectors, self.settings.iterations
        if self.modality is not None:
            if self.settings.first == "given":
                centres = _means_by(rows, first)
                own = first
            else:
                centres, own = kmeans(rows, MODALITIES, iterations=4 * iterations, generator=generator)
            counts = torch.bincount(own, minlength=MODALITIES).clamp(min=1)
            self.modality.start(centres, counts.to(rows.dtype) * scale)
            rows = rows - centres[own]
        for number, size in enumerate(self.settings.semantic_sizes):
            book = self.level(number)
            if number == 0 or not self.settings.shared:
                centres, own = kmeans(rows, size, iterations=iterations, generator=generator)
                counts = torch.bincount(own, minlength=size).clamp(min=1)
                book.start(centres, counts.to(rows.dtype) * scale)
            rows = rows - book.vectors[nearest(rows, book.vectors)]

    def first_codes(self, vectors: torch.Tensor, first: torch.Tensor) -> torch.Tensor | None:
        """The codes of the modality's level, if there is one."""
        if self.settings.first == "none":
            return None
        if self.classifier is not None:
            codes: torch.Tensor = self.classifier(vectors).argmax(1)
            return codes
        if self.settings.first == "given":
            return first
        assert self.modality is not None
        return nearest(vectors, self.modality.vectors)

    def quantize(self, vectors: torch.Tensor, first: torch.Tensor) -> Quantized:
        """Quantize vectors [n, width] greedily, each level coding what the ones before it left over."""
        with torch.no_grad():
            codes, sums = self._code(vectors, first)
            middle = torch.stack(sums).mean(0)
            spread = torch.stack([(part - middle).square().mean() for part in sums]).mean()
        # The mean over levels of ‖z − sum‖² is ‖z − middle‖² and something that does not depend on z.
        commitment = (vectors - middle).square().mean() + spread
        return Quantized(codes, self._with_gradient(vectors, sums[-1]), commitment)

    def _code(self, vectors: torch.Tensor, first: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Codes [n, levels], and after each codebook the sum of the code vectors so far."""
        levels, sums, rest = [], [], vectors
        start = self.first_codes(vectors, first)
        if start is not None:
            levels.append(start)
        if start is not None and self.modality is not None:
            sums.append(self.modality.vectors[start])
            rest = vectors - sums[-1]
        for number in range(self.settings.levels):
            book = self.level(number)
            codes = nearest(rest, book.vectors)
            own = book.vectors[codes]
            rest = rest - own
            levels.append(codes)
            sums.append(sums[-1] + own if sums else own)
        return torch.stack(levels, 1), sums

    def prefix_loss(
        self, vectors: torch.Tensor, codes: torch.Tensor, levels: int, temperature: float
    ) -> torch.Tensor:
        """How unlikely the first semantic codes of answers are for queries' vectors, by geometry; summed."""
        rest, losses = vectors, []
        if self.modality is not None:
            rest = rest - self.modality.vectors[codes[:, 0]]
        semantic = codes if self.settings.first == "none" else codes[:, 1:]
        for number in range(min(levels, self.settings.levels)):
            book = self.level(number).vectors.clone()  # it moves before the gradient comes back
            nearness = 2 * rest @ book.T - book.square().sum(1)
            losses.append(
                functional.cross_entropy(nearness / temperature, semantic[:, number], reduction="sum")
            )
            rest = rest - book[semantic[:, number]]
        return torch.stack(losses).sum()

    def _with_gradient(self, vectors: torch.Tensor, quantized: torch.Tensor) -> torch.Tensor:
        if self.settings.gradient == "rotation":
            return rotated(vectors, quantized)
        gain = self.settings.gain
        return gain * vectors + (quantized - gain * vectors).detach()

    @torch.no_grad()
    def follow(
        self,
        vectors: torch.Tensor,
        codes: torch.Tensor,
        *,
        queries: int,
        revive: bool,
        generator: torch.Generator,
    ) -> None:
        """Move all codebooks towards the vectors that were coded so, and start codes anew that no item uses.

        The first `queries` of the vectors are queries', the others items'.
        """
        rest, decay = vectors, self.settings.decay
        semantic = codes if self.settings.first == "none" else codes[:, 1:]
        if self.modality is not None:
            before = self.modality.vectors[codes[:, 0]]
            self.modality.follow(rest, codes[:, 0], decay)
            rest = rest - before
        seen: list[torch.Tensor] = []  # what each level coded, by the vectors as they were
        for number in range(self.settings.levels):
            seen.append(rest)
            rest = rest - self.level(number).vectors[semantic[:, number]]
        levels = list(zip(seen, semantic.T, strict=True))
        items = [(rows[queries:], own[queries:]) for rows, own in levels]
        if self.settings.shared:
            levels = [(torch.cat(seen), semantic.T.flatten())]
            items = [(torch.cat([rows for rows, _ in items]), torch.cat([own for _, own in items]))]
        for number, (rows, own) in enumerate(levels):
            book = self.level(number)
            book.follow(rows, own, decay)
            if revive and self.settings.revive:
                book.revive(*items[number], self.settings.revive, decay, generator)

    def arrays(self) -> list[torch.Tensor]:
        """The vectors of every level, the modality's first; a classifier's level has zeros."""
        semantic = [self.level(number).vectors for number in range(self.settings.levels)]
        if self.settings.first == "none":
            return semantic
        if self.modality is None:
            return [torch.zeros(MODALITIES, self.width), *semantic]
        return [self.modality.vectors, *semantic]


def check_vectors(vectors: torch.Tensor) -> None:
    """Raise InputError for vectors that can't be quantized."""
    if not torch.isfinite(vectors).all():
        raise InputError("some vectors are NaN or infinite: encode the collection again")
    if len(vectors) and bool((vectors == vectors[:1]).all()):
        raise InputError("all vectors are the same, so there is nothing to tell items apart by")


def rotated(vectors: torch.Tensor, quantized: torch.Tensor) -> torch.Tensor:
    """The quantized vectors, with the gradient of the rotation and scaling that leads there (Fifty et al.,
    arXiv 2410.06424)."""
    length, target_length = vectors.norm(dim=1, keepdim=True), quantized.norm(dim=1, keepdim=True)
    unit = (vectors / length.clamp(min=1e-6)).detach()
    target = (quantized / target_length.clamp(min=1e-6)).detach()
    between = functional.normalize(unit + target, dim=1).detach()
    turned = (
        vectors
        - 2 * (vectors * between).sum(1, keepdim=True) * between
        + 2 * (vectors * unit).sum(1, keepdim=True) * target
    )
    scaled: torch.Tensor = turned * (target_length / length.clamp(min=1e-6)).detach()
    return scaled


def _means_by(rows: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """The mean row of each modality; of one that does not occur, the mean of all."""
    means = rows.mean(0, keepdim=True).repeat(MODALITIES, 1)
    for number in range(MODALITIES):
        if bool((groups == number).any()):
            means[number] = rows[groups == number].mean(0)
    return means
