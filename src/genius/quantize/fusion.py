"""The learned fusion h(x, y): a record's two parts become the one vector that is quantized (paper §4.2).

    z = λ·x + (1 − λ)·y + MLP([x; y]), of unit length, with λ from a small network of its own

x is what stage 0 makes of the image alone, y what it makes of the text alone. Unlike the published form, the
joined embedding that stage 0 makes of both may be added, so that nothing it knows of the two is lost. The
reference code takes features as long as the encoder makes them (`raw`), and its λ weighs the text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from genius.errors import InputError


@dataclass(frozen=True)
class FusionSettings:
    """How parts become vectors."""

    hidden: int = 512
    """Numbers that each part is projected to."""
    width: int = 0
    """Numbers of a vector; 0 is as many as an embedding has. The fewer, the better a code can tell them."""
    dropout: float = 0.1
    with_embedding: bool = True
    """Whether the joined embedding takes part; the paper has the two parts only."""
    raw: bool = False
    """Whether parts are as long as the encoder's features, as in the reference code; otherwise of unit
    length. Heads always give unit length."""
    mix_hidden: int = 0
    """Numbers between the two layers that make what is added to the mixture; 0 is as many as they start
    from."""
    share_hidden: int = 0
    """Numbers between the two layers that make λ; 0 is as many as `hidden`, and the reference code has as
    many as all parts are projected to together."""
    share_of: Literal["image", "text"] = "image"
    """The part that λ weighs; 1 - λ weighs the other. In the reference code it is the text."""

    def __post_init__(self) -> None:
        if self.hidden < 1 or self.width < 0 or not 0 <= self.dropout < 1:
            raise InputError("hidden should be at least 1, width at least 0, and dropout a share below 1")
        if min(self.mix_hidden, self.share_hidden) < 0:
            raise InputError("mix_hidden and share_hidden should be at least 0")


class Fusion(nn.Module):
    """From the parts of n records [n, width] to vectors of unit length, as wide or narrower."""

    def __init__(self, width: int, settings: FusionSettings) -> None:
        super().__init__()
        self.width, self.settings = width, settings
        self.out_width = settings.width or width
        hidden = settings.hidden
        self.text_projection = nn.Linear(width, hidden)
        self.image_projection = nn.Linear(width, hidden)
        if settings.with_embedding:
            self.embedding_projection = nn.Linear(width, hidden)
        inner = (3 if settings.with_embedding else 2) * hidden
        self.dropout = nn.Dropout(settings.dropout)
        mixed, shared = settings.mix_hidden or inner, settings.share_hidden or hidden
        self.mix = nn.Sequential(nn.Linear(inner, mixed), nn.ReLU(), nn.Linear(mixed, self.out_width))
        self.share = nn.Sequential(nn.Linear(inner, shared), nn.ReLU(), nn.Linear(shared, 1))
        self.projection = nn.Linear(width, self.out_width, bias=False) if settings.width else None
        # Training starts from the plain mixture, which is as good as stage 0, and learns what to add.
        nn.init.zeros_(self.mix[2].weight)  # type: ignore[arg-type]
        nn.init.zeros_(self.mix[2].bias)  # type: ignore[arg-type]

    def forward(
        self,
        embeddings: torch.Tensor,
        image: torch.Tensor,
        has_image: torch.Tensor,
        text: torch.Tensor,
        has_text: torch.Tensor,
        image_length: torch.Tensor | None = None,
        text_length: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The vectors [n, out_width]; the values of an absent part are ignored, whatever they are.

        `image_length` and `text_length` [n] are those of the encoder's features, which count if these are
        taken `raw`.
        """
        nothing = torch.zeros((), dtype=embeddings.dtype)
        if self.settings.raw and image_length is not None and text_length is not None:
            image, text = image * image_length[:, None], text * text_length[:, None]
        image = torch.where(has_image[:, None], image, nothing)
        text = torch.where(has_text[:, None], text, nothing)
        projected = [self.text_projection(text), self.image_projection(image)]
        if self.settings.with_embedding:
            projected.append(self.embedding_projection(embeddings))
        hidden = self.dropout(torch.cat(projected, dim=1).relu())
        share = self.share(hidden).sigmoid()
        weighed, other = (image, text) if self.settings.share_of == "image" else (text, image)
        mixed = share * weighed + (1 - share) * other
        if self.settings.with_embedding:
            mixed = mixed + embeddings
        if self.projection is not None:
            mixed = self.projection(mixed)
        return functional.normalize(mixed + self.mix(hidden), dim=1)

    @torch.no_grad()
    def init_projection(self, queries: torch.Tensor) -> None:
        """Start from the directions along which queries [n, width] are longest: products keep most."""
        if self.projection is not None:
            _, directions = torch.linalg.eigh(queries.double().T @ queries.double())
            self.projection.weight.copy_(directions.flip(1)[:, : self.out_width].T)
