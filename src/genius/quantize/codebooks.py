"""Codebooks in training: residual quantization whose vectors learn by moving averages, not by gradients.

`Codebook` is one level, `Codebooks` are all of them with the modality's in front, and `rotation_trick` is one
of the two ways in which the gradient passes the quantizer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from genius.data import records
from genius.errors import InputError
from genius.quantize.kmeans import kmeans, nearest_centres, sums_by
from genius.quantize.quantizer import MAX_CODE_BITS, ModalityCode, code_bits

MODALITIES = len(records.MODALITIES)


@dataclass(frozen=True)
class CodebookSettings:
    """Levels and sizes of the code, and how codebooks learn."""

    levels: int = 8
    """Semantic levels, after the modality's."""
    size: int = 1024
    """Codes of each semantic level."""
    sizes: tuple[int, ...] = ()
    """Codes by semantic level, where they differ."""
    modality_code: ModalityCode = "given"
    """Where the modality code comes from: `given` with the item, the nearest of three `learned` vectors, a
    `classifier`, or `none`: all levels are semantic."""
    shared: bool = False
    """Whether all semantic levels use one codebook."""
    decay: float = 0.95
    """Of the moving averages."""
    dead_code_threshold: float = 0.2
    """A code that items use less than this share of an even use is dead: it restarts from an item's vector;
    0 is off."""
    iterations: int = 15
    """Of k-means at the start."""
    beams: int = 1
    """Partial sums that are kept while an item is coded, once codebooks are trained, which they are greedily:
    with 4, codes come nearer to new items."""
    gradient: Literal["straight", "rotation"] = "straight"
    """How the gradient passes the quantizer: straight through, or by the rotation trick."""
    gain: float = 1.0
    """Strength of the straight gradient; the reference code has, by its library, the number of levels."""

    def __post_init__(self) -> None:
        if self.levels < 1:
            raise InputError(f"there should be at least one semantic level, not {self.levels}")
        if self.sizes and len(self.sizes) != self.levels:
            raise InputError(f"there are {self.levels} levels, but {len(self.sizes)} sizes")
        if min(self.semantic_sizes) < 2 or max(self.semantic_sizes) > 65536:
            raise InputError("a level needs 2 to 65536 codes; a single code would say nothing")
        if (bits := code_bits(self.semantic_sizes)) > MAX_CODE_BITS:
            raise InputError(
                f"codes of {bits} bits can't be searched, only {MAX_CODE_BITS}: use fewer or smaller levels"
            )
        if self.shared and len(set(self.semantic_sizes)) > 1:
            raise InputError("a shared codebook has one size for all levels")
        if not 0 <= self.decay < 1:
            raise InputError("decay should be at least 0 and below 1")
        if not 0 <= self.dead_code_threshold < 1:
            raise InputError("dead_code_threshold is a share of an even use: at least 0 and below 1")
        if self.beams < 1:
            raise InputError(f"coding needs at least one beam, not {self.beams}")
        if self.iterations < 1:
            raise InputError("iterations of k-means should be at least 1")

    @property
    def semantic_sizes(self) -> tuple[int, ...]:
        """Codes by semantic level."""
        return self.sizes or (self.size,) * self.levels

    @property
    def all_sizes(self) -> tuple[int, ...]:
        """Codes by level, the modality's first."""
        return self.semantic_sizes if self.modality_code == "none" else (MODALITIES, *self.semantic_sizes)


class Codebook(nn.Module):
    """The vectors [size, width] of one level, each a moving average of the rows that it codes."""

    def __init__(self, size: int, width: int) -> None:
        super().__init__()
        self.vectors: torch.Tensor
        self.register_buffer("vectors", torch.zeros(size, width))
        self.register_buffer("counts", torch.ones(size))
        self.register_buffer("sums", torch.zeros(size, width))
        self.register_buffer("item_counts", torch.ones(size))

    def init(self, vectors: torch.Tensor, counts: torch.Tensor) -> None:
        """Begin with these vectors [size, width], as if each had been used `counts` [size] times a step."""
        self.vectors.copy_(vectors)
        self.get_buffer("item_counts").copy_(counts)
        self.get_buffer("counts").copy_(counts)
        self.get_buffer("sums").copy_(vectors * counts[:, None])

    def ema_update(self, rows: torch.Tensor, codes: torch.Tensor, decay: float) -> None:
        """Move the vector of every used code towards the mean of its rows [n, width]."""
        counts, sums = self.get_buffer("counts"), self.get_buffer("sums")
        new_counts = torch.bincount(codes, minlength=len(counts)).to(rows.dtype)
        new_sums = sums_by(rows, codes, len(counts))
        counts.mul_(decay).add_(new_counts, alpha=1 - decay)
        sums.mul_(decay).add_(new_sums, alpha=1 - decay)
        used = new_counts > 0
        self.vectors[used] = sums[used] / counts[used, None]

    def restart_dead_codes(
        self,
        items: torch.Tensor,
        codes: torch.Tensor,
        threshold: float,
        decay: float,
        generator: torch.Generator,
    ) -> int:
        """Restart codes that items [n, width] use less than `threshold` of an even use; returns how many.

        Only items count: a code that only queries have leads to nothing. Each dead code takes the row of
        another item (two equal codes would never part), so at most n restart. A restarted code counts as
        evenly used, so that it has some steps to find rows of its own.
        """
        counts, item_counts = self.get_buffer("counts"), self.get_buffer("item_counts")
        even = len(items) / len(counts)
        item_counts.mul_(decay).add_(torch.bincount(codes, minlength=len(counts)), alpha=1 - decay)
        dead = (item_counts < threshold * even).nonzero().flatten()[: len(items)]
        chosen = items[torch.randperm(len(items), generator=generator)[: len(dead)]]
        self.vectors[dead] = chosen
        counts[dead] = item_counts[dead] = even
        self.get_buffer("sums")[dead] = chosen * even
        return len(dead)


@dataclass(frozen=True)
class Quantized:
    """What quantizing n vectors gives.

    Attributes:
        codes: [n, levels].
        vectors: the quantized vectors [n, width], with their gradient.
        commitment: L_rq, how far residuals are from their code vectors: mean over levels, rows, dimensions.
        sums: after each semantic level the sums of the code vectors so far [n, width], without a gradient.
    """

    codes: torch.Tensor
    vectors: torch.Tensor
    commitment: torch.Tensor
    sums: tuple[torch.Tensor, ...]


class Codebooks(nn.Module):
    """All levels. `modality` [n] in the methods is what an item is, and what a query wants."""

    def __init__(self, width: int, settings: CodebookSettings) -> None:
        super().__init__()
        self.width, self.settings = width, settings
        sizes, kind = settings.semantic_sizes, settings.modality_code
        self.modality = Codebook(MODALITIES, width) if kind in ("given", "learned") else None
        self.classifier = nn.Linear(width, MODALITIES) if kind == "classifier" else None
        self.semantic = nn.ModuleList(
            Codebook(size, width) for size in (sizes[:1] if settings.shared else sizes)
        )

    def level(self, number: int) -> Codebook:
        """The codebook of a semantic level."""
        book = self.semantic[0 if self.settings.shared else number]
        assert isinstance(book, Codebook)
        return book

    def books(self) -> list[Codebook]:
        """All codebooks, the modality's first if it has one."""
        semantic = [book for book in self.semantic if isinstance(book, Codebook)]
        return semantic if self.modality is None else [self.modality, *semantic]

    def vectors_by_level(self) -> list[torch.Tensor]:
        """The vectors [codes, width] of every level, the modality's first; a classifier's level has zeros."""
        semantic = [self.level(number).vectors for number in range(self.settings.levels)]
        if self.settings.modality_code == "none":
            return semantic
        if self.modality is None:
            return [torch.zeros(MODALITIES, self.width), *semantic]
        return [self.modality.vectors, *semantic]

    # --- start

    @torch.no_grad()
    def init(
        self,
        vectors: torch.Tensor,
        modality: torch.Tensor,
        generator: torch.Generator,
        *,
        step_size: int | None = None,
        shrinkage: float = 0.0,
        iterations: int | None = None,
    ) -> None:
        """Begin with k-means, level by level, of many vectors [n, width].

        `step_size` is how many vectors a step of training will bring: codes begin as if they had been used
        that much, so that they neither jump at the first step nor cling to where they began. With
        `shrinkage`, a semantic code's vector is the mean of its vectors and of so many zeros: means of few
        vectors say much about these and little about new ones. `iterations` are those of the settings, if
        not given.

        Raises InputError for vectors that are not finite, all the same, or fewer than a level has codes.
        """
        check_vectors(vectors)
        largest = max(self.settings.all_sizes)
        if len(vectors) < largest:
            raise InputError(
                f"{len(vectors)} vectors are too few for {largest} codes a level: "
                f"take more, or a size of at most {len(vectors)} in the recipe"
            )
        scale = (step_size or len(vectors)) / len(vectors)
        rows, iterations = vectors, iterations or self.settings.iterations
        if self.modality is not None:
            if self.settings.modality_code == "given":
                centres, own = _means_by_modality(rows, modality), modality
            else:
                centres, own = kmeans(rows, MODALITIES, iterations=4 * iterations, generator=generator)
            counts = torch.bincount(own, minlength=MODALITIES).clamp(min=1)
            self.modality.init(centres, counts.to(rows.dtype) * scale)
            rows = rows - centres[own]
        for number, size in enumerate(self.settings.semantic_sizes):
            book = self.level(number)
            if number == 0 or not self.settings.shared:
                centres, own = kmeans(rows, size, iterations=iterations, generator=generator)
                counts = torch.bincount(own, minlength=size).clamp(min=1).to(rows.dtype)
                book.init(centres * (counts / (counts + shrinkage))[:, None], counts * scale)
            rows = rows - book.vectors[nearest_centres(rows, book.vectors)]

    # --- coding

    def quantize(self, vectors: torch.Tensor, modality: torch.Tensor) -> Quantized:
        """Quantize vectors [n, width] greedily, each level coding the residual of the ones before it."""
        with torch.no_grad():
            codes, sums = self._code(vectors, modality)
            middle = torch.stack(sums).mean(0)
            spread = torch.stack([(part - middle).square().mean() for part in sums]).mean()
        # The mean over levels of ‖z − sum‖² is ‖z − middle‖² and something that does not depend on z.
        commitment = (vectors - middle).square().mean() + spread
        quantized = self.pass_gradient(vectors, sums[-1])
        return Quantized(codes, quantized, commitment, tuple(sums[-self.settings.levels :]))

    def modality_codes(self, vectors: torch.Tensor, modality: torch.Tensor) -> torch.Tensor | None:
        """The codes [n] of the modality's level, if there is one."""
        if self.settings.modality_code == "none":
            return None
        if self.classifier is not None:
            codes: torch.Tensor = self.classifier(vectors).argmax(1)
            return codes
        if self.settings.modality_code == "given":
            return modality
        assert self.modality is not None
        return nearest_centres(vectors, self.modality.vectors)

    def _code(self, vectors: torch.Tensor, modality: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
        """Codes [n, levels], and after each codebook the sum of the code vectors so far."""
        levels, sums, residuals = [], [], vectors
        modality_codes = self.modality_codes(vectors, modality)
        if modality_codes is not None:
            levels.append(modality_codes)
            if self.modality is not None:
                sums.append(self.modality.vectors[modality_codes])
                residuals = vectors - sums[-1]
        for number in range(self.settings.levels):
            book = self.level(number)
            codes = nearest_centres(residuals, book.vectors)
            own = book.vectors[codes]
            residuals = residuals - own
            levels.append(codes)
            sums.append(sums[-1] + own if sums else own)
        return torch.stack(levels, 1), sums

    def pass_gradient(self, vectors: torch.Tensor, quantized: torch.Tensor) -> torch.Tensor:
        """Sums of code vectors [n, width], with a gradient for the vectors [n, width] that they quantize."""
        if self.settings.gradient == "rotation":
            return rotation_trick(vectors, quantized)
        gain = self.settings.gain
        return gain * vectors + (quantized - gain * vectors).detach()

    def prefix_loss(
        self, vectors: torch.Tensor, codes: torch.Tensor, levels: int, temperature: float
    ) -> torch.Tensor:
        """How unlikely the first semantic codes of answers are for queries' vectors, by geometry; summed."""
        residuals, losses = vectors, []
        if self.modality is not None:
            residuals = residuals - self.modality.vectors[codes[:, 0]]
        semantic = self._semantic_codes(codes)
        for number in range(min(levels, self.settings.levels)):
            book = self.level(number).vectors.clone()  # it moves before the gradient comes back
            logits = (2 * residuals @ book.T - book.square().sum(1)) / temperature
            losses.append(functional.cross_entropy(logits, semantic[:, number], reduction="sum"))
            residuals = residuals - book[semantic[:, number]]
        return torch.stack(losses).sum()

    def _semantic_codes(self, codes: torch.Tensor) -> torch.Tensor:
        return codes if self.settings.modality_code == "none" else codes[:, 1:]

    # --- learning

    @torch.no_grad()
    def ema_update(
        self,
        vectors: torch.Tensor,
        codes: torch.Tensor,
        *,
        num_queries: int,
        restart_dead: bool,
        generator: torch.Generator,
    ) -> None:
        """Move all codebooks towards the vectors [n, width] that have these codes [n, levels].

        The first `num_queries` vectors are queries', the others items'. With `restart_dead`, codes that no
        item uses restart from items.
        """
        residuals, decay = vectors, self.settings.decay
        semantic = self._semantic_codes(codes)
        if self.modality is not None:
            before = self.modality.vectors[codes[:, 0]]
            self.modality.ema_update(residuals, codes[:, 0], decay)
            residuals = residuals - before
        coded: list[torch.Tensor] = []  # what each level coded, by the vectors as they were
        for number in range(self.settings.levels):
            coded.append(residuals)
            residuals = residuals - self.level(number).vectors[semantic[:, number]]
        levels = list(zip(coded, semantic.T, strict=True))
        items = [(rows[num_queries:], own[num_queries:]) for rows, own in levels]
        if self.settings.shared:
            levels = [(torch.cat(coded), semantic.T.flatten())]
            items = [(torch.cat([rows for rows, _ in items]), torch.cat([own for _, own in items]))]
        threshold = self.settings.dead_code_threshold
        for number, (rows, own) in enumerate(levels):
            book = self.level(number)
            book.ema_update(rows, own, decay)
            if restart_dead and threshold:
                book.restart_dead_codes(*items[number], threshold, decay, generator)


def check_vectors(vectors: torch.Tensor) -> None:
    """Raise InputError for vectors that can't be quantized."""
    if not torch.isfinite(vectors).all():
        raise InputError("some vectors are NaN or infinite: encode the collection again")
    if len(vectors) and bool((vectors == vectors[:1]).all()):
        raise InputError("all vectors are the same, so there is nothing to tell items apart by")


def rotation_trick(vectors: torch.Tensor, quantized: torch.Tensor) -> torch.Tensor:
    """The quantized vectors, with the gradient of the rotation and scaling from the vectors to them (Fifty et
    al., arXiv 2410.06424)."""
    length, target_length = vectors.norm(dim=1, keepdim=True), quantized.norm(dim=1, keepdim=True)
    unit = (vectors / length.clamp(min=1e-6)).detach()
    target = (quantized / target_length.clamp(min=1e-6)).detach()
    between = functional.normalize(unit + target, dim=1).detach()
    rotated = (
        vectors
        - 2 * (vectors * between).sum(1, keepdim=True) * between
        + 2 * (vectors * unit).sum(1, keepdim=True) * target
    )
    scaled: torch.Tensor = rotated * (target_length / length.clamp(min=1e-6)).detach()
    return scaled


def _means_by_modality(rows: torch.Tensor, modality: torch.Tensor) -> torch.Tensor:
    """The mean row of each modality; of one that does not occur, the mean of all."""
    means = rows.mean(0, keepdim=True).repeat(MODALITIES, 1)
    for number in range(MODALITIES):
        if bool((modality == number).any()):
            means[number] = rows[modality == number].mean(0)
    return means
