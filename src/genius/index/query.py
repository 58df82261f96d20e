"""From what a user says to queries that a model can embed, and what a model makes of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from genius.data.images import image_source
from genius.data.instructions import Instructions, generic
from genius.data.records import MODALITIES, ImageSource, Modality, Query
from genius.data.text import clean
from genius.decode.onnx_decoder import Precision
from genius.encode.direct import pixel_batches
from genius.errors import InputError
from genius.index import filters
from genius.index.filters import Condition
from genius.index.searcher import ANY, Asked
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs, concatenate
from genius.search.hits import MODES, Mode

if TYPE_CHECKING:
    from PIL import Image

LONG = "the text is longer than the encoder reads: what is behind was not looked at"


@dataclass(frozen=True)
class Asking:
    """How to search, and among what, as a user says it. Raises InputError for what makes no sense."""

    k: int
    beam: int
    rerank: bool | None
    mode: Mode
    decoder: str | None
    precision: Precision
    filter: Mapping[str, Any] | None = None
    exclude: Iterable[str] = ()
    condition: Condition | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        if self.k < 1:
            raise InputError(f"k must be at least 1, not {self.k}")
        if self.beam < 1:
            raise InputError(f"a search needs at least one beam, not {self.beam}")
        if self.mode not in MODES:
            raise InputError(f"unknown mode {self.mode!r}: expected one of {', '.join(MODES)}")
        condition = None if self.filter is None else filters.condition(self.filter)
        object.__setattr__(self, "condition", condition)
        exclude = [self.exclude] if isinstance(self.exclude, str) else self.exclude
        object.__setattr__(self, "exclude", tuple(exclude))

    @property
    def reranked(self) -> bool:
        """Whether the ranking by likeness is wanted: unless told otherwise, in all modes but `paper`."""
        return self.mode != "paper" if self.rerank is None else self.rerank

    def searched(self, decoder: str) -> Mode:
        """The mode of the engine. By a learned decoder, whole codes can only be compared when all levels are
        searched: so `auto` without re-ranking searches them all."""
        return "paper" if self.mode == "auto" and not self.reranked and decoder == "learned" else self.mode

    def by_codes(self, decoder: str) -> bool:
        """Whether the plain ranking is by the distance to codes: by geometry, unless it is to be as
        published."""
        return decoder != "learned" and self.mode != "paper"


def query_of(
    query: Query | str | None,
    text: str | None,
    image: Path | str | bytes | Image.Image | ImageSource | None,
    instruction: str | None,
) -> Query:
    """The query that these stand for. Raises InputError if there is none, or two."""
    if isinstance(query, str):
        if text is not None:
            raise InputError("a search takes one text, and there are two")
        query, text = None, query
    if query is None:
        _check(text, instruction, some_image=image is not None)
        source = None if image is None else image_source(image)
        return Query(text=text, image=source, instruction=instruction)
    if text is not None or image is not None:
        raise InputError("a Query holds its own text and image: give it alone")
    query = query if instruction is None else replace(query, instruction=instruction)
    _check(query.text, query.instruction, some_image=query.image is not None)
    return query


def several(queries: Iterable[Query | str]) -> Iterable[Query | str]:
    """The queries as they are. Raises InputError for one text, whose letters would be taken for queries."""
    if isinstance(queries, str):
        raise InputError("search_many takes several queries, and search takes one")
    return queries


def _check(text: str | None, instruction: str | None, *, some_image: bool) -> None:
    if not clean(text) and not some_image:
        raise InputError("an empty query: give a text, an image or both")
    for words in (text, instruction):
        try:
            (words or "").encode()
        except UnicodeEncodeError:
            raise InputError("a query's text holds half a character: give whole Unicode") from None


def instruct(query: Query, want: Modality | None, known: Mapping[str, int]) -> Query:
    """The query with its wanted modality and its instruction, as far as one can be told from the other.

    What is wanted is `want`, or what the query says, or what its instruction is `known` to ask for. A query
    that wants something and has no instruction gets a general one, as the model was trained with them; an
    empty instruction is none.
    """
    want = want or query.want
    if want is None and query.instruction:
        number = known.get(_said(query.instruction))
        want = None if number is None else MODALITIES[number]
    instruction = query.instruction
    if instruction is None and want is not None:
        instruction = generic(query.modality, want)
    return replace(query, want=want, instruction=instruction)


def wanted_by_instruction(known: Mapping[str, int]) -> dict[str, int]:
    """What instructions ask for, those of the house and those that the index knows from its sources."""
    own = {prompt: MODALITIES.index(want) for prompt, want in Instructions().wanted_by_prompt().items()}
    return {_said(prompt): want for prompt, want in {**own, **known}.items()}


def _said(instruction: str) -> str:
    return clean(instruction).casefold()


def asked(model: Model, queries: Sequence[Query]) -> Asked:
    """What a search needs of queries. Raises InputError for a picture that can't be read."""
    parts = _embedded(model, queries)
    wants = np.array([ANY if query.want is None else MODALITIES.index(query.want) for query in queries])
    return Asked(model.vectors(parts), parts.embeddings, wants, _first_codes(model, wants))


def _embedded(model: Model, queries: Sequence[Query]) -> FusionInputs:
    """Whole records have all their pictures loaded before they are embedded: so not too many at once."""
    if model.uses_features:
        return model.fusion_inputs(queries)
    batches = pixel_batches([query.image for query in queries])
    return concatenate([model.fusion_inputs(queries[batch]) for batch in batches])


def asked_by_item(model: Model, found: tuple[np.ndarray, np.ndarray], want: Modality | None) -> Asked:
    """What a search needs to find more like an item with this code [levels] and embedding [width]."""
    code, embeddings = found
    wants = np.array([ANY if want is None else MODALITIES.index(want)])
    vectors = model.quantizer.reconstruct(code[None]).astype(np.float32)
    return Asked(vectors, embeddings[None].astype(np.float32), wants, _first_codes(model, wants))


def _first_codes(model: Model, wants: np.ndarray) -> np.ndarray:
    first = np.full(len(wants), ANY, np.int64)
    for want in np.unique(wants[wants != ANY]):
        codes = model.wanted_codes(int(want), int((wants == want).sum()))
        if codes is not None:
            first[wants == want] = codes
    return first


def notes(model: Model, queries: Sequence[Query]) -> list[list[str]]:
    """What to know of each query."""
    texts, instructions = model.query_texts(queries)
    cut = np.array(model.encoder.too_long(texts)) | np.array(model.encoder.too_long(instructions))
    return [[LONG] if one else [] for one in cut]
