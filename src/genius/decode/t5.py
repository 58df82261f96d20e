"""The learned decoder's network: a T5 decoder that reads a query's vector and writes its code (paper §4.3).

The vector becomes a prefix of N vectors, which every layer reads by cross-attention. The decoder's input is a
start token and the codes so far; its output is compared with the embeddings of the next level's codes only,
or as in the reference code with those of all levels' codes and of the special tokens (`normalisation`). Every
code of every level has one embedding, used for input and output.

Rows stand in a tree: each sees those above it, at their distance, and no others. A known code (teacher
forcing) is a tree without branches; the beams of a search are a tree with branches, never copied or
reordered.
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
from genius.decode.onnx_decoder import Normalisation
from genius.errors import InputError

MASKED = -1e9
"""What attention adds for rows that a row must not see."""

KeysValues = tuple[torch.Tensor, torch.Tensor]
"""Keys and values of a layer, each [n, heads, rows, head_width]."""
Cache = list[KeysValues]
"""Keys and values of each layer."""


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
    normalisation: Normalisation = "level"
    """Whether probabilities of codes add up to 1 over their level, or as in the reference code over the whole
    `vocabulary`."""
    special_tokens: int = 0
    """Tokens of the vocabulary besides the start token and the codes; T5 has two, for the end and for what is
    unknown."""

    def __post_init__(self) -> None:
        sizes = (self.layers, self.width, self.heads, self.head_width, self.feed_forward, self.prefix)
        if min(sizes) < 1 or self.prefix_hidden < 0:
            raise InputError(
                "layers, width, heads, head_width, feed_forward and prefix should be at least 1, "
                "and prefix_hidden at least 0"
            )
        if not 0 <= self.dropout < 1 or self.start_scale <= 0:
            raise InputError("dropout should be a share below 1, and start_scale above 0")
        if self.special_tokens < 0:
            raise InputError("special_tokens should be at least 0")
        if self.buckets < 2 or self.max_distance <= self.buckets // 2:
            raise InputError("buckets should be at least 2, and max_distance above half of them")


class T5Decoder(nn.Module):
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
        self.codes = nn.Embedding(1 + sum(self.sizes) + settings.special_tokens, width)
        self.prefix: nn.Module = nn.Linear(vector_width, out)
        if hidden:
            self.prefix = nn.Sequential(nn.Linear(vector_width, hidden), nn.ReLU(), nn.Linear(hidden, out))
        self.prefix_norm = nn.RMSNorm(width, eps=1e-6)
        self.relative_attention_bias = nn.Embedding(settings.buckets, settings.heads)
        self.layers = nn.ModuleList(DecoderLayer(settings) for _ in range(settings.layers))
        self.norm = nn.RMSNorm(width, eps=1e-6)
        self.dropout = Dropout(settings.dropout)
        self._init_weights(codebooks)

    def forward(self, vectors: torch.Tensor, codes: torch.Tensor) -> list[torch.Tensor]:
        """Logits of each level, given the codes [n, levels] before it (teacher forcing).

        They are of what probabilities are normalised over: the level's codes [n, codes], or the vocabulary
        [n, tokens]; `targets` says where the codes are among them.
        """
        levels = len(self.sizes)
        starts = torch.tensor(self.offsets[:-1], dtype=torch.long, device=codes.device)
        tokens = functional.pad(codes[:, : levels - 1] + starts, (1, 0), value=START)
        chain = torch.arange(levels, device=codes.device)
        distances = chain[:, None] - chain
        distances = torch.where(distances < 0, levels, distances)[None]
        hidden, _ = self.step(self.codes(tokens), distances, self.encode_prefix(vectors), None)
        if self.settings.normalisation == "vocabulary":
            return list(self.token_logits(hidden).unbind(1))
        return [self.logits(hidden[:, level], level) for level in range(levels)]

    def targets(self, codes: torch.Tensor) -> torch.Tensor:
        """The numbers of codes [n, levels] among the logits that `forward` gives."""
        if self.settings.normalisation == "level":
            return codes
        return codes + torch.tensor(self.offsets, dtype=torch.long, device=codes.device)

    def encode_prefix(self, vectors: torch.Tensor) -> Cache:
        """Keys and values of every layer's cross-attention, computed once from vectors [n, vector_width]."""
        settings = self.settings
        prefix = self.prefix(vectors).view(-1, settings.prefix, settings.width)
        # Dropout and a norm are what is left of T5's encoder when it has no layers.
        prefix = self.dropout(self.prefix_norm(self.dropout(prefix).float()))
        return [layer.cross_attention.keys_values(prefix) for layer in self._layers]

    def step(
        self, embedded: torch.Tensor, distances: torch.Tensor, prefix: Cache, cache: Cache | None
    ) -> tuple[torch.Tensor, Cache]:
        """The hidden rows [n, rows, width] of new rows of each query, and the self-attention cache with them.

        `embedded` are the embeddings of the rows' own codes [n, rows, width]; `distances` [n, rows, all rows
        so far] says how far above a new row each row is, or len(sizes) where it is not above.
        """
        bias = self.position_bias()[distances].permute(0, 3, 1, 2)
        hidden, grown = self.dropout(embedded), []
        for number, layer in enumerate(self._layers):
            hidden, keys_values = layer(hidden, bias, prefix[number], cache[number] if cache else None)
            grown.append(keys_values)
        return self.dropout(self.norm(hidden)), grown

    def logits(self, hidden: torch.Tensor, level: int) -> torch.Tensor:
        """Logits [n, codes] of a level, of hidden rows [n, width]."""
        first = self.offsets[level]
        codes = self.codes.weight[first : first + self.sizes[level]]
        return functional.linear(hidden * self.settings.width**-0.5, codes)

    def token_logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Logits [..., tokens] of the start token, all codes and the special tokens, of hidden rows
        [..., width]."""
        return functional.linear(hidden * self.settings.width**-0.5, self.codes.weight)

    def log_probs(self, hidden: torch.Tensor, level: int) -> torch.Tensor:
        """Log-probabilities [n, codes] of a level's codes, of hidden rows [n, width]."""
        logits = self.logits(hidden, level)
        if self.settings.normalisation == "level":
            return logits.log_softmax(1)
        return logits - self.token_logits(hidden).logsumexp(1, keepdim=True)

    def position_bias(self) -> torch.Tensor:
        """What attention adds for each distance [levels + 1, heads]; the last masks rows not above."""
        settings, table = self.settings, self.relative_attention_bias
        buckets = relative_position_buckets(len(self.sizes), settings.buckets, settings.max_distance)
        bias = table(torch.from_numpy(buckets).to(table.weight.device))
        return torch.cat([bias, bias.new_full((1, bias.shape[1]), MASKED)])

    @property
    def _layers(self) -> list[DecoderLayer]:
        return cast(list[DecoderLayer], list(self.layers))

    def _init_weights(self, codebooks: Sequence[np.ndarray] | None) -> None:
        """Random weights of the sizes that T5 starts with: attention without scaling needs small queries."""
        settings, width = self.settings, self.settings.width
        nn.init.normal_(self.relative_attention_bias.weight, std=width**-0.5)
        nn.init.normal_(self.codes.weight)
        for layer in self._layers:
            for attention in (layer.self_attention, layer.cross_attention):
                nn.init.normal_(attention.query.weight, std=(width * settings.head_width) ** -0.5)
                nn.init.normal_(attention.key.weight, std=width**-0.5)
                nn.init.normal_(attention.value.weight, std=width**-0.5)
                nn.init.normal_(attention.out.weight, std=(settings.heads * settings.head_width) ** -0.5)
            nn.init.normal_(layer.mlp.up.weight, std=width**-0.5)
            nn.init.normal_(layer.mlp.down.weight, std=settings.feed_forward**-0.5)
        if settings.start_from_codebooks:
            if codebooks is None:
                raise InputError("start_from_codebooks needs the codebooks")
            self._init_codes(codebooks)

    @torch.no_grad()
    def _init_codes(self, codebooks: Sequence[np.ndarray]) -> None:
        """One random projection of all code vectors at unit length: near codes start near each other."""
        projection = torch.randn(self.vector_width, self.settings.width)
        for first, book in zip(self.offsets, codebooks, strict=True):
            units = functional.normalize(torch.from_numpy(np.asarray(book, np.float32)), dim=1)
            self.codes.weight[first : first + len(book)] = units @ projection * self.settings.start_scale


class DecoderLayer(nn.Module):
    """Self-attention to the codes above, cross-attention to the query's prefix, and an MLP; each is added to
    its input, which is normed first."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__()
        width = settings.width
        self.self_attention_norm, self.self_attention = nn.RMSNorm(width, eps=1e-6), Attention(settings)
        self.cross_attention_norm, self.cross_attention = nn.RMSNorm(width, eps=1e-6), Attention(settings)
        self.mlp_norm, self.mlp = nn.RMSNorm(width, eps=1e-6), Mlp(settings)
        self.dropout = Dropout(settings.dropout)

    def forward(
        self, hidden: torch.Tensor, bias: torch.Tensor, prefix: KeysValues, cache: KeysValues | None
    ) -> tuple[torch.Tensor, KeysValues]:
        """The rows [n, rows, width] after this layer, and its keys and values of all rows so far."""
        normed = self.self_attention_norm(hidden)
        keys, values = self.self_attention.keys_values(normed)
        if cache is not None:
            keys, values = torch.cat([cache[0], keys], 2), torch.cat([cache[1], values], 2)
        hidden = hidden + self.dropout(self.self_attention(normed, keys, values, bias))
        hidden = hidden + self.dropout(self.cross_attention(self.cross_attention_norm(hidden), *prefix, None))
        return hidden + self.dropout(self.mlp(self.mlp_norm(hidden))), (keys, values)


class Attention(nn.Module):
    """Multi-head attention as T5 has it: no biases, and no scaling of the products."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__()
        self.heads, self.dropout = settings.heads, Dropout(settings.dropout)
        inner = settings.heads * settings.head_width
        self.query = nn.Linear(settings.width, inner, bias=False)
        self.key = nn.Linear(settings.width, inner, bias=False)
        self.value = nn.Linear(settings.width, inner, bias=False)
        self.out = nn.Linear(inner, settings.width, bias=False)

    def keys_values(self, rows: torch.Tensor) -> KeysValues:
        """Keys and values of rows [n, rows, width]."""
        return self._heads(self.key(rows)), self._heads(self.value(rows))

    def forward(
        self, rows: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, bias: torch.Tensor | None
    ) -> torch.Tensor:
        """What rows attend to [n, rows, width], given keys and values; `bias` [n, heads, rows, keys] is added
        to the products."""
        queries = self._heads(self.query(rows))
        if self.training and rows.device.type == "cpu":  # torch's own takes longer if it drops anything
            products = queries @ keys.transpose(2, 3)
            weights = (products if bias is None else products + bias).float().softmax(3)
            attended = self.dropout(weights.to(values.dtype)) @ values
        else:
            rate = self.dropout.rate if self.training else 0.0
            attended = functional.scaled_dot_product_attention(
                queries, keys, values, attn_mask=bias, dropout_p=rate, scale=1.0
            )
        out: torch.Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return out

    def _heads(self, rows: torch.Tensor) -> torch.Tensor:
        """[n, rows, heads · head_width] as [n, heads, rows, head_width]."""
        return rows.view(*rows.shape[:2], self.heads, -1).transpose(1, 2)


class Dropout(nn.Module):
    """Dropout that takes a third of nn.Dropout's time on a processor: 64 random bits decide on four numbers.

    Args:
        rate: the share of numbers that become 0 in training, to within 1 / 65,536.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows of which a share is dropped, and the rest grows by as much."""
        if not self.training or not self.rate:
            return rows
        if rows.device.type != "cpu":
            return functional.dropout(rows, self.rate)
        draws = torch.empty(-(-rows.numel() // 4), dtype=torch.int64).random_(-(1 << 63), None)
        lots = draws.view(torch.int16)[: rows.numel()].view(rows.shape)  # even from -32,768 to 32,767
        kept = lots >= round(self.rate * (1 << 16)) - (1 << 15)
        return rows * kept.to(rows.dtype).mul_(1 / (1 - self.rate))


class Mlp(nn.Module):
    """T5's feed-forward network: up, ReLU, down, without biases."""

    def __init__(self, settings: DecoderSettings) -> None:
        super().__init__()
        self.up = nn.Linear(settings.width, settings.feed_forward, bias=False)
        self.down = nn.Linear(settings.feed_forward, settings.width, bias=False)
        self.dropout = Dropout(settings.dropout)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Rows [n, rows, width] to rows of the same shape."""
        out: torch.Tensor = self.down(self.dropout(self.up(rows).relu()))
        return out


def relative_position_buckets(count: int, buckets: int, farthest: int) -> np.ndarray:
    """T5's buckets of the distances 0 … count - 1: one each at first, then wider ones."""
    exact = buckets // 2
    numbers = np.arange(count)
    far = numbers >= exact
    growth = np.log(numbers[far] / exact) / math.log(farthest / exact)
    numbers[far] = np.minimum(exact + (growth * (buckets - exact)).astype(np.int64), buckets - 1)
    return numbers
