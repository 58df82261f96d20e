"""The learned decoder's network: a T5 decoder that reads a query's vector and writes its code (paper §4.3).

The vector becomes a prefix of N vectors that every layer reads by cross-attention. A start token and the
codes so far are the decoder's input, and what comes out is compared with the embeddings of the next level's
codes, and of no others. All codes of all levels have an embedding each, in and out the same.

Rows stand in a tree: each sees those above it, at their distance, and no other. A code that is known (teacher
forcing) is a tree without branches; the beams of a search are one with branches, never copied or reordered.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from genius.decode.beam_tree import START, offsets
from genius.errors import InputError

AWAY = -1e9
"""What attention adds where a row must not look."""

Cache = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, [n, heads, rows, head_width]."""


@dataclass(frozen=True)
class DecoderSettings:
    """Sizes of the network. The defaults suit a CPU; the paper has T5-small: 6 layers, width 512, 8 heads of
    64, feed_forward 2048, prefix 30."""

    layers: int = 2
    width: int = 192
    heads: int = 4
    head_width: int = 48
    feed_forward: int = 768
    prefix: int = 12
    """Vectors that a query becomes (the paper's N)."""
    prefix_hidden: int = 0
    """Numbers between a query and its prefix; 0 is one linear map, as in the reference code, and more is a
    perceptron, as in the paper."""
    dropout: float = 0.1
    start_from_codebooks: bool = True
    """Whether embeddings of codes start as a random projection of the code vectors, as in the reference code;
    otherwise at random, as in the paper."""
    start_scale: float = 2.0
    """Of such embeddings, the standard deviation of an entry at the start."""
    buckets: int = 32
    """Of distances between positions, half of them for single distances."""
    max_distance: int = 128

    def __post_init__(self) -> None:
        sizes = (self.layers, self.width, self.heads, self.head_width, self.feed_forward, self.prefix)
        if min(sizes) < 1 or self.prefix_hidden < 0:
            raise InputError(
                "layers, width, heads, head_width, feed_forward and prefix should be at least 1, "
                "and prefix_hidden at least 0"
            )
        if not 0 <= self.dropout < 1 or self.start_scale <= 0:
            raise InputError("dropout should be a share below 1, and start_scale above 0")
        if self.buckets < 2 or self.max_distance <= self.buckets // 2:
            raise InputError("buckets should be at least 2, and max_distance above half of them")


class CodeNetwork(nn.Module):
    """Scores the codes of every level, given query vectors [n, vector_width] and the codes before.

    Args:
        vector_width: of the queries' vectors.
        sizes: codes by level.
        settings: sizes of the network.
        codebooks: the vectors of each level, from which embeddings may start.
    """

    def __init__(
        self,
        vector_width: int,
        sizes: Sequence[int],
        settings: DecoderSettings,
        codebooks: Sequence[np.ndarray] | None = None,
    ) -> None:
        super().__init__()
        self.vector_width, self.sizes, self.settings = vector_width, tuple(sizes), settings
        self.offsets = offsets(self.sizes)
        width, hidden, out = settings.width, settings.prefix_hidden, settings.prefix * settings.width
        self.codes = nn.Embedding(1 + sum(self.sizes), width)
        self.prefix: nn.Module = nn.Linear(vector_width, out)
        if hidden:
            self.prefix = nn.Sequential(nn.Linear(vector_width, hidden), nn.ReLU(), nn.Linear(hidden, out))
        self.prefix_norm = nn.RMSNorm(width, eps=1e-6)
        self.distances = nn.Embedding(settings.buckets, settings.heads)
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.dropout = nn.Dropout(settings.dropout)
        self._start(codebooks)

    def forward(self, vectors: torch.Tensor, codes: torch.Tensor) -> list[torch.Tensor]:
        """Logits [n, codes] of each level, given the codes [n, levels] before it."""
        levels = len(self.sizes)
        starts = torch.tensor(self.offsets[:-1], dtype=torch.long, device=codes.device)
        tokens = functional.pad(codes[:, : levels - 1] + starts, (1, 0), value=START)
        chain = torch.arange(levels, device=codes.device)
        distances = chain[:, None] - chain
        distances = torch.where(distances < 0, levels, distances)[None]
        hidden, _ = self.step(self.codes(tokens), distances, self.remember(vectors), None)
        return [self.logits(hidden[:, level], level) for level in range(levels)]

    def remember(self, vectors: torch.Tensor) -> Cache:
        """What every layer's cross-attention reads: computed once for each query."""
        settings = self.settings
        prefix = self.prefix(vectors).view(-1, settings.prefix, settings.width)
        # Dropout and a norm are what is left of T5's encoder when it has no layers.
        prefix = self.dropout(self.prefix_norm(self.dropout(prefix)))
        return [layer.read.keys_values(prefix) for layer in self._layers]

    def step(
        self, embedded: torch.Tensor, distances: torch.Tensor, memory: Cache, cache: Cache | None
    ) -> tuple[torch.Tensor, Cache]:
        """The hidden rows [n, rows, width] of new rows under each query, and the cache with them.

        `embedded` are the rows' own codes [n, rows, width]; `distances` [n, rows, all rows so far] says how
        far above a new row each row is, or len(sizes) where it is not above.
        """
        bias = self.bias()[distances].permute(0, 3, 1, 2)
        value, grown = self.dropout(embedded), []
        for number, layer in enumerate(self._layers):
            value, kept = layer(value, bias, memory[number], cache[number] if cache else None)
            grown.append(kept)
        return self.dropout(self.norm(value)), grown

    def logits(self, hidden: torch.Tensor, level: int) -> torch.Tensor:
        """Logits [n, codes] of a level, of hidden rows [n, width]."""
        first = self.offsets[level]
        codes = self.codes.weight[first : first + self.sizes[level]]
        return functional.linear(hidden * self.settings.width**-0.5, codes)

    def bias(self) -> torch.Tensor:
        """What attention adds for each distance [levels + 1, heads]; the last is that of rows not above."""
        buckets = distance_buckets(len(self.sizes), self.settings.buckets, self.settings.max_distance)
        near = self.distances(torch.from_numpy(buckets).to(self.distances.weight.device))
        return torch.cat([near, near.new_full((1, near.shape[1]), AWAY)])

    @property
    def _layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.layers))

    def _start(self, codebooks: Sequence[np.ndarray] | None) -> None:
        """Random weights of the sizes that T5 starts with: attention without scaling needs small queries."""
        settings, width = self.settings, self.settings.width
        nn.init.normal_(self.distances.weight, std=width**-0.5)
        nn.init.normal_(self.codes.weight)
        for layer in self._layers:
            for attention in (layer.look, layer.read):
                nn.init.normal_(attention.query.weight, std=(width * settings.head_width) ** -0.5)
                nn.init.normal_(attention.key.weight, std=width**-0.5)
                nn.init.normal_(attention.value.weight, std=width**-0.5)
                nn.init.normal_(attention.out.weight, std=(settings.heads * settings.head_width) ** -0.5)
            nn.init.normal_(layer.widen.weight, std=width**-0.5)
            nn.init.normal_(layer.narrow.weight, std=settings.feed_forward**-0.5)
        if settings.start_from_codebooks:
            if codebooks is None:
                raise InputError("start_from_codebooks needs the codebooks")
            self._start_codes(codebooks)

    @torch.no_grad()
    def _start_codes(self, codebooks: Sequence[np.ndarray]) -> None:
        """One random projection of all code vectors at unit length: near codes start near each other."""
        projection = torch.randn(self.vector_width, self.settings.width)
        for first, book in zip(self.offsets, codebooks, strict=True):
            units = functional.normalize(torch.from_numpy(np.asarray(book, np.float32)), dim=1)
            self.codes.weight[first : first + len(book)] = units @ projection * self.settings.start_scale


class DecoderLayer(nn.Module):
    """A row looks at the codes above it, reads the query's prefix, and thinks; each is added to it."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__()
        width = settings.width
        self.look_norm, self.look = nn.RMSNorm(width, eps=1e-6), Attention(settings)
        self.read_norm, self.read = nn.RMSNorm(width, eps=1e-6), Attention(settings)
        self.think_norm = nn.RMSNorm(width, eps=1e-6)
        self.widen = nn.Linear(width, settings.feed_forward, bias=False)
        self.narrow = nn.Linear(settings.feed_forward, width, bias=False)
        self.dropout = nn.Dropout(settings.dropout)

    def forward(
        self,
        value: torch.Tensor,
        bias: torch.Tensor,
        memory: tuple[torch.Tensor, torch.Tensor],
        cache: tuple[torch.Tensor, torch.Tensor] | None,
    ) -> tuple[torch.Tensor, tuple[torch.Tensor, torch.Tensor]]:
        """The rows after this layer, and its keys and values of all rows so far."""
        normed = self.look_norm(value)
        keys, values = self.look.keys_values(normed)
        if cache is not None:
            keys, values = torch.cat([cache[0], keys], 2), torch.cat([cache[1], values], 2)
        value = value + self.dropout(self.look(normed, keys, values, bias))
        value = value + self.dropout(self.read(self.read_norm(value), *memory, None))
        thought = self.narrow(self.dropout(self.widen(self.think_norm(value)).relu()))
        return value + self.dropout(thought), (keys, values)


class Attention(nn.Module):
    """Attention as T5 has it: no biases, and no scaling of the products."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__()
        self.heads, self.rate = settings.heads, settings.dropout
        inner = settings.heads * settings.head_width
        self.query = nn.Linear(settings.width, inner, bias=False)
        self.key = nn.Linear(settings.width, inner, bias=False)
        self.value = nn.Linear(settings.width, inner, bias=False)
        self.out = nn.Linear(inner, settings.width, bias=False)

    def keys_values(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """What others see of rows [n, rows, width]."""
        return self._heads(self.key(rows)), self._heads(self.value(rows))

    def forward(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """What rows [n, rows, width] take from the keys and values."""
        found = functional.scaled_dot_product_attention(
            self._heads(self.query(rows)),
            keys,
            values,
            attn_mask=bias,
            dropout_p=self.rate if self.training else 0.0,
            scale=1.0,
        )
        taken: torch.Tensor = self.out(found.transpose(1, 2).flatten(2))
        return taken

    def _heads(self, rows: torch.Tensor) -> torch.Tensor:
        return rows.view(*rows.shape[:2], self.heads, -1).transpose(1, 2)


def distance_buckets(count: int, buckets: int, farthest: int) -> np.ndarray:
    """T5's buckets of the distances 0 … count - 1: one each at first, then wider ones."""
    exact = buckets // 2
    found = np.arange(count)
    far = found >= exact
    growth = np.log(found[far] / exact) / math.log(farthest / exact)
    found[far] = np.minimum(exact + (growth * (buckets - exact)).astype(np.int64), buckets - 1)
    return found
