"""Queries as users give them, and the options of a search with their limits.

`SearchOptions` is the one set of options and limits of a search, in Python, over HTTP and on the command
line.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args

import numpy as np

from genius.data.images import image_source
from genius.data.instructions import clean
from genius.data.records import MODALITIES, ImageSource, Modality, Query, QueryPart, Vectors
from genius.decode.onnx_decoder import Precision
from genius.errors import InputError
from genius.index import filters
from genius.index.confidence import parse_confidence
from genius.index.decoders import DECODERS, PRECISIONS, DecoderName
from genius.index.filters import Condition, Ordering
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

MissingShard = Literal["partial", "error"]
"""What a search does without a shard: it answers with what the others have, or not at all."""

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
    at_least: str | float | None
    on_missing_shard: MissingShard | None


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
        at_least: only hits with this confidence: `likely` (0.8), `sure` (0.95) or a number from 0 to 1. There
            may be none, and then `Hits.nearest` is what came nearest.
        on_missing_shard: if shards on other machines don't answer, `partial` has the hits of the others, and
            `error` none; by default what the service was started with.
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
    at_least: float | None = None
    on_missing_shard: MissingShard | None = None

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
        if self.on_missing_shard is not None:
            _check_choice("on_missing_shard", self.on_missing_shard, get_args(MissingShard))
        if len(self.exclude) > MAX_EXCLUDED:
            raise InputError(
                f"{len(self.exclude):,} ids are excluded, and up to {MAX_EXCLUDED:,} can be: use a filter"
            )
        if self.at_least is not None:
            object.__setattr__(self, "at_least", parse_confidence(self.at_least))
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
            "at_least": self.at_least,
            "on_missing_shard": self.on_missing_shard,
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


def combined_query(
    text: str | None, image: ImageSource | None, weight: float, parts: Sequence[QueryPart], **fields: Any
) -> Query:
    """The query of a text, an image and further parts; without text and image, the first part that is added
    is the query itself. Raises InputError where nothing is searched for."""
    rest = list(parts)
    if not clean(text) and image is None and fields.get("vector") is None:
        first = next((part for part in rest if part.weight > 0), None)
        if first is not None:
            rest.remove(first)
            text, image, weight = first.text, first.image, first.weight
    return Query(text, image, weight=weight, parts=tuple(rest), **fields)


def _check(query: Query) -> None:
    contents: list[Query | QueryPart] = [query, *query.parts]
    if query.vectors is None and any(not clean(part.text) and part.image is None for part in contents):
        raise InputError("an empty query: give a text, an image or both")
    for words in (query.instruction or "", *(part.text or "" for part in contents)):
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
