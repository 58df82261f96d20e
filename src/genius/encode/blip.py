"""UniIR's BLIP as an encoder, in torch, by the networks of transformers.

With score fusion it has two towers like a CLIP. With feature fusion, one network reads the text and attends
to the image's tokens, so that an image and a text become one vector. What is absent takes part, too, as it
did in training: an image without a text comes with an empty text, and a text without an image with a blank
one, whose pixels are zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genius.encode.blip_folder import PURPOSE, BlipFolder
from genius.encode.clip import check_device
from genius.errors import require

if TYPE_CHECKING:
    import torch
    from PIL import Image

BATCH = 32


class Blip:
    """BLIP with score fusion: images and texts in one space; features are projected and not normalised."""

    def __init__(self, folder: BlipFolder, device: str = "cpu") -> None:
        self._towers, self._device = folder.load(device), device
        self.tokenizer, self.preprocessing = folder.tokenizer(), folder.preprocessing
        self.fingerprint = folder.fingerprint()
        self.image_width = self.text_width = int(folder.settings["width"])
        self.image_parts = {"features": self.image_width}
        self.text_parts = {"features": self.text_width}

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Features [n, image_width] of RGB images."""
        torch = require("torch", "clip", PURPOSE)
        features = np.zeros((len(images), self.image_width), np.float32)
        for start in range(0, len(images), BATCH):
            batch = slice(start, start + BATCH)
            with torch.inference_mode():
                tokens = self._image_tokens(images[batch])
                features[batch] = self._towers.vision_projection(tokens[:, 0]).cpu().numpy()
        return features

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of texts; those of similar length are encoded together."""
        torch = require("torch", "clip", PURPOSE)
        features = np.zeros((len(texts), self.text_width), np.float32)
        tokens = self.tokenizer.token_ids(texts)
        for places in _batches_by_length(tokens):
            ids, mask = self._padded([tokens[place] for place in places])
            with torch.inference_mode():
                output = self._towers.text(input_ids=ids, attention_mask=mask).last_hidden_state
                features[places] = self._towers.text_projection(output[:, 0]).cpu().numpy()
        return features

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts have more tokens than the model reads."""
        return self.tokenizer.too_long(texts)

    def _image_tokens(self, images: Sequence[Image.Image]) -> torch.Tensor:
        """All tokens of images [n, tokens, width], normalised."""
        torch = require("torch", "clip", PURPOSE)
        pixels = np.stack([self.preprocessing.pixels(image) for image in images])
        return self._vision(torch.from_numpy(pixels))

    def _vision(self, pixels: torch.Tensor) -> torch.Tensor:
        output = self._towers.vision(pixel_values=pixels.to(self._device))
        return output.last_hidden_state  # type: ignore[no-any-return]

    def _padded(self, tokens: Sequence[Sequence[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        torch = require("torch", "clip", PURPOSE)
        ids, mask = self.tokenizer.padded(tokens)
        return torch.from_numpy(ids).to(self._device), torch.from_numpy(mask).to(self._device)


class FusedBlip(Blip):
    """BLIP with feature fusion: one vector of an image, of a text, or of both together."""

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Features [n, image_width] of images, each with an empty text."""
        return self._encode(images, [""] * len(images))

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of texts, each with a blank image."""
        return self._encode([None] * len(texts), texts)

    def encode_pairs(self, images: Sequence[Image.Image], texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of images with their texts."""
        return self._encode(images, texts)

    def embed(self, images: Sequence[Image.Image | None], texts: Sequence[str]) -> np.ndarray:
        """Embeddings [n, text_width] of unit length, of records; what is absent is None or empty."""
        features = self._encode(images, texts)
        lengths = np.linalg.norm(features, axis=1, keepdims=True)
        return np.asarray(features / np.maximum(lengths, np.finfo(np.float32).tiny), np.float32)

    def _encode(self, images: Sequence[Image.Image | None], texts: Sequence[str]) -> np.ndarray:
        torch = require("torch", "clip", PURPOSE)
        features = np.zeros((len(texts), self.text_width), np.float32)
        tokens = self.tokenizer.token_ids(texts)
        for places in _batches_by_length(tokens):
            ids, mask = self._padded([tokens[place] for place in places])
            with torch.inference_mode():
                context = self._context([images[place] for place in places])
                output = self._towers.text(input_ids=ids, attention_mask=mask, encoder_hidden_states=context)
                features[places] = output.pooler_output.cpu().numpy()
        return features

    def _context(self, images: Sequence[Image.Image | None]) -> torch.Tensor:
        """What texts attend to: the tokens of their images [n, tokens, width]."""
        present = [image for image in images if image is not None]
        if len(present) == len(images):
            return self._image_tokens(present)
        context = self._blank_tokens.repeat(len(images), 1, 1)
        if present:
            places = [place for place, image in enumerate(images) if image is not None]
            context[places] = self._image_tokens(present)
        return context

    @cached_property
    def _blank_tokens(self) -> torch.Tensor:
        torch = require("torch", "clip", PURPOSE)
        with torch.inference_mode():
            return self._vision(torch.zeros(1, 3, *self.preprocessing.shape))


@dataclass(frozen=True)
class BlipLoader:
    """Opens a BLIP in a worker process; `source` is its folder."""

    source: str
    device: str = "cpu"

    def __call__(self, threads: int) -> Blip:
        """The encoder, using this many threads."""
        return open_blip(self.source, device=self.device, threads=threads)


def open_blip(source: Path | str, *, device: str = "cpu", threads: int | None = None) -> Blip:
    """The BLIP in a folder that genius wrote; `threads` holds for the whole process.

    Raises InputError (no such model, weights missing) or MissingError (no such device).
    """
    torch: Any = require("torch", "clip", PURPOSE)
    if threads is not None:
        torch.set_num_threads(threads)
    check_device(torch, device)
    folder = BlipFolder.open(Path(source))
    return (FusedBlip if folder.fusion == "feature" else Blip)(folder, device)


def _batches_by_length(tokens: Sequence[Sequence[int]]) -> list[np.ndarray]:
    """Places of texts of similar length, batch by batch."""
    order = np.argsort([len(ids) for ids in tokens], kind="stable")
    return [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
