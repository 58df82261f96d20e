"""The JSON of answers, as pydantic models; the OpenAPI description is generated from them."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from genius.index.facets import FacetKind
from genius.serve.schemas import Metadata, ModalityName


class ItemAnswer(BaseModel):
    """An item; its image is at /items/{id}/image."""

    id: str
    modality: ModalityName
    text: str | None
    has_image: bool
    metadata: Metadata


class FullItemAnswer(ItemAnswer):
    """An item with its code."""

    code: list[int]
    path: str | None = Field(
        None,
        description="Where its image is on the service's machine, if the service was started with --paths.",
    )


class PageAnswer(BaseModel):
    """Some items, in the order in which they were added."""

    items: list[ItemAnswer]
    next: int | None = Field(description="The `after` of the next page; null if this is the last.")


class HitAnswer(BaseModel):
    """An item that was found, with its code; without a query it has no score."""

    rank: int
    score: float | None
    cosine: float | None
    confidence: float | None = Field(
        description="1 - the probability that the best hit of a query without an answer scores so high."
    )
    item: ItemAnswer
    code: list[int]
    log_probabilities: list[float] | None = Field(
        None, description="The log-probability of each level's code given those before; with `explain`."
    )
    prefix_counts: list[int] | None = Field(
        None, description="The number of items that share the code up to each level; with `explain`."
    )


class SearchAnswer(BaseModel):
    """The hits of a search, best first."""

    hits: list[HitAnswer]
    notes: list[str] = Field(description="Remarks on this search, as sentences.")
    mode: str = Field(description="The mode of the search, as `auto` chose it.")
    decoder: str = Field(description="The decoder that scored the codes.")
    num_candidates: int = Field(description="The number of items under the beams.")
    total: int | None = Field(description="Without a query, the number of items on all pages.")
    nearest: HitAnswer | None = Field(description="The best hit, if none is as sure as `at_least` asks for.")
    partial: bool = Field(description="Whether a part of the index did not answer.")
    missing_shards: list[str] = Field(description="The names of the shards that did not answer.")
    model: str = Field(description="The fingerprint of the model.")


class Failure(BaseModel):
    """Why an item was not added."""

    id: str
    message: str


class AddAnswer(BaseModel):
    """How many items were added anew, replaced, known with the same content, or failed."""

    added: int
    replaced: int
    known: int
    failed: int
    failures: list[Failure]


class CompactAnswer(BaseModel):
    """The number of segments before and after, and of removed items that were purged."""

    before: int
    after: int
    dropped: int


class RemoveAnswer(BaseModel):
    """The number of items removed."""

    removed: int


class ChildAnswer(BaseModel):
    """A child of a cell."""

    code: int
    prefix: str
    count: int
    label: str = Field(description="Words that are frequent in the texts here, and rare elsewhere.")
    items: list[ItemAnswer]


class CellAnswer(BaseModel):
    """The items under a prefix of codes."""

    prefix: str
    depth: int
    levels: int
    count: int
    label: str
    items: list[ItemAnswer]
    children: list[ChildAnswer]
    children_total: int


class FacetValue(BaseModel):
    """A value of metadata, and how many items have it."""

    value: str | int | float | bool
    count: int


class FacetAnswer(BaseModel):
    """A key of metadata, and what values it has."""

    key: str = Field(description="As filters name it.")
    kind: FacetKind = Field(description="`number` or `date` if all values are, else `value`.")
    count: int = Field(description="The number of items that have it.")
    minimum: float | str | None = Field(description="The least number or the first date.")
    maximum: float | str | None = Field(description="The largest number or the last date.")
    values: list[FacetValue] = Field(description="The most frequent values; numbers and dates list none.")


class FacetsAnswer(BaseModel):
    """What items can be filtered by; the keys of most items come first."""

    facets: list[FacetAnswer]


class AboutAnswer(BaseModel):
    """The index that is served."""

    items: int
    modalities: dict[str, int]
    version: int
    model: str
    levels: list[int] = Field(description="The number of codes of each level.")
    modality_first: bool = Field(description="Whether the first code is the modality.")
    read_only: bool
    paths: bool = Field(description="Whether the service says where images are on its machine.")
    made_by: str


class HealthAnswer(BaseModel):
    """Whether the service works."""

    status: Literal["ok"]


class ErrorDetail(BaseModel):
    """An error: one word for programs, one sentence for people."""

    kind: str
    message: str


class ErrorAnswer(BaseModel):
    """The answer to a request that was refused."""

    error: ErrorDetail
