"""Writes what was trained into a model's folder."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn

from genius import storage
from genius.decode.onnx_decoder import DECODER_FILES, WEIGHTS, graph_file
from genius.encode.encoder import Encoder
from genius.encode.features import Features
from genius.encode.heads import Heads
from genius.encode.onnx_export import export
from genius.model import FORMAT, KIND, Model
from genius.quantize.fusion import Fusion
from genius.train.decoder import DecoderStage
from genius.train.heads import EncoderSettings
from genius.train.quantizer import QuantizerStage


def write_dense_model(
    out: Path,
    recipe: dict[str, Any],
    settings: EncoderSettings,
    heads: Heads,
    encoder: Encoder,
    towers: Path | None,
    features: Features,
    scores: dict[str, float],
) -> None:
    """Write a model that has its first stage: towers, heads, and graphs that embed items and queries."""
    content = {
        "stages": ["encoder"],
        "fusion_kind": "heads",
        "encoder": {"kind": settings.towers, "source": settings.source, "fingerprint": encoder.fingerprint},
        "width": settings.heads.width,
        "heads": dataclasses.asdict(settings.heads),
        "recipe": recipe,
        "validation": {"encoder": scores},
    }
    made_from = {"encoder": encoder.fingerprint, "features": features.fingerprint}
    with storage.create(out, kind=KIND, format=FORMAT, settings=content, made_from=made_from) as draft:
        if towers is not None:
            carry_towers(towers, draft)
        save_file(heads.state_dict(), draft.folder / "heads.safetensors")
        items, queries = item_graph(heads, encoder), query_graph(heads, encoder)
        (draft.folder / "items.onnx").write_bytes(items)
        (draft.folder / "queries.onnx").write_bytes(queries)
        draft.counts["parameters"] = sum(parameter.numel() for parameter in heads.parameters())


def write_quantizer(
    model: Model, recipe: dict[str, Any], stage: QuantizerStage, scores: dict[str, float]
) -> None:
    """Add the second stage to a model: its fusion as a graph, its codebooks, and what searching must know."""
    quantizer, settled = stage.quantizer(), stage.settle()
    checked, weighed = settled.checked, settled.weighed
    settings = {
        **_without(model.settings, "decoder"),
        "stages": ["encoder", "quantizer"],
        "quantizer": {
            "sizes": list(quantizer.sizes),
            "modality_code": quantizer.modality_code,
            "temperature": checked.temperature,
            "modality_of": checked.modality_of,
            "dense_baseline": weighed.dense_baseline,
            "rerank": weighed.rerank if stage.settings.blend else 1.0,
        },
        "recipe": recipe,
        "validation": {**_without(model.settings["validation"], "decoder"), "quantizer": scores},
    }
    old = storage.open(model.path, kind=KIND, format=FORMAT)
    later = ("fusion.onnx", "quantizer.safetensors", "codebooks.safetensors")
    with storage.create(
        model.path, kind=KIND, format=FORMAT, settings=settings, made_from=old.manifest.made_from
    ) as draft:
        # A decoder that was trained on other codes is of no use with these.
        draft.reuse(old, *(name for name in _without_decoder(old) if name not in later))
        save_file(stage.network.state_dict(), draft.folder / "quantizer.safetensors")
        quantizer.write(draft.folder / "codebooks.safetensors")
        (draft.folder / "fusion.onnx").write_bytes(fusion_graph(stage.fusion))
        draft.counts |= _without(old.manifest.counts, "decoder_parameters")
        draft.counts["codes"] = sum(quantizer.sizes)


def write_decoder(
    model: Model, recipe: dict[str, Any], stage: DecoderStage, scores: dict[str, float]
) -> None:
    """Add the third stage to a model: its network's weights, and the graphs that run it."""
    exported = stage.export()
    settings = {
        **model.settings,
        "stages": ["encoder", "quantizer", "decoder"],
        "decoder": {
            "sizes": list(stage.decoder.sizes),
            "network": dataclasses.asdict(stage.settings.network),
            "difference_from_torch": {"largest": dict(exported.largest), "mean": dict(exported.mean)},
        },
        "recipe": recipe,
        "validation": {**model.settings["validation"], "decoder": scores},
    }
    old = storage.open(model.path, kind=KIND, format=FORMAT)
    with storage.create(
        model.path, kind=KIND, format=FORMAT, settings=settings, made_from=old.manifest.made_from
    ) as draft:
        draft.reuse(old, *_without_decoder(old))
        weights = {name: value.cpu().contiguous() for name, value in stage.decoder.state_dict().items()}
        save_file(weights, draft.folder / WEIGHTS)
        for precision, graphs in exported.graphs.items():
            for name, content in graphs.items():
                (draft.folder / graph_file(name, precision)).write_bytes(content)
        draft.counts |= old.manifest.counts
        draft.counts["decoder_parameters"] = sum(value.numel() for value in weights.values())


def _without(values: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != key}


def _without_decoder(artifact: storage.Artifact) -> list[str]:
    """The files of a model that are not its decoder's."""
    return [name for name in artifact.manifest.files if not name.startswith(DECODER_FILES)]


def fusion_graph(fusion: Fusion) -> bytes:
    """The ONNX graph from a record's parts to its vector."""
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(3, fusion.width, generator=generator) for _ in range(3)]
    has_image, has_text = torch.tensor([True, False, True]), torch.tensor([False, True, True])
    inputs = {
        "embeddings": parts[0],
        "image": parts[1],
        "has_image": has_image,
        "text": parts[2],
        "has_text": has_text,
    }
    return export(fusion, inputs, ["vectors"])


def carry_towers(towers: Path, draft: storage.Draft) -> None:
    """Put the towers of an artifact into a model that is being written."""
    artifact = storage.open(towers)
    (draft.folder / "towers").mkdir()
    for name in artifact.manifest.files:
        shutil.copyfile(artifact.file(name), draft.folder / "towers" / name)


class _Graph(nn.Module):
    """The heads under a forward pass of its own, to be exported."""

    def __init__(self, heads: Heads) -> None:
        super().__init__()
        self.heads = heads


class _ItemGraph(_Graph):
    def forward(
        self,
        image: torch.Tensor,
        has_image: torch.Tensor,
        text: torch.Tensor,
        has_text: torch.Tensor,
        modality: torch.Tensor,
    ) -> torch.Tensor:
        heads = self.heads
        blocks = heads.item_blocks(
            (heads.project_images(image), has_image), (heads.text_projection(text), has_text)
        )
        return heads.embed_items(blocks, modality)


class _QueryGraph(_Graph):
    def forward(
        self,
        image: torch.Tensor,
        has_image: torch.Tensor,
        text: torch.Tensor,
        has_text: torch.Tensor,
        instruction: torch.Tensor,
        has_instruction: torch.Tensor,
    ) -> torch.Tensor:
        heads = self.heads
        blocks, wants = heads.query_blocks(
            (heads.project_images(image), has_image),
            (heads.text_projection(text), has_text),
            (heads.text_projection(instruction), has_instruction),
        )
        return heads.embed_queries(blocks, wants)


def item_graph(heads: Heads, encoder: Encoder) -> bytes:
    """The ONNX graph from an item's features to its joined embedding."""
    return export(_ItemGraph(heads), _examples(encoder, modality=torch.arange(3)), ["embeddings"])


def query_graph(heads: Heads, encoder: Encoder) -> bytes:
    """The ONNX graph from a query's features to its joined embedding."""
    generator = torch.Generator().manual_seed(1)
    instruction = torch.randn(3, encoder.text_width, generator=generator)
    present = torch.tensor([True, False, True])
    return export(
        _QueryGraph(heads), _examples(encoder, instruction=instruction, has_instruction=present), ["embeddings"]
    )


def _examples(encoder: Encoder, **more: torch.Tensor) -> dict[str, torch.Tensor]:
    """Three rows of made-up features: a picture, a text, and both."""
    generator = torch.Generator().manual_seed(0)
    return {
        "image": torch.randn(3, encoder.image_width, generator=generator),
        "has_image": torch.tensor([True, False, True]),
        "text": torch.randn(3, encoder.text_width, generator=generator),
        "has_text": torch.tensor([False, True, True]),
        **more,
    }
