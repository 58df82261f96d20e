"""Queries as users give them: search options with their limits, and what a model makes of a query.

`SearchOptions` is the one set of options and limits of a search, in Python, over HTTP and on the command
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

import numpy as np

from genius.data.images import image_source
from genius.data.instructions import Instructions, generic
from genius.data.records import MODALITIES, ImageSource, Modality, Query, Vectors
from genius.data.text import clean
from genius.decode.onnx_decoder import Precision
from genius.encode.direct import pixel_batches
from genius.errors import InputError
from genius.index import filters
from genius.index.decoders import DECODERS, PRECISIONS, DecoderName
from genius.index.filters import Condition
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs, concatenate
from genius.search.beam import BEAMS
from genius.search.engine import MAX_BEAMS, MODES, Mode

if TYPE_CHECKING:
    from PIL import Image

ANY = -1
"""Stands for every modality, and for every modality code."""

MAX_K = 10_000
MAX_EXCLUDED = 10_000
MAX_TEXT_LENGTH = 20_000
MAX_ID_LENGTH = 1_000

TEXT_WAS_CUT = "the text is longer than the encoder reads: the rest was ignored"


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions` as keywords of `Index.search` and `Client.search`."""

    want: Modality | str | None
    k: int
    beam: int
    rerank: bool | None
    mode: Mode
    decoder: DecoderName | str | None
    precision: Precision
    filter: Mapping[str, Any] | None
    exclude: Iterable[str]


@dataclass(frozen=True)
class SearchOptions:
    """How to search, and among what. Raises InputError for values that make no sense or are beyond the
    limits.

    Attributes:
        want: the modality of the items to find; without it, a known instruction decides, or any modality is
            found.
        k: how many items.
        beam: how many prefixes of codes are kept at each level.
        rerank: whether candidates are ranked by embeddings and codes together, or by codes alone; by default
            they are re-ranked in every mode but `paper`.
        mode: how deep codes are searched; see `genius.search.engine`.
        decoder: what scores codes, `geometry` or `learned`; by default geometry, and in the mode `paper` the
            learned one if the model has it.
        precision: of the learned decoder.
        filter: only items whose metadata fulfil it; see `genius.index.filters`.
        exclude: ids of items that are not returned.
    """

    want: Modality | None = None
    k: int = 10
    beam: int = BEAMS
    rerank: bool | None = None
    mode: Mode = "auto"
    decoder: DecoderName | None = None
    precision: Precision = "fp32"
    filter: Mapping[str, Any] | None = None
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_range("k", self.k, MAX_K)
        _check_range("beam", self.beam, MAX_BEAMS)
        _check_choice("mode", self.mode, MODES)
        _check_choice("precision", self.precision, PRECISIONS)
        if self.decoder is not None:
            _check_choice("decoder", self.decoder, DECODERS)
        if len(self.exclude) > MAX_EXCLUDED:
            raise InputError(
                f"{len(self.exclude):,} ids are excluded, and up to {MAX_EXCLUDED:,} can be: use a filter"
            )
        self.condition  # noqa: B018 - a filter that is none is refused here

    @classmethod
    def of(
        cls,
        *,
        want: Modality | str | None = None,
        exclude: Iterable[str] = (),
        **options: Any,
    ) -> SearchOptions:
        """From keywords: the modality may be a name, and one id may be excluded without a list."""
        wanted = None if want is None else Modality.parse(want)
        excluded = (exclude,) if isinstance(exclude, str) else tuple(exclude)
        return cls(want=wanted, exclude=excluded, **options)

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON has them."""
        return {
            "want": None if self.want is None else self.want.value,
            "k": self.k,
            "beam": self.beam,
            "rerank": self.rerank,
            "mode": self.mode,
            "decoder": self.decoder,
            "precision": self.precision,
            "filter": None if self.filter is None else dict(self.filter),
            "exclude": list(self.exclude),
        }

    @cached_property
    def condition(self) -> Condition | None:
        """The filter as SQL."""
        return None if self.filter is None else filters.condition(self.filter)

    @property
    def reranks(self) -> bool:
        """Whether the re-ranked order is wanted."""
        return self.mode != "paper" if self.rerank is None else self.rerank

    def engine_mode(self, decoder: str) -> Mode:
        """The mode of the engine. With a learned decoder, whole codes can only be compared when all levels
        are searched: so `auto` without re-ranking searches them all."""
        return "paper" if self.mode == "auto" and not self.reranks and decoder == "learned" else self.mode

    def ranks_by_codes(self, decoder: str) -> bool:
        """Whether the plain order is by code score: with geometry, but not in the mode `paper`."""
        return decoder != "learned" and self.mode != "paper"


def _check_range(name: str, value: int, largest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= largest:
        raise InputError(f"{name} must be a number from 1 to {largest:,}, not {value!r}")


def _check_choice(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"unknown {name} {value!r}: expected one of {', '.join(known)}")


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """What a search needs of several queries.

    Attributes:
        vectors: what is decoded, [queries, width].
        embeddings: what items' embeddings are compared with, [queries, width].
        want: the number of the wanted modality, or ANY [queries].
        modality_code: the first code of items of that modality, or ANY [queries].
    """

    vectors: np.ndarray
    embeddings: np.ndarray
    want: np.ndarray
    modality_code: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, places: np.ndarray | slice) -> QueryBatch:
        return QueryBatch(
            self.vectors[places], self.embeddings[places], self.want[places], self.modality_code[places]
        )


def make_query(
    query: Query | str | None,
    text: str | None,
    image: Path | str | bytes | Image.Image | ImageSource | None,
    instruction: str | None,
    vector: Vectors | np.ndarray | Sequence[float] | None = None,
) -> Query:
    """The query that these stand for. Raises InputError if there is none, or two."""
    if isinstance(query, str):
        if text is not None:
            raise InputError("a search takes one text, and there are two")
        query, text = None, query
    if query is None:
        source = None if image is None else image_source(image)
        query = Query(text=text, image=source, instruction=instruction, vector=vector)
    elif text is not None or image is not None or vector is not None:
        raise InputError("a Query holds its own text, image or vector: give it alone")
    elif instruction is not None:
        query = replace(query, instruction=instruction)
    _check(query)
    return query


def _check(query: Query) -> None:
    if not clean(query.text) and query.image is None and query.vectors is None:
        raise InputError("an empty query: give a text, an image or both")
    for words in (query.text or "", query.instruction or ""):
        if len(words) > MAX_TEXT_LENGTH:
            raise InputError(
                f"a query's text has {len(words):,} characters, and up to {MAX_TEXT_LENGTH:,} are read"
            )
        try:
            words.encode()
        except UnicodeEncodeError:
            raise InputError("a query's text holds half a character: give whole Unicode") from None


def check_several(queries: Iterable[Query | str]) -> Iterable[Query | str]:
    """The queries as they are. Raises InputError for one text, whose letters would be taken for queries."""
    if isinstance(queries, str):
        raise InputError("search_many takes several queries, and search takes one")
    return queries


def with_instruction(query: Query, want: Modality | None, modality_of: Mapping[str, int]) -> Query:
    """The query with its wanted modality and its instruction, as far as one follows from the other.

    The wanted modality is `want`, or the query's own, or the one that its instruction is known to ask for
    (`modality_of`). A query that wants a modality and has no instruction gets a generic one, as the model was
    trained with them; an empty instruction stays empty.
    """
    want = want or query.want
    if want is None and query.instruction:
        number = modality_of.get(_normalised(query.instruction))
        want = None if number is None else MODALITIES[number]
    instruction = query.instruction
    if instruction is None and want is not None:
        instruction = generic(query.modality, want)
    return replace(query, want=want, instruction=instruction)


def modality_by_instruction(indexed: Mapping[str, int]) -> dict[str, int]:
    """The modality that instructions ask for: the generic ones, and those that the index knows from its
    sources."""
    own = {prompt: MODALITIES.index(want) for prompt, want in Instructions().wanted_by_prompt().items()}
    return {_normalised(prompt): want for prompt, want in {**own, **indexed}.items()}


def _normalised(instruction: str) -> str:
    return clean(instruction).casefold()


def embed_queries(model: Model, queries: Sequence[Query]) -> QueryBatch:
    """What a search needs of queries. Raises InputError for an image that can't be read."""
    want = np.array([ANY if query.want is None else MODALITIES.index(query.want) for query in queries])
    embeddings = np.zeros((len(queries), model.width), np.float32)
    vectors = np.zeros_like(embeddings)
    given = [place for place, query in enumerate(queries) if query.vectors is not None]
    for places in (given, [place for place, query in enumerate(queries) if query.vectors is None]):
        if places:
            inputs = _fusion_inputs(model, [queries[place] for place in places])
            embeddings[places], vectors[places] = inputs.embeddings, model.query_vectors(inputs)
    return QueryBatch(vectors, embeddings, want, _modality_codes(model, want))


def _fusion_inputs(model: Model, queries: Sequence[Query]) -> FusionInputs:
    """Queries of vectors, or of texts and images.

    A model that takes whole records loads all their images before embedding: so not too many at once.
    """
    if queries[0].vectors is not None:
        modality = np.array([MODALITIES.index(query.modality) for query in queries], np.int64)
        return model.vector_inputs(
            [query.vectors for query in queries if query.vectors is not None], modality
        )
    if model.uses_features:
        return model.fusion_inputs(queries)
    blocks = pixel_batches([query.image for query in queries])
    return concatenate([model.fusion_inputs(queries[block]) for block in blocks])


def embed_item(model: Model, code: np.ndarray, embedding: np.ndarray, want: Modality | None) -> QueryBatch:
    """What a search needs to find more like an item, by its code [levels] and embedding [width]."""
    wanted = np.array([ANY if want is None else MODALITIES.index(want)])
    vectors = model.quantizer.reconstruct(code[None]).astype(np.float32)
    return QueryBatch(vectors, embedding[None].astype(np.float32), wanted, _modality_codes(model, wanted))


def _modality_codes(model: Model, want: np.ndarray) -> np.ndarray:
    modality_code = np.full(len(want), ANY, np.int64)
    for modality in np.unique(want[want != ANY]):
        codes = model.modality_codes_for(int(modality), int((want == modality).sum()))
        if codes is not None:
            modality_code[want == modality] = codes
    return modality_code


def query_notes(model: Model, queries: Sequence[Query]) -> list[list[str]]:
    """What the user should know of each query, a sentence each."""
    texts, instructions = model.query_texts(queries)
    cut = np.array(model.encoder.too_long(texts)) | np.array(model.encoder.too_long(instructions))
    return [[TEXT_WAS_CUT] if was_cut else [] for was_cut in cut]
