"""UniIR's BLIP (`blip_ff_large.pth`): a ViT and a BERT with cross-attention, under the names of BLIP's code.

With feature fusion a pooling layer makes the embedding; with score fusion both networks have a projection,
and the cross-attention is there but not used. All sizes follow from the shapes, except for the heads', which
are 64 wide in every BLIP.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius.encode.blip_folder import BlipFusion
from genius.encode.blip_tokenizer import ADDED, read_vocabulary
from genius.errors import InputError, MismatchError
from genius.published.files import PublishedFile
from genius.storage import Json

WHAT: Mapping[BlipFusion, str] = {"feature": "UniIR's BLIP-FF", "score": "UniIR's BLIP-SF"}
VISION, TEXT = "visual_encoder.", "text_encoder."
HEAD_WIDTH = 64
TEXT_LENGTH = 100
"""Tokens of a text that UniIR's configurations keep."""
TRAINING_ONLY = re.compile(
    r"(visual_encoder|text_encoder|vision_proj|text_proj)_m\.|(query|cand|idx|new_ptr)_queue$|temp$"
    r"|text_encoder\.embeddings\.position_ids$"
)
"""Momentum copies, queues of negatives, the temperature; and a table of the numbers 0, 1, 2 …"""
PROJECTIONS = {"vision_proj": "vision_projection", "text_proj": "text_projection"}
VISION_NAMES = {  # theirs: transformers'
    "cls_token": "embeddings.class_embedding",
    "pos_embed": "embeddings.position_embedding",
    "patch_embed.proj": "embeddings.patch_embedding",
    "norm": "post_layernorm",
}
VISION_LAYER_NAMES = {
    "norm1": "layer_norm1",
    "attn.qkv": "self_attn.qkv",
    "attn.proj": "self_attn.projection",
    "norm2": "layer_norm2",
    "mlp.fc1": "mlp.fc1",
    "mlp.fc2": "mlp.fc2",
}
"""Names of BERT's weights are the same in transformers."""

Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True)
class BlipSizes:
    """The sizes that determine the shapes of a BLIP's weights.

    Attributes:
        width: numbers of an embedding.
        text, text_inner, text_layers: of the BERT, which has so many `words` and `positions`.
        vision, vision_inner, vision_layers: of the ViT over `grid` × `grid` patches.
    """

    fusion: BlipFusion
    width: int
    words: int
    positions: int
    text: int
    text_inner: int
    text_layers: int
    vision: int
    vision_inner: int
    vision_layers: int
    patch: int
    grid: int

    @classmethod
    def of(cls, file: PublishedFile, fusion: BlipFusion) -> BlipSizes:
        """The sizes of a file that has all names. Raises InputError for weights without the needed axes."""

        def size(name: str, axis: int) -> int:
            return file.size(name, axis, "BLIP")

        text = size(f"{TEXT}embeddings.word_embeddings.weight", 1)
        return cls(
            fusion=fusion,
            width=text if fusion == "feature" else size("text_proj.weight", 0),
            words=size(f"{TEXT}embeddings.word_embeddings.weight", 0),
            positions=size(f"{TEXT}embeddings.position_embeddings.weight", 0),
            text=text,
            text_inner=size(f"{TEXT}encoder.layer.0.intermediate.dense.weight", 0),
            text_layers=_layers(file, f"{TEXT}encoder.layer."),
            vision=size(f"{VISION}cls_token", 2),
            vision_inner=size(f"{VISION}blocks.0.mlp.fc1.weight", 0),
            vision_layers=_layers(file, f"{VISION}blocks."),
            patch=size(f"{VISION}patch_embed.proj.weight", 3),
            grid=math.isqrt(max(size(f"{VISION}pos_embed", 1) - 1, 0)),
        )

    def shapes(self) -> Shapes:
        """The shape that each weight must have."""
        vision, patch = self.vision, self.patch
        shapes: Shapes = {
            f"{VISION}cls_token": (1, 1, vision),
            f"{VISION}pos_embed": (1, self.grid**2 + 1, vision),
            f"{VISION}patch_embed.proj.weight": (vision, 3, patch, patch),
            f"{VISION}patch_embed.proj.bias": (vision,),
            f"{TEXT}embeddings.word_embeddings.weight": (self.words, self.text),
            f"{TEXT}embeddings.position_embeddings.weight": (self.positions, self.text),
            **_norm(f"{VISION}norm", vision),
            **_norm(f"{TEXT}embeddings.LayerNorm", self.text),
        }
        for layer in range(self.vision_layers):
            shapes |= self._vision_layer(f"{VISION}blocks.{layer}.")
        for layer in range(self.text_layers):
            shapes |= self._text_layer(f"{TEXT}encoder.layer.{layer}.")
        if self.fusion == "feature":
            return shapes | _linear(f"{TEXT}pooler.dense", self.text, self.text)
        shapes |= _linear("vision_proj", vision, self.width)
        return shapes | _linear("text_proj", self.text, self.width)

    def _vision_layer(self, start: str) -> Shapes:
        width, inner = self.vision, self.vision_inner
        return {
            **_norm(f"{start}norm1", width),
            **_linear(f"{start}attn.qkv", width, 3 * width),
            **_linear(f"{start}attn.proj", width, width),
            **_norm(f"{start}norm2", width),
            **_linear(f"{start}mlp.fc1", width, inner),
            **_linear(f"{start}mlp.fc2", inner, width),
        }

    def _text_layer(self, start: str) -> Shapes:
        width, shapes = self.text, Shapes()
        for attention, source in (("attention", width), ("crossattention", self.vision)):
            shapes |= _linear(f"{start}{attention}.self.query", width, width)
            shapes |= _linear(f"{start}{attention}.self.key", source, width)
            shapes |= _linear(f"{start}{attention}.self.value", source, width)
            shapes |= _linear(f"{start}{attention}.output.dense", width, width)
            shapes |= _norm(f"{start}{attention}.output.LayerNorm", width)
        shapes |= _linear(f"{start}intermediate.dense", width, self.text_inner)
        return {
            **shapes,
            **_linear(f"{start}output.dense", self.text_inner, width),
            **_norm(f"{start}output.LayerNorm", width),
        }

    def settings(self) -> Json:
        """What `genius.encode.blip_folder` reads."""
        vision = {
            "hidden_size": self.vision,
            "intermediate_size": self.vision_inner,
            "num_hidden_layers": self.vision_layers,
            "num_attention_heads": self.vision // HEAD_WIDTH,
            "image_size": self.patch * self.grid,
            "patch_size": self.patch,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-6,
        }
        text = {
            "vocab_size": self.words,
            "hidden_size": self.text,
            "encoder_hidden_size": self.vision,
            "intermediate_size": self.text_inner,
            "num_hidden_layers": self.text_layers,
            "num_attention_heads": self.text // HEAD_WIDTH,
            "max_position_embeddings": self.positions,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
            **dict.fromkeys(("bos_token_id", "eos_token_id", "sep_token_id")),  # nothing is generated
            "is_decoder": self.fusion == "feature",  # what transformers calls having cross-attention
        }
        return {
            "fusion": self.fusion,
            "width": self.width,
            "text_length": min(TEXT_LENGTH, self.positions),
            "vision_config": vision,
            "text_config": text,
        }


@dataclass(frozen=True)
class CheckedBlip:
    """The weights that embed, without what only training needs, and BERT's vocabulary, which fits them."""

    file: PublishedFile
    sizes: BlipSizes
    words: list[str]

    def read(self) -> dict[str, np.ndarray]:
        """The weights under transformers' names. Raises InputError for NaN and infinity."""
        return dict(_renamed(self.file, self.sizes.fusion))


def check_blip(file: PublishedFile, tokenizer_folder: Path) -> CheckedBlip:
    """A BLIP's file and the folder of its tokenizer, checked.

    Raises InputError that names what is missing, too much, or of a wrong shape, and MismatchError if the
    vocabulary is another.
    """
    kept = {name: tensor for name, tensor in file.tensors.items() if not TRAINING_ONLY.match(name)}
    file = PublishedFile(file.path, kept)
    sizes = _check_weights(file)
    words = read_vocabulary(tokenizer_folder)
    if len(words) + len(ADDED) != sizes.words:
        raise MismatchError(
            f"the tokenizer in {tokenizer_folder} has {len(words):,} tokens, but the checkpoint needs "
            f"{sizes.words - len(ADDED):,} beside BLIP's own {len(ADDED)}: use that of bert-base-uncased"
        )
    return CheckedBlip(file, sizes, words)


def _check_weights(file: PublishedFile) -> BlipSizes:
    projected = any(name.startswith(tuple(PROJECTIONS)) for name in file.tensors)
    fusion: BlipFusion = "score" if projected else "feature"
    text_layers, vision_layers = _layers(file, f"{TEXT}encoder.layer."), _layers(file, f"{VISION}blocks.")
    # names depend on layers alone, so that any size does for them
    named = BlipSizes(fusion, 1, 1, 1, 1, 1, text_layers, 1, 1, vision_layers, 1, 1)
    file.check_names(set(named.shapes()), WHAT[fusion])
    sizes = BlipSizes.of(file, fusion)
    file.check_shapes(sizes.shapes())
    for width in (sizes.text, sizes.vision):
        if width % HEAD_WIDTH:
            raise InputError(
                f"holds a network {width} wide, which is no multiple of {HEAD_WIDTH}, as those of BLIP are",
                path=file.path,
            )
    return sizes


def _renamed(file: PublishedFile, fusion: BlipFusion) -> Iterator[tuple[str, np.ndarray]]:
    for name in file.tensors:
        if fusion == "score" and ".crossattention." in name:
            continue
        if name.startswith(VISION):
            yield f"vision_model.{_vision_name(name.removeprefix(VISION))}", file.read(name)
        elif name.startswith(TEXT):
            yield f"text_model.{name.removeprefix(TEXT)}", file.read(name)
        else:
            module, _, kind = name.partition(".")
            yield f"{PROJECTIONS[module]}.{kind}", file.read(name)


def _vision_name(name: str) -> str:
    if name in VISION_NAMES:
        return VISION_NAMES[name]
    module, _, kind = name.rpartition(".")
    if not name.startswith("blocks."):
        return f"{VISION_NAMES[module]}.{kind}"
    _, layer, part = module.split(".", 2)
    return f"encoder.layers.{layer}.{VISION_LAYER_NAMES[part]}.{kind}"


def _layers(file: PublishedFile, start: str) -> int:
    pattern = re.compile(re.escape(start) + r"(\d+)\.")
    return max(1, len({match[1] for name in file.tensors if (match := pattern.match(name))}))


def _linear(name: str, inputs: int, outputs: int) -> Shapes:
    return {f"{name}.weight": (outputs, inputs), f"{name}.bias": (outputs,)}


def _norm(name: str, width: int) -> Shapes:
    return {f"{name}.weight": (width,), f"{name}.bias": (width,)}
