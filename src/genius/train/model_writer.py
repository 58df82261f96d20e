"""Writes trained stages into a model's folder, with the ONNX graphs that run them."""

from __future__ import annotations

import copy
import dataclasses
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn

from genius import storage
from genius.decode.export import Exported
from genius.decode.fused_decoder import GeometricFusionSettings
from genius.decode.onnx_decoder import DECODER_FILES, WEIGHTS, graph_file
from genius.decode.t5 import T5Decoder
from genius.encode.clip import Clip
from genius.encode.encoder import Encoder
from genius.encode.features import Features
from genius.encode.heads import Heads
from genius.encode.onnx_export import export, without_tensors
from genius.encode.onnx_graph import Graph
from genius.identifiers.identifiers import Identifiers
from genius.model import FORMAT, KIND, Model
from genius.quantize.fusion import Fusion
from genius.quantize.search_settings import SearchSettings
from genius.tensors import write_tensors
from genius.train.decoder import DecoderStage
from genius.train.heads import EncoderSettings
from genius.train.quantizer import QuantizerStage
from genius.train.towers import TunedTowers

IDENTIFIER_FILE = "identifiers.safetensors"
CODE_FILES = ("fusion.onnx", "quantizer.safetensors", "codebooks.safetensors", IDENTIFIER_FILE)
"""What other codes than before replace."""


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
    """Write a model with stage 0: its towers, its heads, and the graphs that embed items and queries."""
    model_settings = {
        "stages": ["encoder"],
        "fusion_kind": "heads",
        "encoder": {"kind": settings.towers, "source": settings.source, "fingerprint": encoder.fingerprint},
        "width": settings.heads.width,
        "heads": dataclasses.asdict(settings.heads),
        "recipe": recipe,
        "validation": {"encoder": scores},
    }
    made_from = {"encoder": encoder.fingerprint, "features": features.fingerprint}
    graphs = {"items.onnx": item_graph(heads, encoder), "queries.onnx": query_graph(heads, encoder)}
    tensors, graphs, model_settings["tensors"] = shared_tensors(heads, graphs)
    with storage.create(out, kind=KIND, format=FORMAT, settings=model_settings, made_from=made_from) as draft:
        if towers is not None:
            _copy_towers(towers, draft)
        write_tensors(draft.folder / "heads.safetensors", tensors)
        for name, content in graphs.items():
            (draft.folder / name).write_bytes(content)
        draft.counts["parameters"] = sum(parameter.numel() for parameter in heads.parameters())


def write_tuned_model(out: Path, recipe: dict[str, Any], tuned: TunedTowers) -> None:
    """Write a model that embeds by fine-tuned towers alone: the towers, and what joins them."""
    network = tuned.network
    settings = {
        "stages": ["encoder"],
        "fusion_kind": tuned.settings.fusion_kind,
        "encoder": {"kind": "clip", "source": "", "fingerprint": Clip.open(tuned.folder).fingerprint},
        "width": network.width,
        "fusion": dataclasses.asdict(tuned.settings.fusion) if network.fusion else None,
        "recipe": recipe,
        "validation": {"towers": tuned.scores},
    }
    made_from = {"clip": network.clip.fingerprint}
    with storage.create(out, kind=KIND, format=FORMAT, settings=settings, made_from=made_from) as draft:
        _copy_towers(tuned.folder, draft)
        if network.fusion is not None:
            weights = {name: value.cpu() for name, value in network.fusion.state_dict().items()}
            save_file(weights, draft.folder / "fusion.safetensors")
        else:
            (draft.folder / "items.onnx").write_bytes(sum_graph(network.width, "items"))
            (draft.folder / "queries.onnx").write_bytes(sum_graph(network.width, "queries"))
        draft.counts["parameters"] = sum(weight.numel() for weight in network.parameters())


def write_quantizer(
    model: Model, recipe: dict[str, Any], stage: QuantizerStage, scores: dict[str, float]
) -> None:
    """Add stage 1 to a model: its fusion as a graph, its codebooks, and the settings of search."""
    quantizer, items = stage.quantizer(), stage.quantize_items()
    ranking = stage.ranking(items)
    quality = stage.code_quality(items, ranking.query_scale)
    fusion = copy.deepcopy(stage.fusion).cpu()  # it may have been trained on a GPU
    tensors, graphs, names = shared_tensors(fusion, {"fusion.onnx": fusion_graph(fusion)})
    settings = {
        **_without(model.settings, "decoder", "identifiers"),
        "stages": ["encoder", "quantizer"],
        "quantizer": {
            "sizes": list(quantizer.sizes),
            "modality_code": quantizer.modality_code,
            "fusion": dataclasses.asdict(stage.fusion.settings),
            "search": dataclasses.asdict(stage.settings.search),
            "beams": quantizer.beams,
            "temperature": quality.temperature,
            "modality_of": quality.modality_of,
            "dense_baseline": ranking.dense_baseline,
            "query_scale": list(ranking.query_scale),
            "rerank": list(ranking.rerank) if stage.settings.blended else 1.0,
        },
        "tensors": {**model.settings.get("tensors", {}), **names},
        "recipe": recipe,
        "validation": {**_without(model.settings["validation"], "decoder"), "quantizer": scores},
    }
    old = storage.open(model.path, kind=KIND, format=FORMAT)
    with storage.create(
        model.path, kind=KIND, format=FORMAT, settings=settings, made_from=old.manifest.made_from
    ) as draft:
        # A decoder that was trained on other codes is useless with these.
        draft.reuse(old, *(name for name in _files_without_decoder(old) if name not in CODE_FILES))
        write_tensors(draft.folder / "quantizer.safetensors", tensors)
        quantizer.write(draft.folder / "codebooks.safetensors")
        (draft.folder / "fusion.onnx").write_bytes(graphs["fusion.onnx"])
        draft.counts |= _without(old.manifest.counts, "decoder_parameters", "identified_items")
        draft.counts["codes"] = sum(quantizer.sizes)


def write_identifiers(model: Model, recipe: dict[str, Any], identifiers: Identifiers) -> None:
    """Add identifiers of a rival to a model, in the place of stage 1."""
    validation = _without(model.settings["validation"], "quantizer", "decoder")
    tensors = _without(model.settings.get("tensors", {}), "fusion.onnx")
    # As published: the items under the beams, however few, and equal identifiers in the order of the pool.
    search = SearchSettings(force_modality=False, more_beams=False, bucket_order="added")
    settings = {
        **_without(model.settings, "quantizer", "decoder"),
        "stages": ["encoder", "identifiers"],
        "identifiers": {
            "kind": identifiers.name,
            "sizes": list(identifiers.sizes),
            "search": dataclasses.asdict(search),
        },
        "tensors": tensors,
        "recipe": recipe,
        "validation": validation,
    }
    old = storage.open(model.path, kind=KIND, format=FORMAT)
    with storage.create(
        model.path, kind=KIND, format=FORMAT, settings=settings, made_from=old.manifest.made_from
    ) as draft:
        draft.reuse(old, *(name for name in _files_without_decoder(old) if name not in CODE_FILES))
        identifiers.write(draft.folder / IDENTIFIER_FILE)
        draft.counts |= _without(old.manifest.counts, "decoder_parameters", "codes")
        draft.counts["identified_items"] = identifiers.num_known


def write_decoder(
    model: Model, recipe: dict[str, Any], stage: DecoderStage, scores: dict[str, float]
) -> None:
    """Add stage 2 to a model: the weights of its network, and the graphs that run it."""
    exported = stage.export()
    settings = {
        **model.settings,
        "stages": [*(name for name in model.stages if name != "decoder"), "decoder"],
        "decoder": _with_fusion(decoder_settings(stage.decoder, exported), stage.settings.geometric_fusion)
        | ({} if model.has_code_vectors else {"identifiers": model.identifier_name}),
        "recipe": recipe,
        "validation": {**model.settings["validation"], "decoder": scores},
    }
    old = storage.open(model.path, kind=KIND, format=FORMAT)
    with storage.create(
        model.path, kind=KIND, format=FORMAT, settings=settings, made_from=old.manifest.made_from
    ) as draft:
        draft.reuse(old, *_files_without_decoder(old))
        draft.counts |= old.manifest.counts
        write_decoder_files(draft, stage.decoder, exported)


def write_fusion(model: Model, recipe: dict[str, Any], fusion: GeometricFusionSettings) -> None:
    """Change how geometry is added to the scores of a model's learned decoder, and nothing else."""
    described = _without(model.settings["decoder"], "geometric_fusion")
    settings = {**model.settings, "decoder": _with_fusion(described, fusion), "recipe": recipe}
    old = storage.open(model.path, kind=KIND, format=FORMAT)
    with storage.create(
        model.path, kind=KIND, format=FORMAT, settings=settings, made_from=old.manifest.made_from
    ) as draft:
        draft.reuse(old, *old.manifest.files)
        draft.counts |= old.manifest.counts


def _with_fusion(described: dict[str, Any], fusion: GeometricFusionSettings) -> dict[str, Any]:
    return described | ({"geometric_fusion": dataclasses.asdict(fusion)} if fusion.weight else {})


def decoder_settings(network: T5Decoder, exported: Exported) -> dict[str, Any]:
    """What a model's settings say of its decoder."""
    return {
        "sizes": list(network.sizes),
        "network": dataclasses.asdict(network.settings),
        "difference_from_torch": {"largest": dict(exported.largest), "mean": dict(exported.mean)},
    }


def write_decoder_files(draft: storage.Draft, network: T5Decoder, exported: Exported) -> None:
    """Write a decoder's weights and graphs into a model."""
    weights = {name: value.cpu().contiguous() for name, value in network.state_dict().items()}
    save_file(weights, draft.folder / WEIGHTS)
    for precision, graphs in exported.graphs.items():
        for name, content in graphs.items():
            (draft.folder / graph_file(name, precision)).write_bytes(content)
    draft.counts["decoder_parameters"] = sum(value.numel() for value in weights.values())


def _without(values: dict[str, Any], *keys: str) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name not in keys}


def _files_without_decoder(artifact: storage.Artifact) -> list[str]:
    """The files of a model other than its decoder's."""
    return [name for name in artifact.manifest.files if not name.startswith(DECODER_FILES)]


def _copy_towers(towers: Path, draft: storage.Draft) -> None:
    """Copy the towers of an artifact into a model that is being written."""
    artifact = storage.open(towers)
    (draft.folder / "towers").mkdir()
    for name in artifact.manifest.files:
        shutil.copyfile(artifact.file(name), draft.folder / "towers" / name)


# --- ONNX graphs


def shared_tensors(
    network: nn.Module, graphs: dict[str, bytes]
) -> tuple[dict[str, np.ndarray], dict[str, bytes], dict[str, list[str]]]:
    """A network's tensors, its graphs without them, and which of them each graph needs."""
    tensors = {name: value.numpy() for name, value in network.state_dict().items()}
    shared = {name: without_tensors(content, tensors) for name, content in graphs.items()}
    return (
        tensors,
        {name: content for name, (content, _) in shared.items()},
        {name: needed for name, (_, needed) in shared.items()},
    )


def fusion_graph(fusion: Fusion) -> bytes:
    """The ONNX graph from a record's parts to its fused vector."""
    generator = torch.Generator().manual_seed(0)
    parts = [torch.randn(3, fusion.width, generator=generator) for _ in range(3)]
    has_image, has_text = torch.tensor([True, False, True]), torch.tensor([False, True, True])
    inputs = {
        "embeddings": parts[0],
        "image": parts[1],
        "has_image": has_image,
        "text": parts[2],
        "has_text": has_text,
        "image_length": torch.tensor([2.0, 0.5, 1.0]),
        "text_length": torch.tensor([1.0, 3.0, 0.5]),
    }
    return export(fusion, inputs, ["vectors"])


class _Graph(nn.Module):
    """Heads with a forward pass of their own, for the export."""

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
        blocks = heads.query_blocks(
            (heads.project_images(image), has_image),
            (heads.text_projection(text), has_text),
            (heads.text_projection(instruction), has_instruction),
        )
        return heads.embed_queries(*blocks)


def item_graph(heads: Heads, encoder: Encoder) -> bytes:
    """The ONNX graph from an item's features to its joined embedding."""
    return export(_ItemGraph(heads), _examples(encoder, modality=torch.arange(3)), ["embeddings"])


def query_graph(heads: Heads, encoder: Encoder) -> bytes:
    """The ONNX graph from a query's features to its joined embedding."""
    generator = torch.Generator().manual_seed(1)
    instruction = torch.randn(3, encoder.text_width, generator=generator)
    present = torch.tensor([True, False, True])
    return export(
        _QueryGraph(heads),
        _examples(encoder, instruction=instruction, has_instruction=present),
        ["embeddings"],
    )


def _examples(encoder: Encoder, **more: torch.Tensor) -> dict[str, torch.Tensor]:
    """Three rows of random features: an image, a text, and both."""
    generator = torch.Generator().manual_seed(0)
    return {
        "image": torch.randn(3, encoder.image_width, generator=generator),
        "has_image": torch.tensor([True, False, True]),
        "text": torch.randn(3, encoder.text_width, generator=generator),
        "has_text": torch.tensor([False, True, True]),
        **more,
    }


def sum_graph(width: int, kind: str) -> bytes:
    """The ONNX graph from the features of `items` or `queries` to their sum, normalised.

    It has the inputs of the heads' graphs, but ignores an item's modality and an instruction, which is a part
    of the text already.
    """
    graph = Graph("score-fusion")
    parts = []
    for name in ("image", "text"):
        rows = graph.input(name, np.float32, ("rows", width))
        present = graph.input(f"has_{name}", np.bool_, ("rows",))
        column = graph.node("Unsqueeze", present, np.array([1], np.int64))
        parts.append(graph.node("Where", column, rows, np.float32(0)))
    if kind == "items":
        graph.input("modality", np.int64, ("rows",))
    else:
        graph.input("instruction", np.float32, ("rows", width))
        graph.input("has_instruction", np.bool_, ("rows",))
    total = graph.node("Add", *parts)
    length = graph.node("ReduceL2", total, axes=[1], keepdims=1)
    unit = graph.node("Div", total, graph.node("Max", length, np.float32(1e-12)))
    graph.output("embeddings", unit, ("rows", width))
    return graph.bytes()
