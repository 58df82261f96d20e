"""CLIP and SigLIP from a Hugging Face folder (or, by a name that the user gives, from the hub).

Images are preprocessed exactly as the folder says; texts are truncated and padded as the model was trained:
for CLIP to the longest of a batch, for SigLIP always to the full length.
"""

from __future__ import annotations

import html
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genius.encode.clip_folder import PURPOSE, ClipFolder, model_folder
from genius.errors import InputError, MissingError, require

if TYPE_CHECKING:
    import torch
    from PIL import Image

IMAGE_BATCH, TEXT_BATCH, TEXT_CHUNK = 32, 64, 4096


class Clip:
    """The two towers of a CLIP or SigLIP model; features are projected and not normalised.

    `module` is the torch module, for fine-tuning; `image_features` and `text_features` keep gradients.
    """

    def __init__(self, module: Any, folder: ClipFolder, fingerprint: str) -> None:
        self.module = module
        self.tokenizer = folder.tokenizer
        self._tokenizing = threading.Lock()  # each call sets how long texts may be
        self.preprocessing = folder.preprocessing
        self.fingerprint = fingerprint
        """Of what was opened: fine-tuned weights get their own when they are saved and opened again."""
        self._folder = folder
        config = module.config
        self.kind: str = config.model_type
        vision, text = config.vision_config, config.text_config
        self.image_width: int = config.projection_dim if self.kind == "clip" else vision.hidden_size
        self.text_width: int = config.projection_dim if self.kind == "clip" else text.projection_size
        self.text_length: int = min(self.tokenizer.model_max_length, text.max_position_embeddings)
        self.token_widths: tuple[int, int] = (text.hidden_size, self.image_width)
        """The widths of text tokens and of image tokens."""
        self.image_parts = {"features": self.image_width}
        self.text_parts = {"features": self.text_width}
        self._pad = self.tokenizer.pad_token_id or 0

    @classmethod
    def open(
        cls,
        source: Path | str,
        *,
        device: str = "cpu",
        dtype: Literal["float32", "float16"] = "float32",
        threads: int | None = None,
    ) -> Clip:
        """The model in a local folder, or of that name on the hub; `threads` holds for the whole process.

        Raises InputError (no such model, weights missing), MismatchError (parts of different models) or
        MissingError (not available offline, or no such device).
        """
        torch = require("torch", "clip", PURPOSE)
        if threads is not None:
            torch.set_num_threads(threads)
        check_device(torch, device)
        folder = ClipFolder.open(model_folder(source))
        module = folder.load(dtype).to(device).eval()
        return cls(module, folder, folder.fingerprint(dtype))

    def save(self, out: Path | str) -> Path:
        """Write the model with its present weights to a folder, atomically."""
        return self._folder.write(self.module, Path(out), self.fingerprint)

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Features [n, image_width] of RGB images."""
        torch = require("torch", "clip", PURPOSE)
        features = np.zeros((len(images), self.image_width), np.float32)
        for start in range(0, len(images), IMAGE_BATCH):
            batch = slice(start, start + IMAGE_BATCH)
            with torch.inference_mode():
                features[batch] = self.image_features(self.pixels(images[batch])).float().cpu().numpy()
        return features

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of texts; those of similar length are encoded together."""
        torch = require("torch", "clip", PURPOSE)
        features = np.zeros((len(texts), self.text_width), np.float32)
        for start in range(0, len(texts), TEXT_CHUNK):
            tokens = self._token_ids(texts[start : start + TEXT_CHUNK])
            order = np.argsort([len(ids) for ids in tokens], kind="stable")
            for places in np.split(order, range(TEXT_BATCH, len(order), TEXT_BATCH)):
                ids, mask = self._padded([tokens[place] for place in places], full=False)
                with torch.inference_mode():
                    features[start + places] = self.text_features(ids, mask).float().cpu().numpy()
        return features

    def pixels(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """Preprocessed images [n, 3, height, width], on the module's device and of its type."""
        return self.stacked([self.preprocessing.pixels(image) for image in images])

    def stacked(self, prepared: Sequence[np.ndarray]) -> torch.Tensor:
        """Images that went through `preprocessing` already, as `pixels` returns them."""
        torch = require("torch", "clip", PURPOSE)
        stacked = np.zeros((len(prepared), 3, *self.preprocessing.shape), np.float32)
        for place, image in enumerate(prepared):
            stacked[place] = image
        return torch.from_numpy(stacked).to(self.module.device, self.module.dtype)  # type: ignore[no-any-return]

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts have more tokens than the model reads."""
        if not len(texts):
            return []
        with self._tokenizing:
            tokens = self.tokenizer(self._cleaned(texts), truncation=False, verbose=False)["input_ids"]
        return [len(ids) > self.text_length for ids in tokens]

    def tokenize(self, texts: Sequence[str], *, full: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Token ids and attention mask [n, length]; `full` pads to the model's full length."""
        return self._padded(self._token_ids(texts), full)

    def image_features(self, pixels: torch.Tensor) -> torch.Tensor:
        """Features [n, image_width] of preprocessed images, with gradients."""
        return self.module.get_image_features(pixel_values=pixels).pooler_output  # type: ignore[no-any-return]

    def text_features(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Features [n, text_width] of tokenized texts, with gradients."""
        attended = mask if self.kind == "clip" else None  # SigLIP was trained without a mask over its padding
        output = self.module.get_text_features(input_ids=ids, attention_mask=attended)
        return output.pooler_output  # type: ignore[no-any-return]

    def image_tokens(self, pixels: torch.Tensor) -> torch.Tensor:
        """All tokens of preprocessed images [n, tokens, image_width], normalised and (CLIP) projected."""
        tokens = self.module.vision_model(pixel_values=pixels).last_hidden_state
        if self.kind == "clip":  # SigLIP has normalised them already and has no projection
            tokens = self.module.visual_projection(self.module.vision_model.post_layernorm(tokens))
        return tokens  # type: ignore[no-any-return]

    def text_tokens(self, ids: torch.Tensor) -> torch.Tensor:
        """All tokens of tokenized texts [n, length, width], normalised and not projected.

        No mask is needed: attention is causal in CLIP, so padding changes nothing but itself.
        """
        return self.module.text_model(input_ids=ids).last_hidden_state  # type: ignore[no-any-return]

    def _token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        if len(texts) == 0:
            return []
        with self._tokenizing:
            tokens = self.tokenizer(self._cleaned(texts), truncation=True, max_length=self.text_length)
        return tokens["input_ids"]  # type: ignore[no-any-return]

    def _cleaned(self, texts: Sequence[str]) -> list[str]:
        """Texts as the model was trained to read them."""
        return list(texts) if self._folder.text_cleaning == "none" else [openai_text(text) for text in texts]

    def _padded(self, tokens: list[list[int]], full: bool) -> tuple[torch.Tensor, torch.Tensor]:
        torch = require("torch", "clip", PURPOSE)
        fixed = full or self.kind != "clip"
        length = self.text_length if fixed else max((len(row) for row in tokens), default=1)
        ids = np.full((len(tokens), length), self._pad, np.int64)
        mask = np.zeros((len(tokens), length), np.int64)
        for place, row in enumerate(tokens):
            left = length - len(row) if self.tokenizer.padding_side == "left" else 0
            ids[place, left : left + len(row)] = row
            mask[place, left : left + len(row)] = 1
        device = self.module.device
        return torch.from_numpy(ids).to(device), torch.from_numpy(mask).to(device)


@dataclass(frozen=True)
class ClipLoader:
    """Opens a `Clip` in a worker process."""

    source: str
    device: str = "cpu"
    dtype: Literal["float32", "float16"] = "float32"

    def __call__(self, threads: int) -> Clip:
        """The encoder, using this many threads."""
        return Clip.open(self.source, device=self.device, dtype=self.dtype, threads=threads)


def openai_text(text: str) -> str:
    """A text as OpenAI's CLIP cleans it: mended by ftfy, HTML unescaped twice, blanks made single.

    Its tokenizer then lowers it, as every tokenizer of a CLIP does.
    """
    ftfy = require("ftfy", "clip", "reading texts as OpenAI's CLIP does")
    return " ".join(html.unescape(html.unescape(ftfy.fix_text(text))).split())


def check_device(torch: Any, device: str) -> None:
    """Raise InputError for what is no device, and MissingError for one that is not here."""
    try:
        kind = torch.device(device).type
    except RuntimeError as error:
        raise InputError(f"there is no device {device!r}: use cpu, cuda or cuda:1") from error
    if kind == "cuda" and not torch.cuda.is_available():
        raise MissingError("torch finds no CUDA here: use device cpu, or install a CUDA build of torch")
