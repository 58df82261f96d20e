"""The JSON of requests, as pydantic models; the OpenAPI description is generated from them."""

from __future__ import annotations

import base64
import binascii
import dataclasses
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from genius.data.records import MAX_PARTS, MAX_WEIGHT, ImageBytes, QueryPart, Vectors
from genius.decode.onnx_decoder import Precision
from genius.index.decoders import DecoderName
from genius.index.filters import MAX_DEPTH, MAX_KEY_LENGTH
from genius.index.query import (
    MAX_EXCLUDED,
    MAX_ID_LENGTH,
    MAX_K,
    MAX_OFFSET,
    MAX_TEXT_LENGTH,
    BrowseKeywords,
    MissingShard,
    SearchOptions,
)
from genius.search.beam import BEAMS
from genius.search.engine import MAX_BEAMS, Mode
from genius.serve.config import MAX_ITEMS

Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH, pattern=r"^[^\x00]+$")]
Text = Annotated[str, Field(max_length=MAX_TEXT_LENGTH)]
Key = Annotated[str, Field(min_length=1, max_length=1 + MAX_KEY_LENGTH)]
ModalityName = Literal["image", "text", "pair"]
Metadata = dict[str, str | int | float | bool | None]
Vector = Annotated[list[float], Field(min_length=1, max_length=65536)]
PartVectors = Annotated[dict[Literal["image", "text"], Vector], Field(min_length=1)]


def decode_base64(text: str) -> bytes:
    """The bytes of a base64 text, which may be a `data:` URL. Raises ValueError."""
    if text.startswith("data:"):
        text = text.partition(",")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("an image is sent as base64, and this is not") from None


def _check_base64(text: str | None) -> str | None:
    if text:
        decode_base64(text)
    return text or None


MAX_FILTER_DEPTH = 2 * MAX_DEPTH  # of JSON: each level of a filter is a mapping in a list

ImageText = Annotated[str | None, AfterValidator(_check_base64)]


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


class PartRequest(_Request):
    """A part of a query, that is added or taken away."""

    text: Text | None = Field(None, description="In words.")
    image: ImageText = Field(None, description="An image, as base64.")
    weight: float = Field(1.0, gt=0, le=MAX_WEIGHT, description="How much it counts.")

    @model_validator(mode="after")
    def _check_content(self) -> PartRequest:
        if not ((self.text or "").strip() or self.image):
            raise ValueError("a part of a query is a text, an image or both")
        return self

    def part(self, sign: int) -> QueryPart:
        """The part that it stands for."""
        image = ImageBytes(decode_base64(self.image), "that was sent") if self.image else None
        return QueryPart(self.text, image, sign * self.weight)


class SearchRequest(_Request):
    """A search by a text, an image or both, by a vector, or for items like a given one; without any of these,
    items are browsed."""

    text: Text | None = Field(None, description="What to search for, in words.")
    image: str | None = Field(
        None,
        description="An image to search by, as base64 (in a form: the file itself). URLs are not fetched.",
    )
    weight: float = Field(
        1.0, gt=0, le=MAX_WEIGHT, description="How much text and image count beside `plus` and `minus`."
    )
    plus: list[PartRequest] = Field(
        [],
        max_length=MAX_PARTS,
        description="What is added to the query. (In a form: texts, or JSON; images as files `plus_image`.)",
    )
    minus: list[PartRequest] = Field(
        [], max_length=MAX_PARTS, description="What is taken away from it, likewise (`minus_image`)."
    )
    instruction: Text | None = Field(None, description="What to find, as a sentence.")
    vector: Vector | PartVectors | None = Field(
        None, description="An embedding of one's own to search by, instead of text and image."
    )
    want: ModalityName | list[ModalityName] | None = Field(
        None, description="Find items that have this: image finds images with and without a text."
    )
    only: ModalityName | list[ModalityName] | None = Field(
        None, description="Find items that are exactly this: image finds images without a text."
    )
    k: int = Field(10, ge=1, le=MAX_K, description="The number of hits.")
    offset: int = Field(0, ge=0, le=MAX_OFFSET, description="The number of hits to leave out before them.")
    sort: Key | list[Key] | None = Field(
        None,
        description="Metadata keys to order these hits by; -price is the largest first. Items without the "
        "key come last.",
    )
    beam: int = Field(BEAMS, ge=1, le=MAX_BEAMS, description="The number of prefixes kept at each level.")
    mode: Mode = Field("auto", description="How far codes are searched.")
    rerank: bool | None = Field(None, description="Rank by embeddings and codes, or by codes alone.")
    decoder: DecoderName | None = Field(None, description="The decoder that scores codes.")
    precision: Precision = Field("fp32", description="The precision of a learned decoder.")
    filter: dict[str, Any] | None = Field(
        None, description='Find only items with such metadata: {"brand": "acme", "price": {"$lt": 50}}.'
    )
    exclude: list[Id] = Field([], max_length=MAX_EXCLUDED, description="The ids of items not to find.")
    at_least: float | Literal["likely", "sure"] | None = Field(
        None,
        description="Find only hits of this confidence: likely (0.8), sure (0.95) or a number from 0 to 1; "
        "if there is none, `nearest` is what came nearest.",
    )
    on_missing_shard: MissingShard | None = Field(
        None,
        description="If shards on other machines don't answer: partial finds what the others have, error is "
        "a 503. By default what the service was started with.",
    )
    explain: bool = Field(
        False, description="Include the path of codes to each hit, which takes longer than finding them."
    )
    near: Id | None = Field(
        None, description="Find items like the one with this id; excludes any other query."
    )

    @field_validator("filter")
    @classmethod
    def _check_depth(cls, filter: dict[str, Any] | None) -> dict[str, Any] | None:
        if filter is not None and _depth(filter) > MAX_FILTER_DEPTH:
            raise ValueError(f"a filter may be {MAX_FILTER_DEPTH} levels deep")
        return filter

    @model_validator(mode="after")
    def _check_query(self) -> SearchRequest:
        query = (self.text or "").strip() or self.image or self.plus
        if self.minus and not (query or self.vector is not None or self.near is not None):
            raise ValueError("minus takes something away from a query: say what to search for, too")
        if (query or self.minus) and self.vector is not None:
            raise ValueError("a query is a vector, or a text and an image: give one of them")
        if self.near is not None and (query or self.minus or self.vector is not None or self.instruction):
            raise ValueError("near is a query of its own: give it without text, image, vector, instruction")
        if len(self.plus) + len(self.minus) > MAX_PARTS:
            raise ValueError(f"up to {MAX_PARTS} parts can be combined")
        if self.browses:
            if self.instruction or (self.filter is None and not (self.sort or self.want or self.only)):
                raise ValueError(
                    "an empty query: give a text, an image or both, a vector, or near; or filter, sort, want "
                    "or only to browse"
                )
            if self.at_least is not None:
                raise ValueError("at_least needs a query: without one nothing is more or less sure")
            if self.explain:
                raise ValueError("explain needs a query: without one there is nothing to explain")
        return self

    @property
    def browses(self) -> bool:
        """Whether there is no query."""
        text = (self.text or "").strip()
        return not (text or self.image or self.plus) and self.vector is None and self.near is None

    def parts(self) -> list[QueryPart]:
        """What is added to the query and taken away from it."""
        return [*(part.part(1) for part in self.plus), *(part.part(-1) for part in self.minus)]

    def image_bytes(self) -> bytes | None:
        """The image's bytes. Raises ValueError."""
        return decode_base64(self.image) if self.image else None

    def options(self) -> dict[str, Any]:
        """The options of the search, by the names that `Index.search` has for them."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(SearchOptions)}

    def browse_options(self) -> dict[str, Any]:
        """Those that `Index.browse` has."""
        return {name: getattr(self, name) for name in BrowseKeywords.__annotations__}


class NewItem(_Request):
    """An item to add."""

    id: Id
    text: Text | None = None
    image: ImageText = Field(None, description="An image, as base64.")
    metadata: Metadata = {}
    vector: Vector | PartVectors | None = Field(
        None, description="An embedding of one's own, for a model that was fitted on such."
    )

    @model_validator(mode="after")
    def _check_content(self) -> NewItem:
        if not (self.text or self.image or self.vector is not None):
            raise ValueError("an item has a text, an image or both, or a vector")
        return self


def vectors_of(sent: Vector | PartVectors | None) -> Vectors | None:
    """The vectors that were sent. Raises InputError for what is none."""
    return None if sent is None else Vectors.of(sent)


class AddRequest(_Request):
    """Items to add; one whose id exists replaces the item that has it."""

    items: list[NewItem] = Field(min_length=1, max_length=MAX_ITEMS)
    strict: bool = Field(False, description="Stop at the first item that can't be read.")


class CompactRequest(_Request):
    """An empty object: `{}`."""


class ChangeRequest(_Request):
    """Changes to an item: the given fields change, and null removes one."""

    text: Text | None = None
    image: ImageText = Field(None, description="An image, as base64.")
    metadata: Metadata | None = Field(None, description="The given keys change; null removes all.")


def _depth(value: Any) -> int:
    """How deep lists and objects are nested; without recursion, as it may be too deep for that."""
    deepest, todo = 0, [(value, 1)]
    while todo:
        outer, depth = todo.pop()
        deepest = max(deepest, depth)
        values = outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ()
        todo += [(inner, depth + 1) for inner in values]
    return deepest
