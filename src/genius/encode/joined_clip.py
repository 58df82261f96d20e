"""A CLIP whose two towers make one embedding: their sum (UniIR's CLIP-SF), or a small transformer over their
tokens (CLIP-FF). It is what fine-tuning trains, and what embeds whole records afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genius.encode.clip import IMAGE_BATCH, Clip
from genius.encode.token_fusion import (
    TokenFusion,
    TokenFusionSettings,
    check_token_widths,
    score_fusion,
    tokens_of_prepared,
)
from genius.errors import InputError, require

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor, nn
else:
    torch = require("torch", "clip", "joining a CLIP's towers")
    nn = torch.nn

Joining = Literal["score", "tokens"]


class JoinedClip(nn.Module):
    """Records to embeddings of unit length; a record is a picture and a text, either of which may be absent.

    Its weights are `towers.…`, the CLIP's own, and for joining by tokens `fusion.…`.
    """

    def __init__(
        self,
        clip: Clip,
        joining: Joining,
        fusion: TokenFusionSettings | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.clip, self.towers = clip, clip.module
        self.width = clip.image_width
        self.fusion: TokenFusion | None = None
        if joining == "tokens":
            check_token_widths(clip)
            made = TokenFusion(self.width, clip.text_length, fusion, generator=generator)
            self.fusion = made.to(clip.module.device)
        elif clip.image_width != clip.text_width:
            raise InputError(
                f"pictures become {clip.image_width} numbers and texts {clip.text_width}: "
                "score fusion needs a model where they are the same"
            )

    @classmethod
    def by_tokens(cls, clip: Clip, settings: Mapping[str, Any], weights: Path) -> JoinedClip:
        """The CLIP joined by a trained transformer, of these settings and with these weights."""
        from safetensors.torch import load_file

        joined: Any = cls(clip, "tokens", TokenFusionSettings(**settings))
        joined.fusion.load_state_dict(load_file(weights))
        return joined  # type: ignore[no-any-return]

    def forward(self, pixels: Tensor, has_image: Tensor, texts: Sequence[str]) -> Tensor:
        """Embeddings [n, width] of n records, with gradients.

        `pixels` are those of the pictures that are there, in order; an empty text is an absent one.
        """
        if self.fusion is not None:
            tokens = tokens_of_prepared(self.clip, pixels, has_image, [text or None for text in texts])
            joined = self.fusion(*tokens)
        else:
            joined = self._sum(pixels, has_image, texts)
        return nn.functional.normalize(joined.float(), dim=1)

    def embed(self, pictures: Sequence[Image.Image | None], texts: Sequence[str]) -> np.ndarray:
        """Embeddings [n, width] of records, batch by batch, for use."""
        self.eval()
        found = np.zeros((len(texts), self.width), np.float32)
        for start in range(0, len(texts), IMAGE_BATCH):
            part = slice(start, start + IMAGE_BATCH)
            there = [picture is not None for picture in pictures[part]]
            pixels = self.clip.pixels([picture for picture in pictures[part] if picture is not None])
            with torch.inference_mode():
                has_image = torch.tensor(there, device=pixels.device)
                found[part] = self(pixels, has_image, texts[part]).cpu().numpy()
        return found

    def _sum(self, pixels: Tensor, has_image: Tensor, texts: Sequence[str]) -> Tensor:
        """What is absent is not encoded: UniIR encodes it and multiplies by 0, which is the same."""
        has_text = torch.tensor([bool(text) for text in texts], device=has_image.device)
        image = text = torch.zeros(len(texts), self.width, device=has_image.device)
        if len(pixels):
            image = _placed(self.clip.image_features(pixels), has_image)
        if said := [one for one in texts if one]:
            text = _placed(self.clip.text_features(*self.clip.tokenize(said)), has_text)
        return score_fusion(image, text, has_image, has_text)


def _placed(features: Tensor, there: Tensor) -> Tensor:
    """Features in their records' rows [n, width], zeros in the others."""
    rows = torch.zeros(len(there), features.shape[1], device=features.device)
    return rows.index_copy(0, there.nonzero()[:, 0], features.float())
