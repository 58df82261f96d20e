"""Conversion of UniIR's published checkpoints into a folder that `Clip.open` opens.

`clip_sf_large.pth` holds a CLIP under OpenAI's names beside the optimizer's state. All sizes follow from the
shapes of the tensors; every name and shape is checked before anything is written.
"""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import orjson

from genius import storage
from genius.encode.checkpoints import StoredTensor, Weights, open_checkpoint
from genius.encode.clip_folder import ARTIFACT, FORMAT, TEXT_CLEANING, TOKENIZER_FILES, open_tokenizer
from genius.encode.clip_preprocess import CROP_OFFSET
from genius.errors import InputError, MismatchError
from genius.storage import Json, record_of

Shapes = dict[str, tuple[int, ...]]
Tensors = Mapping[str, StoredTensor]

PREFIX = "clip_model."
HEAD_WIDTH = 64  # of every CLIP that OpenAI published; it can't be told from the shapes
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)

_TOWERS = {"transformer": "text_model", "visual.transformer": "vision_model"}
_OUTSIDE_LAYERS = {  # OpenAI's name: Hugging Face's
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "text_projection": "text_projection.weight",
    "logit_scale": "logit_scale",
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
    "visual.proj": "visual_projection.weight",
}
_TRANSPOSED = {"text_projection", "visual.proj"}
_IN_LAYERS = {
    "attn.out_proj": "self_attn.out_proj",
    "ln_1": "layer_norm1",
    "ln_2": "layer_norm2",
    "mlp.c_fc": "mlp.fc1",
    "mlp.c_proj": "mlp.fc2",
}


def convert_uniir(checkpoint: Path | str, tokenizer_folder: Path | str, out: Path | str) -> Path:
    """Write the CLIP of UniIR's `clip_sf_*.pth` to the folder `out`, atomically.

    The checkpoint has no tokenizer: `tokenizer_folder` is the local folder of any Hugging Face CLIP. Raises
    InputError if the checkpoint is of another model, has missing or extra weights, or holds more than data,
    and MismatchError if the tokenizer does not fit.
    """
    checkpoint, tokenizer_folder, out = Path(checkpoint), Path(tokenizer_folder), Path(out)
    check_tokenizer(tokenizer_folder)
    made_from = {"checkpoint": record_of(checkpoint).sha256}
    with storage.create(out, kind=ARTIFACT, format=FORMAT, made_from=made_from) as draft:
        try:
            tensors = open_checkpoint(checkpoint, part="model")
            draft.counts["weights"] = write_clip(tensors, tokenizer_folder, draft.folder)
        except InputError as error:
            raise error.at(checkpoint) from error.__cause__
    return out


def write_clip(tensors: Tensors, tokenizer_folder: Path, folder: Path) -> int:
    """Write the CLIP of UniIR's tensors into a folder; returns how many weights it has.

    Raises InputError as `clip_config` does, and MismatchError if the tokenizer does not fit.
    """
    config = clip_config(tensors)
    _write_settings(folder, config, tokenizer_folder)
    from safetensors.numpy import save_file

    bare = {name.removeprefix(PREFIX): tensor for name, tensor in tensors.items()}
    weights = dict(_renamed(bare))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    return len(weights)


def clip_config(tensors: Tensors | Weights) -> Json:
    """The configuration of a CLIP as Hugging Face writes it, by the names and shapes of UniIR's tensors.

    Raises InputError that names what is missing, too much, or of a wrong shape.
    """
    _refuse_other_models(tensors)
    layers = {tower: _layer_count(tensors, tower) for tower in _TOWERS}
    _check_names(tensors, layers)
    shapes = {name.removeprefix(PREFIX): tuple(tensor.shape) for name, tensor in tensors.items()}
    sizes = ClipSizes.of(shapes, layers)
    _check_shapes(shapes, sizes.shapes())
    return sizes.config()


def map_weights(weights: Weights) -> tuple[dict[str, np.ndarray], Json]:
    """A CLIP's weights under Hugging Face's names, and its configuration, from UniIR's weights.

    Raises InputError as `clip_config` does.
    """
    config = clip_config(weights)
    return dict(_renamed({name.removeprefix(PREFIX): value for name, value in weights.items()})), config


@dataclass(frozen=True)
class ClipSizes:
    """The sizes that determine the shapes of a CLIP's tensors."""

    joint: int
    vocabulary: int
    text_length: int
    text: int
    vision: int
    patch: int
    grid: int
    layers: Mapping[str, int]

    @classmethod
    def of(cls, shapes: Shapes, layers: Mapping[str, int]) -> ClipSizes:
        """The sizes by the shapes of a CLIP's tensors. Raises InputError where an axis is missing."""

        def size(name: str, axis: int) -> int:
            shape = shapes[name]
            if axis >= len(shape):
                raise InputError(f"holds {PREFIX}{name} with shape {shape}, which is none of CLIP")
            return int(shape[axis])

        return cls(
            joint=size("text_projection", 1),
            vocabulary=size("token_embedding.weight", 0),
            text_length=size("positional_embedding", 0),
            text=size("ln_final.weight", 0),
            vision=size("visual.conv1.weight", 0),
            patch=size("visual.conv1.weight", 3),
            grid=math.isqrt(max(size("visual.positional_embedding", 0) - 1, 0)),
            layers=layers,
        )

    def shapes(self) -> Shapes:
        """The shape that each tensor must have."""
        text, vision = self.text, self.vision
        shapes: Shapes = {
            "token_embedding.weight": (self.vocabulary, text),
            "positional_embedding": (self.text_length, text),
            "text_projection": (text, self.joint),
            "logit_scale": (),
            "visual.class_embedding": (vision,),
            "visual.positional_embedding": (self.grid**2 + 1, vision),
            "visual.conv1.weight": (vision, 3, self.patch, self.patch),
            "visual.proj": (vision, self.joint),
        }
        for norm, width in (("ln_final", text), ("visual.ln_pre", vision), ("visual.ln_post", vision)):
            shapes |= {f"{norm}.weight": (width,), f"{norm}.bias": (width,)}
        for tower, width in (("transformer", text), ("visual.transformer", vision)):
            for layer in range(self.layers[tower]):
                start = f"{tower}.resblocks.{layer}."
                shapes |= {f"{start}{name}": shape for name, shape in _layer_shapes(width).items()}
        return shapes

    def config(self) -> Json:
        """The content of Hugging Face's `config.json`."""
        for width in (self.text, self.vision):
            if width % HEAD_WIDTH:
                raise InputError(f"holds a tower {width} wide, which is no multiple of {HEAD_WIDTH}")
        end = self.vocabulary - 1  # as in OpenAI's vocabulary: the last two tokens start and end a text
        text = _tower(self.text, self.layers["transformer"], self.joint) | {
            "model_type": "clip_text_model",
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.text_length,
            "bos_token_id": end - 1,
            "eos_token_id": end,
            "pad_token_id": end,
        }
        vision = _tower(self.vision, self.layers["visual.transformer"], self.joint) | {
            "model_type": "clip_vision_model",
            "image_size": self.patch * self.grid,
            "patch_size": self.patch,
        }
        towers = {"text_config": text, "vision_config": vision}
        return {"model_type": "clip", "projection_dim": self.joint} | towers


def _tower(width: int, layers: int, joint: int) -> Json:
    return {
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_attention_heads": width // HEAD_WIDTH,
        "num_hidden_layers": layers,
        "projection_dim": joint,
        "hidden_act": "quick_gelu",
        "layer_norm_eps": 1e-5,
    }


def _layer_shapes(width: int) -> Shapes:
    shapes: Shapes = {"attn.in_proj_weight": (3 * width, width), "attn.in_proj_bias": (3 * width,)}
    shapes |= {"mlp.c_fc.weight": (4 * width, width), "mlp.c_fc.bias": (4 * width,)}
    shapes |= {"mlp.c_proj.weight": (width, 4 * width), "mlp.c_proj.bias": (width,)}
    shapes |= {"attn.out_proj.weight": (width, width), "attn.out_proj.bias": (width,)}
    return shapes | {f"{norm}.{part}": (width,) for norm in ("ln_1", "ln_2") for part in ("weight", "bias")}


# --- checks -----------------------------------------------------------------------------------------


def _refuse_other_models(weights: Mapping[str, object]) -> None:
    starts = {name.partition(".")[0] for name in weights}
    if "t5_layers" in starts:
        raise InputError(
            "is UniIR's CLIP-FF, which is recognised and not supported: its weights were never published, so "
            "the layout can't be checked; convert clip_sf_large.pth and train feature fusion on it"
        )
    if {"visual_encoder", "text_encoder"} <= starts:
        raise InputError("is UniIR's BLIP, which is no CLIP: import it with genius import --blip")


def _layer_count(weights: Mapping[str, object], tower: str) -> int:
    pattern = re.compile(re.escape(f"{PREFIX}{tower}.resblocks.") + r"(\d+)\.")
    return max(1, len({match[1] for name in weights if (match := pattern.match(name))}))


def _check_names(weights: Mapping[str, object], layers: Mapping[str, int]) -> None:
    expected = {f"{PREFIX}{name}" for name in _OUTSIDE_LAYERS}
    for tower, count in layers.items():
        starts = [f"{PREFIX}{tower}.resblocks.{layer}." for layer in range(count)]
        expected |= {f"{start}{name}" for start in starts for name in _layer_shapes(1)}
    differences = {"missing": expected - set(weights), "extra": set(weights) - expected}
    if problems := [f"{what} {_listed(names)}" for what, names in differences.items() if names]:
        raise InputError(f"is not UniIR's CLIP-SF: {'; '.join(problems)}")


def _check_shapes(given: Shapes, shapes: Shapes) -> None:
    for name, shape in shapes.items():
        if given[name] != shape:
            raise InputError(f"holds {PREFIX}{name} with shape {given[name]}, but {shape} is needed")


def _listed(names: set[str], limit: int = 5) -> str:
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return ", ".join(sorted(names)[:limit]) + more


def check_tokenizer(folder: Path) -> None:
    """Raise InputError, with a way out, if a folder has no tokenizer of a CLIP."""
    files = {name for name in TOKENIZER_FILES if (folder / name).is_file()}
    if "tokenizer.json" not in files and not {"vocab.json", "merges.txt"} <= files:
        raise InputError(
            "holds no tokenizer of CLIP (tokenizer.json, or vocab.json and merges.txt), and UniIR's "
            "checkpoint has none: name the local folder of any Hugging Face CLIP, such as a download of "
            "openai/clip-vit-large-patch14",
            path=folder,
        )


# --- writing ----------------------------------------------------------------------------------------


def _renamed(bare: Tensors | Weights) -> Iterator[tuple[str, np.ndarray]]:
    for name, stored in bare.items():
        tensor = stored if isinstance(stored, np.ndarray) else stored.read()
        value = np.array(tensor.T if name in _TRANSPOSED else tensor, np.float32, order="C")
        if name in _OUTSIDE_LAYERS:
            yield _OUTSIDE_LAYERS[name], value
            continue
        tower, _, rest = name.partition(".resblocks.")
        layer, _, part = rest.partition(".")
        start = f"{_TOWERS[tower]}.encoder.layers.{layer}."
        module, _, kind = part.replace("in_proj_", "in_proj.").rpartition(".")
        if module == "attn.in_proj":
            for letter, third in zip("qkv", np.split(value, 3), strict=True):
                yield f"{start}self_attn.{letter}_proj.{kind}", third
        else:
            yield f"{start}{_IN_LAYERS[module]}.{kind}", value


def _write_settings(folder: Path, config: Json, tokenizer_folder: Path) -> None:
    (folder / "config.json").write_bytes(orjson.dumps(config, option=orjson.OPT_INDENT_2))
    preprocessor = _preprocessor_config(config["vision_config"]["image_size"])
    (folder / "preprocessor_config.json").write_bytes(orjson.dumps(preprocessor, option=orjson.OPT_INDENT_2))
    for name in TOKENIZER_FILES:
        if (tokenizer_folder / name).is_file():
            shutil.copyfile(tokenizer_folder / name, folder / name)
    _check_vocabulary(folder, config["text_config"], tokenizer_folder)


def _check_vocabulary(folder: Path, text: Json, tokenizer_folder: Path) -> None:
    tokenizer = open_tokenizer(folder)
    if (len(tokenizer), tokenizer.eos_token_id) != (text["vocab_size"], text["eos_token_id"]):
        raise MismatchError(
            f"the tokenizer in {tokenizer_folder} has {len(tokenizer):,} tokens and ends a text with "
            f"{tokenizer.eos_token_id}, but the checkpoint needs {text['vocab_size']:,} and "
            f"{text['eos_token_id']}: use that of openai/clip-vit-large-patch14"
        )


def _preprocessor_config(side: int) -> Json:
    """UniIR's preprocessing of images, which is CLIP's."""
    return {
        "image_processor_type": "CLIPImageProcessor",
        "size": {"shortest_edge": side},
        "resample": 3,
        "do_center_crop": True,
        "crop_size": {"height": side, "width": side},
        "rescale_factor": 1 / 255,
        "image_mean": MEAN,
        "image_std": STD,
        CROP_OFFSET: "even",
        TEXT_CLEANING: "openai",
    }
