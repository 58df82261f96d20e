from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast, get_type_hints

import numpy as np
import pytest

from genius.data.instructions import generic
from genius.data.records import MODALITIES, ImageBytes, Modality, Query
from genius.encode import direct
from genius.errors import InputError
from genius.index import query_batch
from genius.index.query import (
    MAX_EXCLUDED,
    MAX_K,
    MAX_TEXT_LENGTH,
    SearchKeywords,
    SearchOptions,
    check_several,
    make_query,
)
from genius.index.query_batch import modality_by_instruction, targeted
from genius.model import Model
from genius.quantize.fusion_inputs import FusionInputs
from genius.search.engine import MAX_BEAMS, MODES
from tests.loaded_images import coloured, colours, watch_loading


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k": 0}, "k must be a number from 1 to 10,000, not 0"),
        ({"k": MAX_K + 1}, "k must be a number from 1 to 10,000, not 10001"),
        ({"k": True}, "k must be a number from 1 to 10,000, not True"),
        ({"k": 1.5}, "not 1.5"),
        ({"beam": 0}, "beam must be a number from 1 to 2,048, not 0"),
        ({"beam": MAX_BEAMS + 1}, "beam must be a number from 1 to 2,048, not 2049"),
        ({"mode": "slow"}, "unknown mode 'slow': expected one of paper"),
        ({"decoder": "best"}, "unknown decoder 'best': expected one of geometry, learned"),
        ({"precision": "fp8"}, "unknown precision 'fp8'"),
        ({"want": "video"}, "unknown modality 'video'"),
        ({"want": ["image", "video"]}, "unknown modality 'video'"),
        ({"filter": {"a": {"$near": 1}}}, "unknown operator"),
        ({"exclude": ["x"] * (MAX_EXCLUDED + 1)}, "10,001 ids are excluded, and up to 10,000 can be"),
    ],
)
def test_options_beyond_their_limits_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        SearchOptions.of(**options)


def test_options_at_their_limits() -> None:
    options = SearchOptions.of(k=MAX_K, beam=MAX_BEAMS, exclude=["x"] * MAX_EXCLUDED, want="image")
    assert (options.k, options.beam, len(options.exclude)) == (MAX_K, MAX_BEAMS, MAX_EXCLUDED)
    assert options.want == (Modality.IMAGE,)
    assert SearchOptions.of(only=["text", Modality.PAIR]).only == (Modality.TEXT, Modality.PAIR)
    assert SearchOptions.of(sort="-price").sort == ("-price",)
    assert SearchOptions.of(k=7, offset=MAX_K - 7).depth == MAX_K
    assert SearchOptions.of(k=1, beam=1) == SearchOptions(k=1, beam=1)
    assert SearchOptions.of(exclude="abc").exclude == ("abc",)  # an id, and not its letters


def test_keywords_are_the_fields_of_the_options() -> None:
    fields = [field.name for field in dataclasses.fields(SearchOptions)]
    assert list(get_type_hints(SearchKeywords)) == fields


def test_a_filter_is_read_once() -> None:
    options = SearchOptions.of(filter={"brand": "acme"})
    assert options.condition is options.condition is not None
    assert SearchOptions().condition is None


def test_only_the_paper_mode_does_not_rerank_by_default() -> None:
    assert [mode for mode in MODES if not SearchOptions(mode=mode).reranks] == ["paper"]
    assert SearchOptions(mode="paper", rerank=True).reranks
    assert not SearchOptions(rerank=False).reranks


def test_a_learned_decoder_searches_all_levels_for_a_plain_ranking() -> None:
    plain = SearchOptions(rerank=False)
    assert (plain.engine_mode("learned"), plain.engine_mode("geometry")) == ("paper", "auto")
    assert SearchOptions().engine_mode("learned") == "auto"
    assert SearchOptions(rerank=False, mode="fast").engine_mode("learned") == "fast"
    assert plain.ranks_by_codes("geometry") and not plain.ranks_by_codes("learned")
    assert not SearchOptions(mode="paper").ranks_by_codes("geometry")


def test_what_a_query_may_be_made_of() -> None:
    image = ImageBytes(b"bytes")
    assert make_query("text", None, None, None) == Query(text="text")
    assert make_query("text", None, image, "Find it.") == Query("text", image, "Find it.")
    whole = Query(text="text", instruction="old")
    assert make_query(whole, None, None, None) is whole
    assert make_query(whole, None, None, "new").instruction == "new"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, None, None, None), "an empty query"),
        ((" ", None, None, None), "an empty query"),
        ((None, None, None, "Find a text."), "an empty query"),
        (("a", "b", None, None), "there are two"),
        ((Query(text="a"), "b", None, None), "give it alone"),
        ((Query(text="a"), None, ImageBytes(b""), None), "give it alone"),
        (("half \ud800", None, None, None), "holds half a character"),
        (("a", None, None, "\udfff"), "holds half a character"),
        (("x" * (MAX_TEXT_LENGTH + 1), None, None, None), "has 20,001 characters, and up to 20,000 are read"),
        (("a", None, None, "x" * (MAX_TEXT_LENGTH + 1)), "has 20,001 characters"),
    ],
)
def test_what_is_no_query_is_refused(given: tuple[Any, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_query(*given)


def test_a_text_is_not_several_queries() -> None:
    with pytest.raises(InputError, match="search_many takes several queries"):
        check_several("abc")
    assert check_several(["a"]) == ["a"]


def test_what_is_wanted_and_the_instruction_follow_from_each_other() -> None:
    text, image, pair = Modality.TEXT, Modality.IMAGE, Modality.PAIR
    known = modality_by_instruction({"Prompt of a tree.": MODALITIES.index(image)})
    assert known[generic(image, text).casefold()] == MODALITIES.index(text)

    def target(query: Query, **options: Any) -> tuple[tuple[Modality, ...], str | None]:
        aimed = targeted(query, SearchOptions.of(**options), known)
        assert replace(aimed.query, instruction=query.instruction) == query
        return aimed.modalities, aimed.query.instruction

    query, prompted = Query(text="a"), Query(text="a", instruction="PROMPT of a tree. ")
    assert target(query) == ((), None)
    assert target(query, want="image") == ((image, pair), generic(text, image))
    assert target(query, only="image") == ((image,), generic(text, image))
    assert target(query, want=["text", "image"]) == ((), None)  # which is anything
    assert target(query, only=["text", "image"]) == ((text, image), generic(text, text))
    assert target(prompted) == ((image, pair), prompted.instruction)
    assert target(prompted, want="text") == ((text, pair), prompted.instruction)
    assert target(Query(text="a", want=pair)) == ((pair,), generic(text, pair))
    assert target(Query(text="a", want=pair), only="text") == ((text,), generic(text, text))
    assert target(Query(text="a", instruction=""), want="text") == ((text, pair), "")


def test_few_images_of_whole_records_are_in_memory_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    in_memory = watch_loading(monkeypatch, direct)

    def fusion_inputs(queries: Sequence[Query]) -> FusionInputs:
        images = direct.load_images([query.image for query in queries])
        embeddings = colours([image for image in images if image is not None])
        present = np.ones(len(queries), bool)
        return FusionInputs.from_parts(embeddings, (embeddings, present), (embeddings, ~present))

    model = cast(Model, SimpleNamespace(uses_features=False, fusion_inputs=fusion_inputs))
    inputs = query_batch._fusion_inputs(model, [Query(image=image) for image in coloured(5)])
    np.testing.assert_array_equal(inputs.embeddings[:, 0], range(5))
    assert (len(in_memory), max(in_memory)) == (5, 2)
