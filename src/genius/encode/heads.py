"""The heads: from the towers' features of an item or a query to its embedding (the paper calls it φ).

An embedding has three blocks. *Content* is learned: an item's is the sum of its image's and its text's
embeddings (score fusion), or the output of a small network over both (feature fusion); a query's is the
output of a small network over both and the instruction. *Raw* blocks are the towers' own directions, which
training can't spoil: image to image and text to text stay as good as without training. *Modality* is that of
an item, and for a query the one that its instruction asks for. One more number may correct for hubs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional

from genius.data import records
from genius.encode.hubness import Hubness
from genius.encode.projection import ClassNaming, Projection, kept_parts
from genius.errors import InputError

MODALITIES = len(records.MODALITIES)

Masked = tuple[torch.Tensor, torch.Tensor]
"""Projected features of one modality [n, …], and which rows have it, bool [n]. The projected parts are
followed by the raw block, and for images then by the raw block of the text that names them."""


@dataclass(frozen=True)
class HeadSettings:
    """How features become embeddings."""

    width: int = 512
    """Of the embedding, all blocks together."""
    raw: int = 64
    """Of each of the two raw blocks."""
    raw_item: float = 0.5
    """Strength of an item's raw blocks beside its content."""
    raw_query: float = 0.5
    """Strength of a query's raw blocks, before training if it is learned."""
    named: bool = False
    """Whether an image without a text borrows the names of the classes that its tower sees in it (ConSE)."""
    learn_raw: bool = True
    """Whether the instruction decides how strong a query's raw blocks are."""
    modality: float = 0.5
    """Share of an embedding's square that its modality takes."""
    hubness: int = 0
    """Training queries, for each modality that they want, by which items that are near to every query are
    told and set back; 0 is off."""
    members: int = 1
    """Networks of an ensemble; each is trained separately and makes its share of the content."""
    hidden: int = 1024
    dropout: float = 0.2
    input_dropout: float = 0.1
    whitening: float = 0.25
    fusion_kind: Literal["score", "feature"] = "score"
    """An item's content: `score` is the sum of image and text, `feature` a small network over both."""
    image_parts: tuple[str, ...] = ("features:768",)
    text_parts: tuple[str, ...] = ("features:768",)

    def __post_init__(self) -> None:
        if not 0 <= self.modality < 1:
            raise InputError(f"modality should be a share below 1, but is {self.modality}")
        if min(self.members, self.raw, self.hidden) < 1 or self.hubness < 0:
            raise InputError("members, hidden and raw should be at least 1, and hubness at least 0")
        if self.content < self.members or self.content % self.members:
            raise InputError(
                f"width leaves {self.content} numbers for content, which {self.members} members can't share"
            )

    @property
    def content(self) -> int:
        """Width of the learned block."""
        return self.width - MODALITIES - 2 * self.raw - bool(self.hubness)


def _hidden_layer(inputs: int, hidden: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(dropout))


class Head(nn.Module):
    """One tower's features into the learned space: a linear map plus an MLP."""

    def __init__(self, inputs: int, hidden: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.hidden = _hidden_layer(inputs, hidden, dropout)
        self.out = nn.Linear(hidden, outputs)
        nn.init.normal_(self.linear.weight, std=1 / math.sqrt(inputs))
        nn.init.normal_(self.out.weight, std=0.3 / math.sqrt(hidden))

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The embedding [n, outputs], and the hidden layer [n, hidden], which `GatedFusion` takes."""
        hidden = self.hidden(features)
        return self.linear(features) + self.out(hidden), hidden


class GatedFusion(nn.Module):
    """One content of an image's and a text's embedding: weighted by gates, plus a learned offset."""

    def __init__(self, inputs: int, hidden: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.hidden = _hidden_layer(inputs, hidden, dropout)
        self.gates = nn.Linear(hidden, 3 * outputs)
        nn.init.normal_(self.gates.weight, std=0.3 / math.sqrt(hidden))
        nn.init.zeros_(self.gates.bias)

    def forward(self, image: torch.Tensor, text: torch.Tensor, *context: torch.Tensor) -> torch.Tensor:
        """The content [n, outputs], not yet of unit length; gates and offset depend on `context` [n, …]."""
        image_gate, text_gate, offset = self.gates(self.hidden(torch.cat(context, dim=1))).chunk(3, dim=1)
        content: torch.Tensor = image * (1 + image_gate) + text * (1 + text_gate) + offset
        return content


class Member(nn.Module):
    """One network of the ensemble."""

    def __init__(self, settings: HeadSettings, image_width: int, text_width: int) -> None:
        super().__init__()
        hidden, dropout = settings.hidden, settings.dropout
        self.outputs, self.hidden = settings.content // settings.members, hidden
        self.image_width, self.text_width = image_width, text_width
        self.image_head = Head(image_width, hidden, self.outputs, dropout)
        self.text_head = Head(text_width, hidden, self.outputs, dropout)
        self.input_dropout = nn.Dropout(settings.input_dropout)
        self.query_fusion = GatedFusion(2 * hidden + text_width + 3, hidden, self.outputs, dropout)
        self.item_fusion: GatedFusion | None = None
        if settings.fusion_kind == "feature":
            self.item_fusion = GatedFusion(2 * hidden + 2, hidden, self.outputs, dropout)

    def items(self, image: Masked, text: Masked) -> torch.Tensor:
        """Contents [n, outputs] of items, of unit length."""
        image_part, image_hidden = self._embedded(self.image_head, self.image_width, image)
        text_part, text_hidden = self._embedded(self.text_head, self.text_width, text)
        if self.item_fusion is None:
            return functional.normalize(image_part + text_part, dim=1)
        content = self.item_fusion(image_part, text_part, image_hidden, text_hidden, _masks(image, text))
        return functional.normalize(content, dim=1)

    def queries(
        self, image: Masked, text: Masked, instruction: torch.Tensor, masks: torch.Tensor
    ) -> torch.Tensor:
        """Contents [n, outputs] of queries, of unit length; an absent instruction is zeros."""
        image_part, image_hidden = self._embedded(self.image_head, self.image_width, image)
        text_part, text_hidden = self._embedded(self.text_head, self.text_width, text)
        content = self.query_fusion(image_part, text_part, image_hidden, text_hidden, instruction, masks)
        return functional.normalize(content, dim=1)

    def _embedded(self, head: Head, width: int, part: Masked) -> tuple[torch.Tensor, torch.Tensor]:
        """A tower's embedding and hidden layer, zeros where the modality is absent."""
        features, present = part
        if self.training and not present.any():  # saves half of the work: a batch is of one task
            rows = len(features)
            return features.new_zeros(rows, self.outputs), features.new_zeros(rows, self.hidden)
        embedding, hidden = head(self.input_dropout(_zero_absent(features[:, :width], present)))
        return _zero_absent(embedding, present), _zero_absent(hidden, present)


@dataclass(frozen=True)
class Blocks:
    """Contents by member [n, members, width] of unit length each, and raw blocks [n, 2 · raw]."""

    contents: torch.Tensor
    raw: torch.Tensor

    def of(self, member: int) -> torch.Tensor:
        """Content and raw blocks by one member alone, of unit length."""
        return functional.normalize(torch.cat([self.contents[:, member], self.raw], dim=1), dim=1)

    def together(self) -> torch.Tensor:
        """Content and raw blocks by all members, of unit length: similarities are the members' mean."""
        contents = self.contents.flatten(1) / math.sqrt(self.contents.shape[1])
        return functional.normalize(torch.cat([contents, self.raw], dim=1), dim=1)


class Heads(nn.Module):
    """Projections, the ensemble's members, and what they share, for one encoder."""

    def __init__(
        self, settings: HeadSettings, image_parts: Mapping[str, int], text_parts: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.settings = settings
        self.image_projection = Projection(image_parts, kept_parts(settings.image_parts), settings.raw)
        self.text_projection = Projection(text_parts, kept_parts(settings.text_parts), settings.raw)
        self.text_width = self.text_projection.width
        self.members = nn.ModuleList(
            Member(settings, self.image_projection.width, self.text_width) for _ in range(settings.members)
        )
        if settings.named:
            self.naming = ClassNaming(image_parts, settings.raw)
        if settings.hubness:
            self.hubness = Hubness(settings.content + 2 * settings.raw, settings.hubness)
        self.raw_weights = nn.Linear(self.text_width + 3, 2)
        nn.init.zeros_(self.raw_weights.weight)
        nn.init.constant_(self.raw_weights.bias, math.log(math.expm1(settings.raw_query)))
        self.raw_weights.requires_grad_(settings.learn_raw)
        self.wants = nn.Linear(self.text_width, MODALITIES)

    def project_images(self, features: torch.Tensor) -> torch.Tensor:
        """Image features [n, all parts] as the heads take them (see `Masked`)."""
        projected: torch.Tensor = self.image_projection(features)
        return torch.cat([projected, self.naming(features)], dim=1) if self.settings.named else projected

    def item_blocks(self, image: Masked, text: Masked) -> Blocks:
        """Contents and raw blocks of items."""
        contents = torch.stack([member.items(image, text) for member in self._members()], dim=1)
        return Blocks(contents, torch.cat(self._raw(image, text), dim=1) * self.settings.raw_item)

    def query_blocks(
        self, image: Masked, text: Masked, instruction: Masked
    ) -> tuple[Blocks, torch.Tensor, torch.Tensor]:
        """Contents and raw blocks of queries, logits [n, 3] of the modality that they want, which are zeros
        without an instruction, and masks [n, 3] of what they have: all that `embed_queries` takes."""
        said = _zero_absent(instruction[0][:, : self.text_width], instruction[1])
        masks = _masks(image, text, instruction)
        contents = torch.stack([m.queries(image, text, said, masks) for m in self._members()], dim=1)
        weights = functional.softplus(self.raw_weights(torch.cat([said, masks], dim=1)))
        raw = [rows * weights[:, n : n + 1] for n, rows in enumerate(self._raw(image, text))]
        wants = _zero_absent(self.wants(said), instruction[1])
        return Blocks(contents, torch.cat(raw, dim=1)), wants, masks

    @torch.no_grad()
    def strengthen_texts(self, amount: float) -> None:
        """Add to the logit of how strong the text's raw block is in queries of a text alone."""
        self.raw_weights.bias[1] += amount
        self.raw_weights.weight[1, self.text_width] -= amount  # the first mask: queries with an image stay

    def embed_items(self, blocks: Blocks, modality: torch.Tensor) -> torch.Tensor:
        """Embeddings [n, width] of items from their blocks and their modality [n]."""
        one_hot = functional.one_hot(modality.long(), MODALITIES).to(blocks.raw.dtype)
        together = blocks.together()
        if self.settings.hubness:
            together = torch.cat([together, self.hubness.of_items(together, modality)], dim=1)
        return self._with_modality(together, one_hot)

    def embed_queries(self, blocks: Blocks, wants: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """Embeddings [n, width] of queries from what `query_blocks` gives."""
        together = blocks.together()
        if self.settings.hubness:
            together = torch.cat([together, self.hubness.of_queries(masks[:, 0], masks[:, 1])], dim=1)
        return self._with_modality(together, functional.normalize(wants.softmax(dim=1), dim=1))

    def _members(self) -> list[Member]:
        return list(self.members)  # type: ignore[arg-type]

    def _raw(self, image: Masked, text: Masked) -> list[torch.Tensor]:
        """The towers' own directions of image and text [n, raw] each, zeros where a modality is absent."""
        raw, own, named = self.settings.raw, self.image_projection.width, self.settings.named
        image_block = _zero_absent(image[0][:, own : own + raw], image[1])
        text_block = _zero_absent(text[0][:, self.text_width : self.text_width + raw], text[1])
        if named:
            text_block = text_block + _zero_absent(image[0][:, own + raw :], image[1] & ~text[1])
        return [image_block, text_block]

    def _with_modality(self, blocks: torch.Tensor, modality: torch.Tensor) -> torch.Tensor:
        share = self.settings.modality
        return torch.cat([blocks * math.sqrt(1 - share), modality * math.sqrt(share)], dim=1)


def _masks(*parts: Masked) -> torch.Tensor:
    """Which modalities each row has, as numbers [n, modalities]."""
    return torch.stack([present for _, present in parts], dim=1).to(parts[0][0].dtype)


def _zero_absent(rows: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """The rows that are present, zeros for the others, even where those are NaN."""
    return torch.where(present[:, None], rows, torch.zeros((), dtype=rows.dtype))
