"""Queries as users give them: search options with their limits, and what a model makes of a query.

`SearchOptions` is the one set of options and limits of a search, in Python, over HTTP and on the command
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from genius.data.images import image_source
from genius.data.instructions import Instructions, clean, generic
from genius.data.records import MODALITIES, ImageSource, Modality, Query, Vectors
from genius.decode.onnx_decoder import Precision
from genius.encode.direct import pixel_batches
from genius.errors import InputError
from genius.index import filters
from genius.index.decoders import DECODERS, PRECISIONS, DecoderName
from genius.index.filters import Condition, Ordering
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs, concatenate
from genius.search.beam import BEAMS
from genius.search.engine import MAX_BEAMS, MODES, Mode

if TYPE_CHECKING:
    from PIL import Image

ANY = -1
"""Stands for every modality, and for every modality code."""

HAVING = {
    Modality.IMAGE: (Modality.IMAGE, Modality.PAIR),
    Modality.TEXT: (Modality.TEXT, Modality.PAIR),
    Modality.PAIR: (Modality.PAIR,),
}
"""The modalities of items that have what is wanted: an image, a text, or both."""

MAX_K = 10_000
"""How many items a search ranks: up to this place hits can be paged through."""
MAX_OFFSET = 1 << 31
MAX_EXCLUDED = 10_000
MAX_TEXT_LENGTH = 20_000
MAX_ID_LENGTH = 1_000

TEXT_WAS_CUT = "the text is longer than the encoder reads: the rest was ignored"
READS_ENGLISH = "the encoder reads English"
LISTED_WORDS = 5
"""How many words that were not understood a note names."""

Modalities = Modality | str | Iterable[Modality | str] | None
"""One modality or several, as keywords give them."""


class SearchKeywords(TypedDict, total=False):
    """The fields of `SearchOptions` as keywords of `Index.search` and `Client.search`."""

    want: Modalities
    only: Modalities
    k: int
    offset: int
    sort: str | Iterable[str]
    beam: int
    rerank: bool | None
    mode: Mode
    decoder: DecoderName | str | None
    precision: Precision
    filter: Mapping[str, Any] | None
    exclude: Iterable[str]


class BrowseKeywords(TypedDict, total=False):
    """Those of them that mean something without a query: the keywords of `browse`."""

    want: Modalities
    only: Modalities
    k: int
    offset: int
    sort: str | Iterable[str]
    filter: Mapping[str, Any] | None
    exclude: Iterable[str]


@dataclass(frozen=True)
class SearchOptions:
    """How to search, and among what. Raises InputError for values that make no sense or are beyond the
    limits.

    Attributes:
        want: find items that have this, alone or with more: `image` finds images with and without a text.
            Several are alternatives. Without it, a known instruction decides, or anything is found.
        only: instead of `want`, find items that are exactly this: `image` finds images without a text.
        k: how many items.
        offset: how many items to leave out before them, to page through the hits.
        sort: metadata keys to order the k hits by, instead of by rank; `-price` is the largest first, and
            items without the key come last.
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

    want: tuple[Modality, ...] = ()
    only: tuple[Modality, ...] = ()
    k: int = 10
    offset: int = 0
    sort: tuple[str, ...] = ()
    beam: int = BEAMS
    rerank: bool | None = None
    mode: Mode = "auto"
    decoder: DecoderName | None = None
    precision: Precision = "fp32"
    filter: Mapping[str, Any] | None = None
    exclude: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_range("k", self.k, 1, MAX_K)
        _check_range("offset", self.offset, 0, MAX_OFFSET)
        _check_range("beam", self.beam, 1, MAX_BEAMS)
        if self.want and self.only:
            raise InputError("want finds what has this, only what is nothing else: give one of the two")
        _check_choice("mode", self.mode, MODES)
        _check_choice("precision", self.precision, PRECISIONS)
        if self.decoder is not None:
            _check_choice("decoder", self.decoder, DECODERS)
        if len(self.exclude) > MAX_EXCLUDED:
            raise InputError(
                f"{len(self.exclude):,} ids are excluded, and up to {MAX_EXCLUDED:,} can be: use a filter"
            )
        self.condition, self.ordering  # noqa: B018 - a filter or a key that is none is refused here

    @classmethod
    def of(
        cls,
        *,
        want: Modalities = None,
        only: Modalities = None,
        sort: str | Iterable[str] | None = None,
        exclude: Iterable[str] = (),
        **options: Any,
    ) -> SearchOptions:
        """From keywords: a modality may be a name, and one of anything may be given without a list."""
        return cls(
            want=tuple(map(Modality.parse, _several(want))),
            only=tuple(map(Modality.parse, _several(only))),
            sort=_several(sort),
            exclude=_several(exclude),
            **options,
        )

    def to_dict(self) -> dict[str, Any]:
        """The options as JSON has them."""
        return {
            "want": [modality.value for modality in self.want],
            "only": [modality.value for modality in self.only],
            "k": self.k,
            "offset": self.offset,
            "sort": list(self.sort),
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

    @cached_property
    def ordering(self) -> Ordering | None:
        """The sort keys as SQL."""
        return filters.ordering(self.sort) if self.sort else None

    @property
    def modalities(self) -> tuple[Modality, ...]:
        """What items may be; empty for anything."""
        return self.only or modalities_having(self.want)

    @property
    def depth(self) -> int:
        """How many items are ranked. Raises InputError for hits so far down that nobody ranks them."""
        if self.offset + self.k > MAX_K:
            raise InputError(
                f"hits are ranked up to the {MAX_K:,}th: ask for fewer, or narrow the search by a filter"
            )
        return self.offset + self.k

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


def browse_options(**options: Unpack[BrowseKeywords]) -> SearchOptions:
    """From the keywords of `browse`. Raises InputError for others."""
    if unknown := options.keys() - BrowseKeywords.__annotations__.keys():
        raise InputError(f"without a query, {min(unknown)} means nothing: leave it out")
    return SearchOptions.of(**options)


def modalities_having(want: Iterable[Modality]) -> tuple[Modality, ...]:
    """The modalities of items that have any of these; empty if that is all of them."""
    having = {modality for wanted in want for modality in HAVING[wanted]}
    return tuple(modality for modality in MODALITIES if modality in having) if len(having) < 3 else ()


def _several(values: Any) -> tuple[Any, ...]:
    """One value, several or none, as a tuple."""
    if values is None:
        return ()
    return (values,) if isinstance(values, str) else tuple(values)


def _check_range(name: str, value: int, smallest: int, largest: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not smallest <= value <= largest:
        raise InputError(f"{name} must be a number from {smallest} to {largest:,}, not {value!r}")


def _check_choice(name: str, value: object, known: Sequence[str]) -> None:
    if value not in known:
        raise InputError(f"unknown {name} {value!r}: expected one of {', '.join(known)}")


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """What a search needs of several queries, each of which wants one modality, or any.

    Attributes:
        vectors: what is decoded, [queries, width].
        embeddings: what items' embeddings are compared with, [queries, width].
        want: the number of the wanted modality, or ANY [queries].
        modality_code: the first code of items of that modality, or ANY [queries].
        embedding_weights: the weight of embeddings in re-ranking, float32 [queries].
    """

    vectors: np.ndarray
    embeddings: np.ndarray
    want: np.ndarray
    modality_code: np.ndarray
    embedding_weights: np.ndarray

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, places: np.ndarray | slice) -> QueryBatch:
        return QueryBatch(
            self.vectors[places],
            self.embeddings[places],
            self.want[places],
            self.modality_code[places],
            self.embedding_weights[places],
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


@dataclass(frozen=True)
class TargetedQuery:
    """A query with its instruction, and the modalities that answer it: each is searched for by itself.

    Attributes:
        query: the query.
        modalities: of the items to find; empty for any.
    """

    query: Query
    modalities: tuple[Modality, ...] = ()


def targeted(query: Query, options: SearchOptions, modality_of: Mapping[str, int]) -> TargetedQuery:
    """The query with what it wants and its instruction, as far as one follows from the other.

    What is wanted is what the options say, or the query itself, or what its instruction is known to ask for
    (`modality_of`). A query that wants something and has no instruction gets a generic one, as the model was
    trained with them; an empty instruction stays empty.
    """
    want = options.only or options.want or (() if query.want is None else (query.want,))
    if not want and query.instruction:
        number = modality_of.get(_normalised(query.instruction))
        want = () if number is None else (MODALITIES[number],)
    modalities = options.only or modalities_having(want)
    instruction = query.instruction
    if instruction is None and modalities:
        instruction = generic(query.modality, want[0])
    return TargetedQuery(replace(query, instruction=instruction), modalities)


def modality_by_instruction(indexed: Mapping[str, int]) -> dict[str, int]:
    """The modality that instructions ask for: the generic ones, and those that the index knows from its
    sources."""
    own = {prompt: MODALITIES.index(want) for prompt, want in Instructions().wanted_by_prompt().items()}
    return {_normalised(prompt): want for prompt, want in {**own, **indexed}.items()}


def _normalised(instruction: str) -> str:
    return clean(instruction).casefold()


def embed_queries(model: Model, queries: Sequence[TargetedQuery]) -> QueryBatch:
    """What a search needs of queries, each once for every modality that it wants, one after the other.

    Where it wants several, it is made to want each of them equally, so that their scores can be compared.
    Raises InputError for an image that can't be read.
    """
    wanted = [_numbers(aimed.modalities) for aimed in queries]
    counts, want = np.array([len(numbers) for numbers in wanted]), np.concatenate(wanted)
    query_ids = np.repeat(np.arange(len(queries)), counts)
    embeddings = np.zeros((len(want), model.width), np.float32)
    vectors = np.zeros((len(want), model.vector_width), np.float32)
    weights = np.zeros(len(want), np.float32)
    given = np.array([aimed.query.vectors is not None for aimed in queries])
    for alike in (np.flatnonzero(given), np.flatnonzero(~given)):
        if not len(alike):
            continue
        inputs = _fusion_inputs(model, [queries[number].query for number in alike.tolist()])
        rows = np.flatnonzero(np.isin(query_ids, alike))
        if len(rows) > len(alike):
            own = np.searchsorted(alike, query_ids[rows])
            inputs = model.retargeted(inputs, own, np.where(counts[query_ids[rows]] > 1, want[rows], ANY))
        embeddings[rows], vectors[rows] = inputs.embeddings, model.query_vectors(inputs)
        weights[rows] = model.rerank_weights(inputs.kinds)
    return QueryBatch(vectors, embeddings, want, _modality_codes(model, want), weights)


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


@dataclass(frozen=True)
class StoredItem:
    """What segments keep of an item: its code [levels], its embedding [width], its modality's number."""

    code: np.ndarray
    embedding: np.ndarray
    modality: int


def embed_item(model: Model, item: StoredItem, modalities: Sequence[Modality]) -> QueryBatch:
    """What a search needs to find more like an item.

    There is a row for every modality that is wanted. Where these are several, the item is made to want each
    of them equally, instead of its own.
    """
    want = _numbers(modalities)
    modality_code = _modality_codes(model, want)
    codes, embeddings = (np.repeat(row[None], len(want), 0) for row in (item.code, item.embedding))
    kinds = np.full(len(want), item.modality)  # kinds of query are in the order of modalities
    if len(want) > 1:
        embeddings = model.wanting(embeddings, want)
        codes[modality_code != ANY, 0] = modality_code[modality_code != ANY]
    quantized = model.quantizer.reconstruct(codes) if model.has_code_vectors else embeddings
    vectors = model.vectors_as_queries(quantized.astype(np.float32), kinds)
    weights = model.rerank_weights(kinds)
    return QueryBatch(vectors, embeddings.astype(np.float32), want, modality_code, weights)


def _numbers(modalities: Sequence[Modality]) -> np.ndarray:
    """The numbers of modalities, or ANY alone for none."""
    return np.array([MODALITIES.index(modality) for modality in modalities] or [ANY])


def _modality_codes(model: Model, want: np.ndarray) -> np.ndarray:
    modality_code = np.full(len(want), ANY, np.int64)
    for modality in np.unique(want[want != ANY]):
        codes = model.modality_codes_for(int(modality), int((want == modality).sum()))
        if codes is not None:
            modality_code[want == modality] = codes
    return modality_code


def query_notes(model: Model, queries: Sequence[TargetedQuery]) -> list[list[str]]:
    """What the user should know of each query, a sentence each."""
    texts, instructions = model.query_texts([aimed.query for aimed in queries])
    cut = np.array(model.encoder.too_long(texts)) | np.array(model.encoder.too_long(instructions))
    unread = model.unread_words([aimed.query.text or "" for aimed in queries])
    return [
        ([TEXT_WAS_CUT] if was_cut else []) + unread_note(aimed.query.text or "", words)
        for aimed, was_cut, words in zip(queries, cut, unread, strict=True)
    ]


def unread_note(text: str, words: Sequence[str]) -> list[str]:
    """A note that names the words of a text that the encoder can't read, if there are any."""
    if not words:
        return []
    if len(words) == len(text.split()):
        return [f"nothing of this text was understood: {READS_ENGLISH}"]
    listed = ", ".join(dict.fromkeys(words[:LISTED_WORDS])) + (", …" if len(words) > LISTED_WORDS else "")
    return [f"not understood: {listed}; {READS_ENGLISH}"]
