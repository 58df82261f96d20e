"""Joining by fusion: UniIR's two ways to make one vector of a picture and a text, for training with torch.

Score fusion adds the towers' features. Feature fusion runs a small transformer (an encoder as T5 has it) over
the towers' tokens, text first, and takes the mean of what comes out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from genius.errors import InputError, require

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor, nn

    from genius.encode.clip import Clip
else:
    torch = require("torch", "clip", "fusion of features")
    nn = torch.nn
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genius.encode.clip import IMAGE_BATCH, Clip

if TYPE_CHECKING:
    import torch
    from PIL import Image
    from torch import Tensor, nn
else:
    torch = require("torch", "clip", "joining a CLIP's towers")
    nn = torch.nn


def score_fusion(image: Tensor, text: Tensor, has_image: Tensor, has_text: Tensor) -> Tensor:
    """The sum [n, width] of image and text features, of those that are there ([n], true or false)."""
    return image * has_image[:, None].to(image.dtype) + text * has_text[:, None].to(text.dtype)


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
    """Whether padding and what is absent stay out; UniIR lets the empty text and a grey image take part."""

    def __post_init__(self) -> None:
        if min(self.layers, self.heads, self.head_width, self.inner_width) < 1:
            raise InputError("layers, heads, head_width and inner_width should be at least 1")
        if self.buckets < 4 or self.max_distance <= self.buckets // 4:
            raise InputError("buckets should be at least 4 and max_distance above a quarter of them")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout should be a share below 1, but is {self.dropout}")


class TokenFusion(nn.Module):
    """Text tokens and image tokens to one vector each.

    The first image token has position `text_length`, however little padding a batch carries: so a result
    does not depend on the texts beside it.
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
        self._start(width, generator)

    def forward(
        self,
        text: Tensor,
        image: Tensor,
        text_kept: Tensor | None = None,
        image_kept: Tensor | None = None,
    ) -> Tensor:
        """Vectors [n, width] of text tokens [n, m, width] and image tokens [n, k, width].

        What is kept ([n, m] or [n], [n, k] or [n]; without it, all) matters only if the settings say
        `masked`; a row of which nothing is kept becomes zeros.
        """
        value: Tensor = self.dropout(torch.cat([text, image], 1))
        bias = self._bias(text.shape[1], image.shape[1]).to(value.dtype)
        kept = None
        if self.settings.masked:
            kept = torch.cat([_kept(text, text_kept), _kept(image, image_kept)], 1)
            away = torch.finfo(value.dtype).min
            bias = bias + torch.where(kept, 0, away).to(value.dtype)[:, None, None]
        for layer in self.layers:
            value = layer(value, bias)
        value = self.dropout(self.norm(value))
        if kept is None:
            return value.mean(1)
        share = kept[:, :, None].to(value.dtype)
        return (value * share).sum(1) / share.sum(1).clamp(min=1)

    def _bias(self, texts: int, images: int) -> Tensor:
        """What attention adds for the distance of two tokens [1, heads, length, length]."""
        device = self.bias.weight.device
        after = torch.arange(images, device=device) + self.text_length
        positions = torch.cat([torch.arange(texts, device=device), after])
        buckets = distance_buckets(
            positions[None] - positions[:, None], self.settings.buckets, self.settings.max_distance
        )
        found: Tensor = self.bias(buckets)
        return found.permute(2, 0, 1)[None]

    def _start(self, width: int, generator: torch.Generator | None) -> None:
        """Random weights of the sizes that T5 starts with; attention without scaling needs small queries."""
        settings = self.settings
        inner = settings.heads * settings.head_width
        scales = {"query": (width * settings.head_width) ** -0.5, "out": inner**-0.5}
        scales["shrink"] = settings.inner_width**-0.5
        for name, weight in self.named_parameters():
            if weight.ndim == 2:
                scale = scales.get(name.split(".")[-2], width**-0.5)
                nn.init.normal_(weight, std=scale, generator=generator)


class FusionLayer(nn.Module):
    """Attention and a feed-forward part, each normed before and added to what came in."""

    def __init__(self, width: int, settings: TokenFusionSettings) -> None:
        super().__init__()
        self.heads, self.rate = settings.heads, settings.dropout
        inner = settings.heads * settings.head_width
        self.attention_norm = nn.RMSNorm(width, eps=1e-6)
        self.query = nn.Linear(width, inner, bias=False)
        self.key = nn.Linear(width, inner, bias=False)
        self.value = nn.Linear(width, inner, bias=False)
        self.out = nn.Linear(inner, width, bias=False)
        self.inner_norm = nn.RMSNorm(width, eps=1e-6)
        self.widen = nn.Linear(width, settings.inner_width, bias=False)
        self.shrink = nn.Linear(settings.inner_width, width, bias=False)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(self, value: Tensor, bias: Tensor) -> Tensor:
        """The next tokens [n, length, width]; `bias` is added to attention's scores."""
        value = value + self.dropout(self._attended(self.attention_norm(value), bias))
        inner: Tensor = self.dropout(torch.relu(self.widen(self.inner_norm(value))))
        added: Tensor = self.dropout(self.shrink(inner))
        return value + added

    def _attended(self, value: Tensor, bias: Tensor) -> Tensor:
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
        found: Tensor = self.out(mixed.transpose(1, 2).flatten(2))
        return found


def distance_buckets(distance: Tensor, buckets: int, max_distance: int) -> Tensor:
    """The buckets of distances between tokens: half of them forward, and of each half the nearer ones exact,
    the farther ones growing by a constant factor up to `max_distance`."""
    half = buckets // 2
    exact = half // 2
    far = distance.abs()
    steps = torch.log(far.clamp(min=1).float() / exact) / math.log(max_distance / exact) * (half - exact)
    wide = (exact + steps.long()).clamp(max=half - 1)
    return torch.where(far < exact, far, wide) + (distance > 0).long() * half


def tokens_of(
    clip: Clip, pictures: Sequence[Image.Image | None], texts: Sequence[str | None]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Text tokens, image tokens, and which of each are kept: what `TokenFusion` takes, with gradients.

    An absent text is encoded as an empty one and an absent picture as mean colour, once for all of them.
    """
    pixels = clip.pixels([picture for picture in pictures if picture is not None])
    has_image = torch.tensor([picture is not None for picture in pictures], device=pixels.device)
    return tokens_of_prepared(clip, pixels, has_image, texts)


def tokens_of_prepared(
    clip: Clip, pixels: Tensor, has_image: Tensor, texts: Sequence[str | None]
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The same for pictures that are prepared already: the pixels of those that are there, in order."""
    check_token_widths(clip)
    grey = pixels.new_zeros((int(len(pixels) < len(has_image)), *pixels.shape[1:]))
    image = clip.image_tokens(torch.cat([grey, pixels]))
    has_text = torch.tensor([text is not None for text in texts], device=image.device)
    rows = torch.where(has_image, has_image.cumsum(0) - 1 + len(grey), 0)
    ids, mask = clip.tokenize([text or "" for text in texts], full=True)
    return clip.text_tokens(ids), image[rows], mask.bool() & has_text[:, None], has_image


def check_token_widths(clip: Clip) -> None:
    """Raise InputError for a model whose towers' tokens can't stand in one row."""
    if clip.token_widths[0] != clip.token_widths[1]:
        raise InputError(
            f"text tokens are {clip.token_widths[0]} wide and image tokens {clip.token_widths[1]}: "
            "feature fusion needs a model where they are the same; use score fusion"
        )


def _kept(tokens: Tensor, kept: Tensor | None) -> Tensor:
    """Which tokens take part [n, length], from one flag per row or per token."""
    if kept is None:
        return torch.ones(tokens.shape[:2], dtype=torch.bool, device=tokens.device)
    return (kept if kept.ndim == 2 else kept[:, None]).bool().expand(tokens.shape[:2])


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

        embeddings: Any = cls(clip, "tokens", TokenFusionSettings(**settings))
        embeddings.fusion.load_state_dict(load_file(weights))
        return embeddings  # type: ignore[no-any-return]

    def forward(self, pixels: Tensor, has_image: Tensor, texts: Sequence[str]) -> Tensor:
        """Embeddings [n, width] of n records, with gradients.

        `pixels` are those of the pictures that are there, in order; an empty text is an absent one.
        """
        if self.fusion is not None:
            tokens = tokens_of_prepared(self.clip, pixels, has_image, [text or None for text in texts])
            embeddings = self.fusion(*tokens)
        else:
            embeddings = self._sum(pixels, has_image, texts)
        return nn.functional.normalize(embeddings.float(), dim=1)

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
