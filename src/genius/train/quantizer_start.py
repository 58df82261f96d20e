"""Fusion and codebooks that training starts from: those of another model, with their sizes."""

from __future__ import annotations

from dataclasses import replace

from genius.errors import InputError
from genius.model import Model
from genius.quantize.codebooks import CodebookSettings
from genius.quantize.fusion import FusionSettings


def sizes_of(
    start: Model, fusion: FusionSettings, codebooks: CodebookSettings
) -> tuple[FusionSettings, CodebookSettings]:
    """The settings with the sizes of the fusion and codebooks of the model that training starts from.

    Raises InputError for a model without them.
    """
    if not can_start_codes(start):
        raise InputError("has no fusion and codebooks that training could start from", path=start.path)
    tensors, sizes = start.fusion_tensors(), start.quantizer.sizes
    described = start.settings["quantizer"].get("fusion", {})
    fusion = replace(
        fusion,
        hidden=len(tensors["text_projection.weight"]),
        width=len(tensors["projection.weight"]) if "projection.weight" in tensors else 0,
        with_embedding="embedding_projection.weight" in tensors,
        mix_hidden=len(tensors["mix.0.weight"]),
        share_hidden=len(tensors["share.0.weight"]),
        **{name: described[name] for name in ("raw", "share_of") if name in described},
    )
    kind = start.settings["quantizer"]["modality_code"]
    return fusion, replace(codebooks, levels=len(sizes) - 1, sizes=sizes[1:], modality_code=kind)


def can_start_codes(model: Model) -> bool:
    """Whether training of codes can start from a model's: it has a fusion, and a vector for each modality."""
    described = model.settings.get("quantizer", {})
    return model.has_fusion and described["modality_code"] in ("given", "learned")
