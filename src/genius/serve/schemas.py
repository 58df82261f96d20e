"""What requests and answers are made of; the service's description is made from these."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from genius.decode.onnx_decoder import Precision
from genius.index.decoders import DecoderName
from genius.search.beam import BEAMS
from genius.search.hits import Mode
from genius.serve.config import (
    DEEPEST_FILTER,
    LONGEST_ID,
    LONGEST_TEXT,
    MOST_BEAMS,
    MOST_EXCLUDED,
    MOST_HITS,
    MOST_ITEMS,
)

Id = Annotated[str, Field(min_length=1, max_length=LONGEST_ID, pattern=r"^[^\x00]+$")]
Text = Annotated[str, Field(max_length=LONGEST_TEXT)]
ModalityName = Literal["image", "text", "pair"]
Metadata = dict[str, str | int | float | bool | None]


def decoded(text: str) -> bytes:
    """Bytes from base64, also as a data address. Raises ValueError."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("an image is sent as base64, and this is not") from None


def _is_base64(value: str | None) -> str | None:
    if value:
        decoded(value)
    return value or None


Picture = Annotated[str | None, AfterValidator(_is_base64)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SearchRequest(_Request):
    """What is looked for: a text, a picture, both, or things like an item that is there."""

    text: Text | None = Field(None, description="What is looked for, in words.")
    image: str | None = Field(
        None, description="A picture, as base64 (in a form: the file itself). Addresses are not fetched."
    )
    instruction: Text | None = Field(None, description="What to find, as a sentence.")
    want: ModalityName | None = Field(None, description="Only this modality.")
    k: int = Field(10, ge=1, le=MOST_HITS, description="How many items.")
    beam: int = Field(BEAMS, ge=1, le=MOST_BEAMS, description="How many codes are followed at a time.")
    mode: Mode = Field("auto", description="How far codes are searched.")
    rerank: bool | None = Field(None, description="Order by embeddings and codes, or by codes alone.")
    decoder: DecoderName | None = Field(None, description="What scores codes.")
    precision: Precision = Field("fp32", description="In which a learned decoder computes.")
    filter: dict[str, Any] | None = Field(
        None, description='Only items with such metadata: {"brand": "acme", "price": {"$lt": 50}}.'
    )
    exclude: list[Id] = Field([], max_length=MOST_EXCLUDED, description="Not the items with these ids.")
    explain: bool = Field(False, description="With the path to each hit, which takes longer than to find it.")
    near: Id | None = Field(None, description="Things like the item with this id; alone, without a query.")

    @field_validator("filter")
    @classmethod
    def _shallow(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and _depth(value) > DEEPEST_FILTER:
            raise ValueError(f"a filter may be {DEEPEST_FILTER} levels deep")
        return value

    @model_validator(mode="after")
    def _asks_something(self) -> SearchRequest:
        asked = (self.text or "").strip() or self.image
        if self.near is None and not asked:
            raise ValueError("an empty query: give a text, an image or both, or near")
        if self.near is not None and (asked or self.instruction):
            raise ValueError("near is a query of its own: give it without text, image and instruction")
        return self

    def picture(self) -> bytes | None:
        """The picture's bytes."""
        return None if not self.image else decoded(self.image)


class NewItem(_Request):
    """An item to add."""

    id: Id
    text: Text | None = None
    image: Picture = Field(None, description="A picture, as base64.")
    metadata: Metadata = {}

    @model_validator(mode="after")
    def _is_something(self) -> NewItem:
        if not (self.text or self.image):
            raise ValueError("an item has a text, an image or both")
        return self


class AddRequest(_Request):
    """Items to add; one whose id is there takes its place."""

    items: list[NewItem] = Field(min_length=1, max_length=MOST_ITEMS)
    strict: bool = Field(False, description="Stop at the first item that can't be read.")


class CompactRequest(_Request):
    """Nothing: `{}`."""


class ChangeRequest(_Request):
    """What changes in an item: the fields that are there; null takes something away."""

    text: Text | None = None
    image: Picture = Field(None, description="A picture, as base64.")
    metadata: Metadata | None = Field(None, description="The keys that are there change; null removes all.")


class ItemAnswer(BaseModel):
    """An item; its picture is at /items/{id}/image."""

    id: str
    modality: ModalityName
    text: str | None
    has_image: bool
    metadata: Metadata


class FullItemAnswer(ItemAnswer):
    """An item with its code."""

    code: list[int]


class PageAnswer(BaseModel):
    """Some items, in the order in which they were added."""

    items: list[ItemAnswer]
    next: int | None = Field(
        description="What to give as `after` for those that follow; null: these are all."
    )


class HitAnswer(BaseModel):
    """An item that was found, with the path of codes that led to it."""

    rank: int
    score: float
    cosine: float
    item: ItemAnswer
    code: list[int]
    log_probabilities: list[float] | None = Field(
        None, description="Of each level's code, given those before; if explained."
    )
    below: list[int] | None = Field(
        None, description="How many items share the code's beginning, up to each level; if explained."
    )


class SearchAnswer(BaseModel):
    """What was found, best first."""

    hits: list[HitAnswer]
    notes: list[str] = Field(description="What one should know of this search.")
    mode: str = Field(description="In which mode was searched, as auto chose it.")
    decoder: str = Field(description="What scored the codes.")
    under: int = Field(description="How many items were under the beams.")
    model: str = Field(description="The fingerprint of the model that searched.")


class Failure(BaseModel):
    """Why an item was left out."""

    id: str
    message: str


class AddAnswer(BaseModel):
    """What became of the items."""

    added: int
    replaced: int
    known: int
    failed: int
    failures: list[Failure]


class CompactAnswer(BaseModel):
    """How many segments there were and are, and how many rows of removed items have gone."""

    before: int
    after: int
    dropped: int


class RemoveAnswer(BaseModel):
    """How many items were removed."""

    removed: int


class ChildAnswer(BaseModel):
    """A cell below another."""

    code: int
    prefix: str
    count: int
    label: str = Field(description="Words that are frequent in the texts here, and rare elsewhere.")
    items: list[ItemAnswer]


class CellAnswer(BaseModel):
    """What lies under a code."""

    prefix: str
    depth: int
    levels: int
    count: int
    label: str
    items: list[ItemAnswer]
    children: list[ChildAnswer]
    children_total: int


class AboutAnswer(BaseModel):
    """What is served."""

    items: int
    modalities: dict[str, int]
    version: int
    model: str
    levels: list[int] = Field(description="How many codes each level has.")
    modality_first: bool = Field(description="Whether the first code tells the modality.")
    read_only: bool
    made_by: str


class HealthAnswer(BaseModel):
    """Whether the service works."""

    status: Literal["ok"]


class ErrorDetail(BaseModel):
    """What is wrong."""

    kind: str
    message: str


class ErrorAnswer(BaseModel):
    """Why a request was refused."""

    error: ErrorDetail


def _depth(value: Any) -> int:
    """How deep lists and objects are nested; found without recursion, as it may be too deep for that."""
    deepest, todo = 0, [(value, 1)]
    while todo:
        one, depth = todo.pop()
        deepest = max(deepest, depth)
        below = one.values() if isinstance(one, dict) else one if isinstance(one, list) else ()
        todo += [(inner, depth + 1) for inner in below]
    return deepest
