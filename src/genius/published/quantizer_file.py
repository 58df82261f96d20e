"""The published quantizer (`rq_clip_large.pth`): a fusion of raw features, and codebooks under the names of
vector-quantize-pytorch. All sizes follow from the shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch

from genius.errors import InputError, MismatchError
from genius.published.files import PublishedFile
from genius.quantize.fusion import Fusion, FusionSettings
from genius.quantize.quantizer import Quantizer

WHAT = "GENIUS's quantizer"
LINEAR = {  # ours: theirs
    "text_projection": "encoder.text_projection_layer",
    "image_projection": "encoder.image_projection_layer",
    "mix.0": "encoder.combiner_layer",
    "mix.2": "encoder.output_layer",
    "share.0": "encoder.dynamic_scalar.0",
    "share.2": "encoder.dynamic_scalar.3",
}
FIRST = "vq._codebook."
"""A second name of the first level's codebook."""
TRAINING_ONLY = ("embed_avg", "cluster_size", "initted")
"""What a codebook has for training alone."""
_LEVEL = re.compile(r"residual_rq\.layers\.(\d+)\.")


@dataclass(frozen=True)
class PublishedQuantizer:
    """The published fusion and codebooks as ours.

    Attributes:
        fusion: from raw features to vectors.
        quantizer: from vectors to codes; its first code is learned.
    """

    fusion: Fusion
    quantizer: Quantizer

    @property
    def width(self) -> int:
        """Numbers of a feature, and of a vector."""
        return self.fusion.width


@dataclass(frozen=True)
class QuantizerSizes:
    """The sizes that determine the shapes of a quantizer's weights.

    Attributes:
        width: numbers of a feature, and of a vector.
        projected: numbers that each part is projected to.
        mixed, shared: numbers between the layers of what is added to the mixture, and of λ.
        codes: by level.
    """

    width: int
    projected: int
    mixed: int
    shared: int
    codes: tuple[int, ...]

    @classmethod
    def of(cls, file: PublishedFile) -> QuantizerSizes:
        """The sizes of a file that has all names. Raises InputError for weights without the needed axes."""
        books = [f"residual_rq.layers.{level}._codebook.embed" for level in range(_levels(file))]
        return cls(
            width=file.size(books[0], 2),
            projected=file.size("encoder.text_projection_layer.weight", 0),
            mixed=file.size("encoder.combiner_layer.weight", 0),
            shared=file.size("encoder.dynamic_scalar.0.weight", 0),
            codes=tuple(file.size(book, 1) for book in books),
        )

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each weight by name."""
        linear = {
            "text_projection": (self.projected, self.width),
            "image_projection": (self.projected, self.width),
            "mix.0": (self.mixed, 2 * self.projected),
            "mix.2": (self.width, self.mixed),
            "share.0": (self.shared, 2 * self.projected),
            "share.2": (1, self.shared),
        }
        shapes: dict[str, tuple[int, ...]] = {}
        for ours, theirs in LINEAR.items():
            shapes |= {f"{theirs}.weight": linear[ours], f"{theirs}.bias": linear[ours][:1]}
        for level, size in enumerate(self.codes):
            book: dict[str, tuple[int, ...]] = {"initted": (1,), "cluster_size": (1, size)}
            book |= {"embed_avg": (1, size, self.width), "embed": (1, size, self.width)}
            for start in (_level_name(level), FIRST) if level == 0 else (_level_name(level),):
                shapes |= {f"{start}{part}": shape for part, shape in book.items()}
        return shapes


def check_quantizer(file: PublishedFile) -> QuantizerSizes:
    """The sizes of a quantizer. Raises InputError that names what is missing, too much, or of a wrong
    shape."""
    levels = _levels(file)
    file.check_names(set(QuantizerSizes(1, 1, 1, 1, (1,) * levels).shapes()), WHAT)
    sizes = QuantizerSizes.of(file)
    shapes = sizes.shapes()
    for name in [name for name in shapes if name.endswith("initted") and not file.tensors[name].shape]:
        shapes[name] = ()  # as newer releases of vector-quantize-pytorch save it
    file.check_shapes(shapes)
    return sizes


def read_quantizer(file: PublishedFile) -> PublishedQuantizer:
    """The fusion and codebooks of a file that was checked.

    Raises InputError for codebooks that training never filled, or whose first level is not what its second
    name says.
    """
    sizes = QuantizerSizes.of(file)
    settings = FusionSettings(
        hidden=sizes.projected,
        dropout=0.0,
        with_embedding=False,
        raw=True,
        mix_hidden=sizes.mixed,
        share_hidden=sizes.shared,
        share_of="text",
    )
    fusion = Fusion(sizes.width, settings)
    fusion.load_state_dict(
        {
            f"{ours}.{part}": torch.from_numpy(file.read(f"{theirs}.{part}"))
            for ours, theirs in LINEAR.items()
            for part in ("weight", "bias")
        }
    )
    books = [_codebook(file, _level_name(level)) for level in range(len(sizes.codes))]
    if not np.array_equal(books[0], _codebook(file, FIRST)):
        raise InputError(
            "has two different codebooks for the first level (vq, residual_rq.layers.0): it was put together "
            "of two models",
            path=file.path,
        )
    return PublishedQuantizer(fusion.eval(), Quantizer(books, modality_code="learned"))


def check_same_quantizer(inner: PublishedFile, quantizer: PublishedFile) -> None:
    """Raise MismatchError unless the quantizer inside a decoder's file is the one of the other file."""
    different = (
        f"{inner.path} was trained on another quantizer than {quantizer.path}: give the two files that were "
        "published together"
    )
    if (ours := _levels(quantizer)) != (theirs := _levels(inner)):
        raise MismatchError(f"{different} (one has {theirs} levels of codes, the other {ours})")
    for name, tensor in quantizer.tensors.items():
        if name.endswith(TRAINING_ONLY):
            continue  # these play no part in search
        other = inner.tensors[name]
        if other.shape != tensor.shape or not np.array_equal(other.read(), tensor.read()):
            raise MismatchError(f"{different} ({name} differs)")


def _levels(file: PublishedFile) -> int:
    numbers = {int(match[1]) for name in file.tensors if (match := _LEVEL.match(name))}
    return max(1, len(numbers))


def _level_name(level: int) -> str:
    return f"residual_rq.layers.{level}._codebook."


def _codebook(file: PublishedFile, start: str) -> np.ndarray:
    if not file.read(f"{start}initted").all():
        raise InputError(f"was saved before its codebooks were filled ({start}initted is 0)", path=file.path)
    return np.asarray(file.read(f"{start}embed")[0])
