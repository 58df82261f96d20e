"""The folder of a BLIP inside a model: settings, BERT's vocabulary, and weights for transformers' BLIP."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson

from genius.encode.blip_tokenizer import BlipTokenizer, read_vocabulary
from genius.encode.clip_folder import first_line, quiet
from genius.encode.clip_preprocess import Preprocessing
from genius.errors import InputError, require
from genius.storage import Json, record_of

PURPOSE = "encoding with BLIP"
FORMAT = 1
SETTINGS, VOCABULARY, WEIGHTS = "config.json", "vocab.txt", "model.safetensors"
MEAN = (0.48145466, 0.4578275, 0.40821073)
STD = (0.26862954, 0.26130258, 0.27577711)
BICUBIC = 3

BlipFusion = Literal["feature", "score"]
"""How an image and a text become one: the text's network attends to the image's tokens (UniIR's BLIP-FF), or
features of two towers are added (BLIP-SF)."""


@dataclass(frozen=True)
class BlipTowers:
    """The networks of a BLIP, in torch; only score fusion has projections."""

    vision: Any
    text: Any
    vision_projection: Any = None
    text_projection: Any = None


@dataclass(frozen=True)
class BlipFolder:
    """What is in the folder; weights are read by `load`.

    Attributes:
        settings: `fusion`, `width` of embeddings, `text_length` in tokens, and the settings of both networks
            as transformers has them, `vision_config` and `text_config`.
    """

    path: Path
    settings: Json

    @classmethod
    def open(cls, path: Path) -> BlipFolder:
        """Read the settings. Raises InputError if the folder holds no BLIP."""
        try:
            return cls(path, orjson.loads((path / SETTINGS).read_bytes()))
        except (OSError, ValueError) as error:
            raise InputError(f"holds no BLIP that genius imported ({error})", path=path) from error

    @property
    def fusion(self) -> BlipFusion:
        """How an image and a text become one."""
        return self.settings["fusion"]  # type: ignore[no-any-return]

    @property
    def preprocessing(self) -> Preprocessing:
        """As UniIR's: images are squeezed into a square, and nothing is cropped."""
        side = int(self.settings["vision_config"]["image_size"])
        return Preprocessing((side, side), None, BICUBIC, 1 / 255, MEAN, STD)

    def tokenizer(self) -> BlipTokenizer:
        """The tokenizer of the folder's vocabulary."""
        return BlipTokenizer(read_vocabulary(self.path), int(self.settings["text_length"]))

    def fingerprint(self) -> str:
        """SHA-256 of all that changes a feature: settings, vocabulary, weights."""
        files = {name: record_of(self.path / name).sha256 for name in (SETTINGS, VOCABULARY, WEIGHTS)}
        content = {"format": FORMAT, "files": files}
        return hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()

    def load(self, device: str) -> BlipTowers:
        """The networks with the folder's weights. Raises InputError if some are missing or damaged."""
        require("torch", "clip", PURPOSE)
        transformers = require("transformers", "clip", PURPOSE)
        from safetensors.torch import load_file

        try:
            weights = load_file(self.path / WEIGHTS, device=device)
        except Exception as error:  # safetensors has an error of its own, and so has the disk
            raise InputError(f"can't be read ({first_line(error)})", path=self.path / WEIGHTS) from error
        fused = self.fusion == "feature"
        with quiet(transformers):
            vision = transformers.BlipVisionConfig(**self.settings["vision_config"])
            text = transformers.BlipTextConfig(**self.settings["text_config"])
            networks = (
                self._network(transformers.BlipVisionModel, vision, _part(weights, "vision_model.")),
                self._network(
                    transformers.BlipTextModel, text, _part(weights, "text_model."), add_pooling_layer=fused
                ),
            )
        projections = [] if fused else [_linear(weights, f"{name}_projection") for name in ("vision", "text")]
        return BlipTowers(*(module.to(device).eval() for module in (*networks, *projections)))

    def _network(self, kind: Any, config: Any, weights: dict[str, Any], **options: Any) -> Any:
        settings: dict[str, Any] = {"state_dict": weights, "output_loading_info": True, **options}
        try:
            network, report = kind.from_pretrained(None, config=config, **settings)
        except Exception as error:  # transformers has many ways to fail
            raise InputError(f"can't be loaded ({first_line(error)})", path=self.path) from error
        if missing := sorted(report["missing_keys"]):
            raise InputError(
                f"lacks {len(missing)} weights, such as {', '.join(missing[:3])}", path=self.path
            )
        return network


def write_blip(
    folder: Path, settings: Json, words: Sequence[str], weights: Mapping[str, np.ndarray]
) -> BlipFolder:
    """Write what `BlipFolder` reads; `words` is BERT's vocabulary."""
    from safetensors.numpy import save_file

    (folder / SETTINGS).write_bytes(orjson.dumps(settings, option=orjson.OPT_INDENT_2))
    (folder / VOCABULARY).write_text("\n".join(words) + "\n", "utf-8")
    save_file(dict(weights), folder / WEIGHTS, metadata={"format": "pt"})
    return BlipFolder.open(folder)


def _part(weights: Mapping[str, Any], prefix: str) -> dict[str, Any]:
    return {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}


def _linear(weights: Mapping[str, Any], name: str) -> Any:
    torch = require("torch", "clip", PURPOSE)
    weight, bias = weights[f"{name}.weight"], weights[f"{name}.bias"]
    layer = torch.nn.utils.skip_init(torch.nn.Linear, weight.shape[1], weight.shape[0])
    layer.load_state_dict({"weight": weight, "bias": bias})
    return layer
