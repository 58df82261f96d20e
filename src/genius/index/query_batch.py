"""What a model makes of queries: embeddings to compare and vectors to decode, for each wanted modality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from genius.data.instructions import Instructions, clean, generic
from genius.data.records import MODALITIES, Modality, Query
from genius.encode.direct import pixel_batches
from genius.encode.foreign_words import ENGLISH_FOR
from genius.index.composition import combined
from genius.index.query import ANY, SearchOptions, modalities_having
from genius.model import Model
from genius.quantize.fusion_inputs import (
    BOTH_QUERY,
    IMAGE_QUERY,
    TEXT_QUERY,
    FusionInputs,
    concatenate,
    query_kinds,
)

HAVE_IMAGE, HAVE_TEXT = (IMAGE_QUERY, BOTH_QUERY), (TEXT_QUERY, BOTH_QUERY)
"""The kinds of query that have an image, and those that have a text."""

TEXT_WAS_CUT = "the text is longer than the encoder reads: the rest was ignored"
READS_ENGLISH = "the encoder reads English"
LISTED_WORDS = 5
"""How many words that were not understood a note names."""


@dataclass(frozen=True, eq=False)
class QueryBatch:
    """What a search needs of several queries, each of which wants one modality, or any.

    Attributes:
        vectors: what is decoded, [queries, width].
        embeddings: what items' embeddings are compared with, [queries, width].
        want: the number of the wanted modality, or ANY [queries].
        modality_code: the first code of items of that modality, or ANY [queries].
        embedding_weights: the weight of embeddings in re-ranking, float32 [queries].
        kinds: the kinds of the queries (`quantize.fusion_inputs.query_kinds`) [queries].
        positive: the same queries without what they take away, by which confidence is told; None if none
            takes anything away.
    """

    vectors: np.ndarray
    embeddings: np.ndarray
    want: np.ndarray
    modality_code: np.ndarray
    embedding_weights: np.ndarray
    kinds: np.ndarray
    positive: QueryBatch | None = None

    def __len__(self) -> int:
        return len(self.vectors)

    def __getitem__(self, places: np.ndarray | slice) -> QueryBatch:
        return QueryBatch(
            self.vectors[places],
            self.embeddings[places],
            self.want[places],
            self.modality_code[places],
            self.embedding_weights[places],
            self.kinds[places],
            None if self.positive is None else self.positive[places],
        )

    @property
    def asks_for(self) -> QueryBatch:
        """What the queries ask for: the queries themselves, without what they take away."""
        return self if self.positive is None else self.positive


ARRAYS = tuple(field.name for field in fields(QueryBatch) if field.name != "positive")
"""The names of a batch's arrays, a row for each query."""


def concatenated(batches: Sequence[QueryBatch]) -> QueryBatch:
    """The queries of several batches, one after the other."""
    arrays = {name: np.concatenate([getattr(batch, name) for batch in batches]) for name in ARRAYS}
    some_take_away = any(batch.positive is not None for batch in batches)
    positive = concatenated([batch.asks_for for batch in batches]) if some_take_away else None
    return replace(batches[0], positive=positive, **arrays)


@dataclass(frozen=True)
class TargetedQuery:
    """A query with its instruction, and the modalities that answer it: each is searched for by itself.

    Attributes:
        query: the query.
        modalities: of the items to find; empty for any.
        parts: what is added to it and taken away, each as a query of its own.
    """

    query: Query
    modalities: tuple[Modality, ...] = ()
    parts: tuple[Query, ...] = ()

    @property
    def contents(self) -> tuple[Query, ...]:
        """All that is embedded: the query itself, then its parts."""
        return (self.query, *self.parts)

    @property
    def weights(self) -> list[float]:
        """Of the query itself, then of its parts."""
        return [self.query.weight, *(part.weight for part in self.query.parts)]


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
    parts = [Query(part.text, part.image, query.instruction) for part in query.parts]
    whole, *rest = (
        replace(content, instruction=generic(content.modality, want[0]))
        if content.instruction is None and modalities
        else content
        for content in (query, *parts)
    )
    return TargetedQuery(whole, modalities, tuple(rest))


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
    What consists of several parts is combined (`composition`). Raises InputError for an image that can't be
    read.
    """
    alone = [TargetedQuery(part, aimed.modalities) for aimed in queries for part in aimed.contents]
    batch = _embed_contents(model, alone)
    if len(alone) == len(queries):
        return batch
    blocks, start = [], 0
    for aimed in queries:
        end = start + max(1, len(aimed.modalities)) * len(aimed.contents)
        blocks.append(_combined_parts(model, batch[slice(start, end)], aimed))
        start = end
    return concatenated(blocks)


def _combined_parts(model: Model, parts: QueryBatch, aimed: TargetedQuery) -> QueryBatch:
    """One query of its parts, whose rows follow each other part by part, one for each wanted modality."""
    weights = np.array(aimed.weights)
    rows = len(parts) // len(weights)
    by_part = [parts[slice(start, start + rows)] for start in range(0, len(parts), rows)]
    whole = _weighted_sum(model, by_part, weights)
    if (weights > 0).all():
        return whole
    added = [part for part, weight in zip(by_part, weights, strict=True) if weight > 0]
    return replace(whole, positive=_weighted_sum(model, added, weights[weights > 0]))


def _weighted_sum(model: Model, by_part: Sequence[QueryBatch], weights: np.ndarray) -> QueryBatch:
    """The sum of parts, each with a row for every wanted modality."""
    if len(by_part) == 1:
        return by_part[0]
    rows = len(by_part[0])
    embeddings = np.stack([part.embeddings for part in by_part], axis=1)
    vectors = np.stack([part.vectors for part in by_part], axis=1)
    part_kinds = np.concatenate([part.kinds for part in by_part])
    has_image, has_text = (np.isin(part_kinds, kinds).any() for kinds in (HAVE_IMAGE, HAVE_TEXT))
    kinds = query_kinds(np.full(rows, has_image), np.full(rows, has_text))
    return replace(
        by_part[0],
        embeddings=np.stack([combined(row, weights, model.content_width) for row in embeddings]),
        vectors=np.stack([combined(row, weights) for row in vectors]),
        embedding_weights=model.rerank_weights(kinds),
        kinds=kinds,
    )


def _embed_contents(model: Model, queries: Sequence[TargetedQuery]) -> QueryBatch:
    """The same for queries of one part each."""
    wanted = [_numbers(aimed.modalities) for aimed in queries]
    counts, want = np.array([len(numbers) for numbers in wanted]), np.concatenate(wanted)
    query_ids = np.repeat(np.arange(len(queries)), counts)
    embeddings = np.zeros((len(want), model.width), np.float32)
    vectors = np.zeros((len(want), model.vector_width), np.float32)
    weights, kinds = np.zeros(len(want), np.float32), np.zeros(len(want), np.int64)
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
        weights[rows], kinds[rows] = model.rerank_weights(inputs.kinds), inputs.kinds
    return QueryBatch(vectors, embeddings, want, _modality_codes(model, want), weights, kinds)


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
    return QueryBatch(vectors, embeddings.astype(np.float32), want, modality_code, weights, kinds)


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
    contents = [part for aimed in queries for part in aimed.contents]
    texts, instructions = model.query_texts(contents)
    cut = np.array(model.encoder.too_long(texts)) | np.array(model.encoder.too_long(instructions))
    unread = model.unread_words([part.text or "" for part in contents])
    by_part = iter(
        ([TEXT_WAS_CUT] if was_cut else []) + unread_note(part.text or "", words)
        for part, was_cut, words in zip(contents, cut, unread, strict=True)
    )
    return [list(dict.fromkeys(note for _ in aimed.contents for note in next(by_part))) for aimed in queries]


def unread_note(text: str, words: Sequence[str]) -> list[str]:
    """A note that names the words of a text that the encoder can't read, if there are any."""
    if not words:
        return []
    meanings = [ENGLISH_FOR[word.lower()] for word in words[:LISTED_WORDS] if word.lower() in ENGLISH_FOR]
    if len(words) == len(text.split()):
        way_out = f" (perhaps: {' '.join(meanings)})" if meanings else ""
        return [f"nothing of this text was understood: {READS_ENGLISH}{way_out}"]
    named = dict.fromkeys(words[:LISTED_WORDS])
    explained = (
        f"{word} ({meaning}?)" if (meaning := ENGLISH_FOR.get(word.lower())) else word for word in named
    )
    listed = ", ".join(explained) + (", …" if len(words) > LISTED_WORDS else "")
    return [f"not understood: {listed}; {READS_ENGLISH}"]
