"""The published quantizer (`rq_clip_large.pth`): a fusion of raw features, and codebooks under the names of
vector-quantize-pytorch. All sizes follow from the shapes."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import torch

from genius.errors import InputError, MismatchError
from genius.published.files import PublishedFile, Shapes
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
CODEBOOK = ("embed", "embed_avg", "cluster_size", "initted")
"""What a level has; the averages are for training alone."""
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


def check_quantizer(file: PublishedFile) -> None:
    """Raise InputError that names what is missing, too much, or of a wrong shape."""
    levels = _levels(file)
    books = [f"residual_rq.layers.{level}._codebook." for level in range(levels)] + [FIRST]
    names = {f"{name}.{part}" for name in LINEAR.values() for part in ("weight", "bias")}
    names |= {f"{book}{part}" for book in books for part in CODEBOOK}
    file.check_names(names, WHAT)
    width = file.size("residual_rq.layers.0._codebook.embed", 2)
    file.check_shapes(_fusion_shapes(file, width))
    for book in books:
        size = file.size(f"{book}embed", 1)
        shapes = {"embed": (1, size, width), "embed_avg": (1, size, width), "cluster_size": (1, size)}
        file.check_shapes({f"{book}{part}": shape for part, shape in shapes.items()})
        if file.tensors[f"{book}initted"].shape not in ((1,), ()):
            raise InputError(f"holds {book}initted with an unknown shape", path=file.path)


def read_quantizer(file: PublishedFile) -> PublishedQuantizer:
    """The fusion and codebooks of a file that was checked.

    Raises InputError for codebooks that training never filled, or whose first level is not what its second
    name says.
    """
    projected, width = file.tensors["encoder.text_projection_layer.weight"].shape
    settings = FusionSettings(
        hidden=projected,
        dropout=0.0,
        with_embedding=False,
        raw=True,
        mix_hidden=file.size("encoder.combiner_layer.weight", 0),
        share_hidden=file.size("encoder.dynamic_scalar.0.weight", 0),
        share_of="text",
    )
    fusion = Fusion(width, settings)
    fusion.load_state_dict(
        {
            f"{ours}.{part}": torch.from_numpy(file.read(f"{theirs}.{part}"))
            for ours, theirs in LINEAR.items()
            for part in ("weight", "bias")
        }
    )
    books = [_codebook(file, f"residual_rq.layers.{level}._codebook.") for level in range(_levels(file))]
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
        if name.endswith(("embed_avg", "cluster_size", "initted")):
            continue  # these play no part in search
        other = inner.tensors[name]
        if other.shape != tensor.shape or not np.array_equal(other.read(), tensor.read()):
            raise MismatchError(f"{different} ({name} differs)")


def _levels(file: PublishedFile) -> int:
    numbers = {int(match[1]) for name in file.tensors if (match := _LEVEL.match(name))}
    return max(1, len(numbers))


def _fusion_shapes(file: PublishedFile, width: int) -> Shapes:
    projected = file.size("encoder.text_projection_layer.weight", 0)
    mixed = file.size("encoder.combiner_layer.weight", 0)
    shared = file.size("encoder.dynamic_scalar.0.weight", 0)
    sizes = {
        "text_projection": (projected, width),
        "image_projection": (projected, width),
        "mix.0": (mixed, 2 * projected),
        "mix.2": (width, mixed),
        "share.0": (shared, 2 * projected),
        "share.2": (1, shared),
    }
    shapes: dict[str, tuple[int, ...]] = {}
    for ours, theirs in LINEAR.items():
        shapes |= {f"{theirs}.weight": sizes[ours], f"{theirs}.bias": sizes[ours][:1]}
    return shapes


def _codebook(file: PublishedFile, start: str) -> np.ndarray:
    if not file.read(f"{start}initted").all():
        raise InputError(f"was saved before its codebooks were filled ({start}initted is 0)", path=file.path)
    return file.read(f"{start}embed")[0]
