"""The heads: what turns the towers' features of an item or a query into one joined embedding.

A joined embedding has three blocks. *Content* is learned: an item's is the sum of its picture's and its
text's embeddings (score fusion), or what a small network makes of both (feature fusion); a query's is what a
small network makes of both and the instruction. *Raw* blocks are the towers' own directions, which learning
can't spoil: picture to picture and text to text stay as good as without training. *Modality* is what an item
is, and for a query what its instruction asks for.
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
from genius.encode.lite import Naming
from genius.encode.projection import Projection, kept_parts
from genius.errors import InputError

MODALITIES = len(records.MODALITIES)


@dataclass(frozen=True)
class HeadSettings:
    """How features become joined embeddings."""

    width: int = 512
    """Of the joined embedding, all blocks together."""
    raw: int = 64
    """Of each of the two raw blocks."""
    raw_item: float = 0.5
    """Strength of an item's raw blocks beside its content."""
    raw_query: float = 0.5
    """Strength of a query's raw blocks, before training if it is learned."""
    named: bool = False
    """Whether a picture without a text borrows the names of the classes that its tower sees in it (ConSE)."""
    learn_raw: bool = True
    """Whether the instruction decides how strong a query's raw blocks are."""
    modality: float = 0.5
    """Share of a joined embedding's square that its modality takes."""
    members: int = 1
    """Networks that are trained apart and used together, each with its share of the content."""
    hidden: int = 1024
    dropout: float = 0.2
    input_dropout: float = 0.1
    whitening: float = 0.25
    joining: Literal["score", "feature"] = "score"
    image_parts: tuple[str, ...] = ("features:768",)
    text_parts: tuple[str, ...] = ("features:768",)

    def __post_init__(self) -> None:
        if not 0 <= self.modality < 1:
            raise InputError(f"modality should be a share below 1, but is {self.modality}")
        if min(self.members, self.raw, self.hidden) < 1:
            raise InputError("members, hidden and raw should be at least 1")
        if self.content < self.members or self.content % self.members:
            raise InputError(
                f"width leaves {self.content} numbers for content, which {self.members} members can't share"
            )

    @property
    def content(self) -> int:
        """Width of the learned block."""
        return self.width - MODALITIES - 2 * self.raw


def _perceptron(inputs: int, hidden: int, dropout: float) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, hidden), nn.LayerNorm(hidden), nn.GELU(), nn.Dropout(dropout))


class Head(nn.Module):
    """One tower's features into the learned space: a straight branch and a bent one beside it."""

    def __init__(self, inputs: int, hidden: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.straight = nn.Linear(inputs, outputs, bias=False)
        self.bend = _perceptron(inputs, hidden, dropout)
        self.out = nn.Linear(hidden, outputs)
        nn.init.normal_(self.straight.weight, std=1 / math.sqrt(inputs))
        nn.init.normal_(self.out.weight, std=0.3 / math.sqrt(hidden))

    def forward(self, features: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """The embedding, and the hidden layer that joiners look at."""
        hidden = self.bend(features)
        return self.straight(features) + self.out(hidden), hidden


class Joiner(nn.Module):
    """Looks at both parts (and at an instruction) and says how to weigh them and what to add."""

    def __init__(self, inputs: int, hidden: int, outputs: int, dropout: float) -> None:
        super().__init__()
        self.look = _perceptron(inputs, hidden, dropout)
        self.say = nn.Linear(hidden, 3 * outputs)
        nn.init.normal_(self.say.weight, std=0.3 / math.sqrt(hidden))
        nn.init.zeros_(self.say.bias)

    def forward(self, image: torch.Tensor, text: torch.Tensor, *seen: torch.Tensor) -> torch.Tensor:
        """The joined content, not yet of unit length."""
        image_gain, text_gain, more = self.say(self.look(torch.cat(seen, dim=1))).chunk(3, dim=1)
        embeddings: torch.Tensor = image * (1 + image_gain) + text * (1 + text_gain) + more
        return embeddings


Part = tuple[torch.Tensor, torch.Tensor]
"""Projected features of one modality [n, …], and which rows have it [n]. Behind the projected parts stands
the raw block, and for pictures behind that one the raw block of the text that names them."""


class Member(nn.Module):
    """One of several networks that learn the same task apart and are used together."""

    def __init__(self, settings: HeadSettings, image_width: int, text_width: int) -> None:
        super().__init__()
        hidden, dropout = settings.hidden, settings.dropout
        self.outputs, self.hidden = settings.content // settings.members, hidden
        self.image_width, self.text_width = image_width, text_width
        self.image_head = Head(image_width, hidden, self.outputs, dropout)
        self.text_head = Head(text_width, hidden, self.outputs, dropout)
        self.input_dropout = nn.Dropout(settings.input_dropout)
        self.query_joiner = Joiner(2 * hidden + text_width + 3, hidden, self.outputs, dropout)
        self.item_joiner: Joiner | None = None
        if settings.joining == "feature":
            self.item_joiner = Joiner(2 * hidden + 2, hidden, self.outputs, dropout)

    def items(self, image: Part, text: Part) -> torch.Tensor:
        """Contents of items, of unit length."""
        image_part, image_seen = self._embedded(self.image_head, self.image_width, image)
        text_part, text_seen = self._embedded(self.text_head, self.text_width, text)
        if self.item_joiner is None:
            return functional.normalize(image_part + text_part, dim=1)
        embeddings = self.item_joiner(image_part, text_part, image_seen, text_seen, _masks(image, text))
        return functional.normalize(embeddings, dim=1)

    def queries(self, image: Part, text: Part, asked: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        """Contents of queries, of unit length."""
        image_part, image_seen = self._embedded(self.image_head, self.image_width, image)
        text_part, text_seen = self._embedded(self.text_head, self.text_width, text)
        embeddings = self.query_joiner(image_part, text_part, image_seen, text_seen, asked, masks)
        return functional.normalize(embeddings, dim=1)

    def _embedded(self, head: Head, width: int, part: Part) -> tuple[torch.Tensor, torch.Tensor]:
        """A tower's embedding and hidden layer, zeros where the modality is absent."""
        features, present = part
        if self.training and not present.any():  # saves half of the work: a batch is of one task
            rows = len(features)
            return features.new_zeros(rows, self.outputs), features.new_zeros(rows, self.hidden)
        embedding, seen = head(self.input_dropout(_masked(features[:, :width], present)))
        return _masked(embedding, present), _masked(seen, present)


@dataclass(frozen=True)
class Blocks:
    """Contents by member [n, members, width] of unit length each, and raw blocks [n, 2 · raw]."""

    contents: torch.Tensor
    raw: torch.Tensor

    def of(self, member: int) -> torch.Tensor:
        """What one member alone would make of it, of unit length."""
        return functional.normalize(torch.cat([self.contents[:, member], self.raw], dim=1), dim=1)

    def together(self) -> torch.Tensor:
        """What all members make of it, of unit length: the mean of their similarities."""
        together = self.contents.flatten(1) / math.sqrt(self.contents.shape[1])
        return functional.normalize(torch.cat([together, self.raw], dim=1), dim=1)


class Heads(nn.Module):
    """Projections, members, and what is common to them, for one encoder."""

    def __init__(
        self, settings: HeadSettings, image_parts: Mapping[str, int], text_parts: Mapping[str, int]
    ) -> None:
        super().__init__()
        self.settings = settings
        self.image_projection = Projection(image_parts, kept_parts(settings.image_parts), settings.raw)
        self.text_projection = Projection(text_parts, kept_parts(settings.text_parts), settings.raw)
        self.asked_width = self.text_projection.width
        self.members = nn.ModuleList(
            Member(settings, self.image_projection.width, self.asked_width) for _ in range(settings.members)
        )
        if settings.named:
            self.naming = Naming(image_parts, settings.raw)
        self.raw_weights = nn.Linear(self.asked_width + 3, 2)
        nn.init.zeros_(self.raw_weights.weight)
        nn.init.constant_(self.raw_weights.bias, math.log(math.expm1(settings.raw_query)))
        self.raw_weights.requires_grad_(settings.learn_raw)
        self.wants = nn.Linear(self.asked_width, MODALITIES)

    def project_images(self, features: torch.Tensor) -> torch.Tensor:
        """A picture's features as the heads take them."""
        projected: torch.Tensor = self.image_projection(features)
        return torch.cat([projected, self.naming(features)], dim=1) if self.settings.named else projected

    def items(self, image: Part, text: Part) -> Blocks:
        """Items' contents and raw blocks."""
        contents = torch.stack([member.items(image, text) for member in self._members()], dim=1)
        return Blocks(contents, torch.cat(self._raw(image, text), dim=1) * self.settings.raw_item)

    def queries(self, image: Part, text: Part, instruction: Part) -> tuple[Blocks, torch.Tensor]:
        """Queries' contents and raw blocks, and what they want: logits [n, 3], zeros without instruction."""
        asked = _masked(instruction[0][:, : self.asked_width], instruction[1])
        masks = _masks(image, text, instruction)
        contents = torch.stack([m.queries(image, text, asked, masks) for m in self._members()], dim=1)
        weights = functional.softplus(self.raw_weights(torch.cat([asked, masks], dim=1)))
        raw = [rows * weights[:, n : n + 1] for n, rows in enumerate(self._raw(image, text))]
        return Blocks(contents, torch.cat(raw, dim=1)), _masked(self.wants(asked), instruction[1])

    def joined_items(self, blocks: Blocks, modality: torch.Tensor) -> torch.Tensor:
        """Joined embeddings of items: their blocks, and the modality [n] that they have."""
        one_hot = functional.one_hot(modality.long(), MODALITIES).to(blocks.raw.dtype)
        return self._with_modality(blocks.together(), one_hot)

    def joined_queries(self, blocks: Blocks, wants: torch.Tensor) -> torch.Tensor:
        """Joined embeddings of queries: their blocks, and how likely each modality is wanted."""
        return self._with_modality(blocks.together(), functional.normalize(wants.softmax(dim=1), dim=1))

    def _members(self) -> list[Member]:
        return list(self.members)  # type: ignore[arg-type]

    def _raw(self, image: Part, text: Part) -> list[torch.Tensor]:
        """The towers' own directions of picture and text, zeros where a modality is absent."""
        raw, own, named = self.settings.raw, self.image_projection.width, self.settings.named
        image_block = _masked(image[0][:, own : own + raw], image[1])
        text_block = _masked(text[0][:, self.asked_width : self.asked_width + raw], text[1])
        if named:
            text_block = text_block + _masked(image[0][:, own + raw :], image[1] & ~text[1])
        return [image_block, text_block]

    def _with_modality(self, blocks: torch.Tensor, modality: torch.Tensor) -> torch.Tensor:
        share = self.settings.modality
        return torch.cat([blocks * math.sqrt(1 - share), modality * math.sqrt(share)], dim=1)


def _masks(*parts: Part) -> torch.Tensor:
    """Which modalities each row has, as numbers."""
    return torch.stack([present for _, present in parts], dim=1).to(parts[0][0].dtype)


def _masked(rows: torch.Tensor, present: torch.Tensor) -> torch.Tensor:
    """The rows that are present, zeros for the others, whatever stands in their place."""
    return torch.where(present[:, None], rows, torch.zeros((), dtype=rows.dtype))
