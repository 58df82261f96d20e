"""What answers on the collection as a whole are made of, for the OpenAPI description."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from genius.collection.duplicates import Level
from genius.collection.outliers import Oddity
from genius.collection.samples import SampleKind
from genius.serve.answer_schemas import ItemAnswer


class AlbumAnswer(BaseModel):
    """Items that belong together."""

    id: str = Field(description="The id of the item in its middle, by which the album is known.")
    label: str = Field(description="A name of a few words; empty if nothing names it.")
    size: int
    coherence: float = Field(description="The mean cosine of its items with their mean.")
    covers: list[ItemAnswer]
    ids: list[str] | None = Field(None, description="The ids of all its items; with `ids`.")
    albums: list[AlbumAnswer] = Field(description="Smaller albums that it falls into.")


class AlbumsAnswer(BaseModel):
    """Albums, the largest first."""

    albums: list[AlbumAnswer]
    notes: list[str]


class AlbumItemsAnswer(AlbumAnswer):
    """An album with some of its items, those in its middle first."""

    items: list[ItemAnswer]


class DuplicateGroupAnswer(BaseModel):
    """Items that are duplicates of each other."""

    level: Level
    similarity: float = Field(description="The least cosine of the links that hold the group together.")
    keep: str = Field(description="The id of the item worth keeping.")
    items: list[ItemAnswer]


class DuplicatesAnswer(BaseModel):
    """Groups of duplicates, the largest first."""

    level: Level
    similarity: float | None
    total: int = Field(description="The number of groups in all.")
    groups: list[DuplicateGroupAnswer]
    links: dict[str, Any] | None = Field(
        None, description="All links that were found, for a client that changes the threshold; with `links`."
    )


class OutlierAnswer(BaseModel):
    """An odd item, and why it is odd."""

    item: ItemAnswer
    reason: Oddity
    says: str = Field(description="The reason as a sentence.")
    score: float


class OutliersAnswer(BaseModel):
    """Odd items, the oddest first."""

    outliers: list[OutlierAnswer]
    notes: list[str]


class SampleAnswer(BaseModel):
    """Items that stand for all."""

    kind: SampleKind
    seed: int
    items: list[ItemAnswer]
