"""One embedding of an image and a text by a CLIP: UniIR's score fusion and feature fusion, in torch.

Score fusion adds the towers' features. Feature fusion, here token fusion, runs a small transformer (T5's
encoder) over the towers' tokens, text first, and takes the mean of its output.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genius.encode.clip import IMAGE_BATCH, Clip
from genius.errors import InputError, require

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor, nn
else:
    torch = require("torch", "clip", "fusion of a CLIP's towers")
    nn = torch.nn

ClipFusionKind = Literal["score", "tokens"]


class FusedClip(nn.Module):
    """Records to embeddings of unit length; a record is an image and a text, either of which may be absent.

    Its weights are `towers.…`, the CLIP's own, and for token fusion `fusion.…`. Raises InputError if the
    widths of the towers do not match.
    """

    def __init__(
        self,
        clip: Clip,
        fusion_kind: ClipFusionKind,
        settings: TokenFusionSettings | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.clip, self.towers = clip, clip.module
        self.width = clip.image_width
        self.fusion: TokenFusion | None = None
        if fusion_kind == "tokens":
            check_token_widths(clip)
            fusion = TokenFusion(self.width, clip.text_length, settings, generator=generator)
            self.fusion = fusion.to(clip.module.device)
        elif clip.image_width != clip.text_width:
            raise InputError(
                f"pictures become {clip.image_width} numbers and texts {clip.text_width}: "
                "score fusion needs a model where they are the same"
            )

    @classmethod
    def with_token_fusion(
        cls, clip: Clip, settings: Mapping[str, Any], weights: Mapping[str, Tensor]
    ) -> FusedClip:
        """The CLIP with a trained token fusion of these settings and weights."""
        fused: Any = cls(clip, "tokens", TokenFusionSettings(**settings))
        fused.fusion.load_state_dict(weights)
        return fused  # type: ignore[no-any-return]

    def forward(self, pixels: Tensor, has_image: Tensor, texts: Sequence[str]) -> Tensor:
        """Embeddings [n, width] of n records, with gradients.

        `pixels` are those of the images that are present, in order; an empty text is absent.
        """
        if self.fusion is not None:
            tokens = record_tokens(self.clip, pixels, has_image, [text or None for text in texts])
            embeddings = self.fusion(*tokens)
        else:
            embeddings = self._score_fusion(pixels, has_image, texts)
        return nn.functional.normalize(embeddings.float(), dim=1)

    def embed(self, images: Sequence[Image.Image | None], texts: Sequence[str]) -> np.ndarray:
        """Embeddings float32 [n, width] of records, batch by batch, without gradients."""
        self.eval()
        embeddings = np.zeros((len(texts), self.width), np.float32)
        for start in range(0, len(texts), IMAGE_BATCH):
            batch = slice(start, start + IMAGE_BATCH)
            present = [image is not None for image in images[batch]]
            pixels = self.clip.pixels([image for image in images[batch] if image is not None])
            with torch.inference_mode():
                has_image = torch.tensor(present, device=pixels.device)
                embeddings[batch] = self(pixels, has_image, texts[batch]).cpu().numpy()
        return embeddings

    def _score_fusion(self, pixels: Tensor, has_image: Tensor, texts: Sequence[str]) -> Tensor:
        """What is absent is not encoded: UniIR encodes it and multiplies by 0, which is the same."""
        has_text = torch.tensor([bool(text) for text in texts], device=has_image.device)
        image = text = torch.zeros(len(texts), self.width, device=has_image.device)
        if len(pixels):
            image = _scattered(self.clip.image_features(pixels), has_image)
        if present := [text for text in texts if text]:
            text = _scattered(self.clip.text_features(*self.clip.tokenize(present)), has_text)
        return score_fusion(image, text, has_image, has_text)


def score_fusion(image: Tensor, text: Tensor, has_image: Tensor, has_text: Tensor) -> Tensor:
    """The sum [n, width] of image and text features, of those that are present (bool [n] each)."""
    return image * has_image[:, None].to(image.dtype) + text * has_text[:, None].to(text.dtype)


def _scattered(features: Tensor, present: Tensor) -> Tensor:
    """Features in the rows of the records that have them [n, width], zeros in the others."""
    rows = torch.zeros(len(present), features.shape[1], device=features.device)
    return rows.index_copy(0, present.nonzero()[:, 0], features.float())


# --- token fusion ----------------------------------------------------------------------------------


def record_tokens(
    clip: Clip, pixels: Tensor, has_image: Tensor, texts: Sequence[str | None]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Text tokens, image tokens, and which of each are kept: the inputs of `TokenFusion`, with gradients.

    `pixels` are those of the images that are present, in order. An absent text is encoded as an empty one,
    and an absent image as the mean colour, once for all of them.
    """
    check_token_widths(clip)
    grey = pixels.new_zeros((int(len(pixels) < len(has_image)), *pixels.shape[1:]))
    image = clip.image_tokens(torch.cat([grey, pixels]))
    has_text = torch.tensor([text is not None for text in texts], device=image.device)
    rows = torch.where(has_image, has_image.cumsum(0) - 1 + len(grey), 0)
    ids, mask = clip.tokenize([text or "" for text in texts], full=True)
    return clip.text_tokens(ids), image[rows], mask.bool() & has_text[:, None], has_image


def check_token_widths(clip: Clip) -> None:
    """Raise InputError if the tokens of the two towers differ in width."""
    if clip.token_widths[0] != clip.token_widths[1]:
        raise InputError(
            f"text tokens are {clip.token_widths[0]} wide and image tokens {clip.token_widths[1]}: "
            "token fusion needs a model where they are the same; use score fusion"
        )


@dataclass(frozen=True)
class TokenFusionSettings:
    """Sizes of the transformer; the defaults are UniIR's."""

    layers: int = 2
    heads: int = 12
    head_width: int = 64
    inner_width: int = 2048
    buckets: int = 32
    max_distance: int = 128
    dropout: float = 0.1
    masked: bool = False
    """Whether padding and what is absent are masked; UniIR attends to the empty text and the grey image."""

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.head_width, self.inner_width) < 1:
            raise InputError("layers, heads, head_width and inner_width should be at least 1")
        if self.buckets < 4 or self.max_distance <= self.buckets // 4:
            raise InputError("buckets should be at least 4 and max_distance above a quarter of them")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout should be a share below 1, but is {self.dropout}")


class TokenFusion(nn.Module):
    """A record's text tokens and image tokens to one vector.

    The first image token has position `text_length`, however little padding a batch has: so results are
    batch-invariant.
    """

    def __init__(
        self,
        width: int,
        text_length: int,
        settings: TokenFusionSettings | None = None,
        *,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.settings = settings = settings or TokenFusionSettings()
        self.text_length = text_length
        self.bias = nn.Embedding(settings.buckets, settings.heads)
        self.layers = nn.ModuleList(FusionLayer(width, settings) for _ in range(settings.layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.dropout = nn.Dropout(settings.dropout)
        self._init_weights(width, generator)

    def forward(
        self,
        text: Tensor,
        image: Tensor,
        text_kept: Tensor | None = None,
        image_kept: Tensor | None = None,
    ) -> Tensor:
        """Vectors [n, width] of text tokens [n, m, width] and image tokens [n, k, width].

        The masks `text_kept` ([n, m] or [n]) and `image_kept` ([n, k] or [n]) are used only if the settings
        say `masked`; None keeps all. A row without a kept token becomes zeros.
        """
        value: Tensor = self.dropout(torch.cat([text, image], 1))
        bias = self._bias(text.shape[1], image.shape[1]).to(value.dtype)
        kept = None
        if self.settings.masked:
            kept = torch.cat([_token_mask(text, text_kept), _token_mask(image, image_kept)], 1)
            lowest = torch.finfo(value.dtype).min
            bias = bias + torch.where(kept, 0, lowest).to(value.dtype)[:, None, None]
        for layer in self.layers:
            value = layer(value, bias)
        value = self.dropout(self.norm(value))
        if kept is None:
            return value.mean(1)
        share = kept[:, :, None].to(value.dtype)
        return (value * share).sum(1) / share.sum(1).clamp(min=1)

    def _bias(self, texts: int, images: int) -> Tensor:
        """The attention bias for the distance of two tokens [1, heads, length, length]."""
        device = self.bias.weight.device
        image_positions = torch.arange(images, device=device) + self.text_length
        positions = torch.cat([torch.arange(texts, device=device), image_positions])
        buckets = distance_buckets(
            positions[None] - positions[:, None], self.settings.buckets, self.settings.max_distance
        )
        bias: Tensor = self.bias(buckets)
        return bias.permute(2, 0, 1)[None]

    def _init_weights(self, width: int, generator: torch.Generator | None) -> None:
        """Random weights of T5's initial sizes; attention without scaling needs small queries."""
        settings = self.settings
        inner = settings.heads * settings.head_width
        scales = {"query": (width * settings.head_width) ** -0.5, "out": inner**-0.5}
        scales["down"] = settings.inner_width**-0.5
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                scale = scales.get(name.split(".")[-2], width**-0.5)
                nn.init.normal_(weight, std=scale, generator=generator)


class FusionLayer(nn.Module):
    """Self-attention and an MLP, each with a norm before it and a residual connection."""

    def __init__(self, width: int, settings: TokenFusionSettings) -> None:
        super().__init__()
        self.heads, self.rate = settings.heads, settings.dropout
        inner = settings.heads * settings.head_width
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.query = nn.Linear(width, inner, bias=False)
        self.key = nn.Linear(width, inner, bias=False)
        self.value = nn.Linear(width, inner, bias=False)
        self.out = nn.Linear(inner, width, bias=False)
        self.mlp_norm = nn.RMSNorm(width, eps=1e-6)
        self.up = nn.Linear(width, settings.inner_width, bias=False)
        self.down = nn.Linear(settings.inner_width, width, bias=False)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, value: Tensor, bias: Tensor) -> Tensor:
        """The next tokens [n, length, width]; `bias` is added to the attention scores."""
        value = value + self.dropout(self._self_attention(self.attention_norm(value), bias))
        inner: Tensor = self.dropout(torch.relu(self.up(self.mlp_norm(value))))
        added: Tensor = self.dropout(self.down(inner))
        return value + added

    def _self_attention(self, value: Tensor, bias: Tensor) -> Tensor:
        query, key, content = (
            part(value).unflatten(2, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = nn.functional.scaled_dot_product_attention(
            query,
            key,
            content,
            attn_mask=bias.to(query.dtype),
            dropout_p=self.rate if self.training else 0.0,
            scale=1.0,
        )
        attended: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return attended


def distance_buckets(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """T5's buckets of distances between tokens: half of them for each direction.

    Of each half, the nearer ones are exact, and the farther ones grow by a constant factor up to
    `max_distance`.
    """
    half = buckets // 2
    exact = half // 2
    far = distance.abs()
    steps = torch.log(far.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (half - exact)
    wide = (exact + steps.long()).clamp(max=half - 1)
    return torch.where(far < exact, far, wide) + (distance > 0).long() * half


def _token_mask(tokens: Tensor, kept: Tensor | None) -> Tensor:
    """Which tokens are kept, bool [n, length], from a flag per row or per token."""
    if kept is None:
        return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    return (kept if kept.ndim == 2 else kept[:, None]).bool().expand(tokens.shape[:2])
