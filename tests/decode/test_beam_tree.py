"""Searches by the network: beside teacher forcing, `generate` of transformers, and brute force."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from genius.decode.decoder import Decoder
from genius.decode.t5 import T5Decoder
from genius.decode.torch_decoder import TorchDecoder
from genius.errors import InputError
from tests.decode.small_decoder import SIZES, onnx, queries, some_codes
from tests.decode.small_decoder import network as small_network
from tests.oracles.beam import beam_search, ranked_items
from tests.oracles.generate import generate
from tests.oracles.trie import Trie

NETWORK = small_network()
CODES = np.unique(some_codes(150), axis=0)
TRIE = Trie.build(CODES)
DECODERS: dict[str, Decoder] = {"torch": TorchDecoder(NETWORK), "onnx": onnx(NETWORK)}


# --- beside teacher forcing


@settings(deadline=None, max_examples=40)
@given(
    st.lists(st.integers(1, 12), min_size=1, max_size=5), st.integers(1, 4), st.booleans(), st.integers(0, 99)
)
def test_a_search_scores_as_teacher_forcing_does(
    sizes: list[int], count: int, known: bool, seed: int
) -> None:
    """Rows are kept several times, in any order, or not at all."""
    random, ours = np.random.default_rng(seed), small_network(tuple(sizes), seed=seed)
    decoder: Decoder = TorchDecoder(ours, "cpu")
    vectors = queries(count, seed)
    query_ids, prefix = np.arange(count), np.zeros((count, 0), np.int64)
    if known and len(sizes) > 1:
        prefix = random.integers(0, sizes[0], (count, 1))
        state = decoder.begin(vectors, prefix[:, 0])
    else:
        state = decoder.begin(vectors)
    while True:
        level = prefix.shape[1]
        codes = np.concatenate([prefix, np.zeros((len(prefix), len(sizes) - level), np.int64)], axis=1)
        with torch.no_grad():
            logits = ours(torch.from_numpy(vectors[query_ids]), torch.from_numpy(codes))[level]
        scores = state.scores()
        assert scores.dtype == np.float32
        np.testing.assert_allclose(scores, logits.log_softmax(1).numpy(), atol=1e-4)
        if level + 1 == len(sizes):
            return
        rows = random.integers(0, len(query_ids), random.integers(1, 7))
        chosen = random.integers(0, sizes[level], len(rows))
        state.advance(rows, chosen)
        query_ids, prefix = query_ids[rows], np.column_stack([prefix[rows], chosen])


# --- beside transformers


@pytest.mark.filterwarnings("default")  # transformers warns about its own settings
@pytest.mark.parametrize("name", ["torch", "onnx"])
@pytest.mark.parametrize("shape", ["with a modality", "without"])
def test_beams_equal_those_of_generate_in_the_same_order(name: str, shape: str) -> None:
    pytest.importorskip("transformers")
    sizes = SIZES if shape == "with a modality" else (17, 13, 11)
    network = small_network(sizes, seed=3)
    decoder: Decoder = TorchDecoder(network) if name == "torch" else onnx(network)
    codes, vectors, beams = np.unique(some_codes(300, sizes), axis=0), queries(6, seed=4), 20
    searched = beam_search(decoder, Trie.build(codes), vectors, beams)
    for query, expected in enumerate(generate(network, vectors, codes, beams)):
        assert [tuple(code) for code in searched.codes[query].tolist()] == [code for code, _ in expected]
        np.testing.assert_allclose(searched.log_probs[query], [score for _, score in expected], atol=1e-3)


# --- beside brute force


def all_log_probs(network: T5Decoder, vectors: np.ndarray, codes: np.ndarray, *, known: bool) -> np.ndarray:
    """The summed log-probabilities [queries, codes] of all codes by teacher forcing."""
    log_probs = np.zeros((len(vectors), len(codes)), np.float32)
    with torch.no_grad():
        for query, vector in enumerate(vectors):
            logits = network(torch.from_numpy(np.tile(vector, (len(codes), 1))), torch.from_numpy(codes))
            for level in range(1 if known else 0, len(logits)):
                level_log_probs = logits[level].log_softmax(1).numpy()
                log_probs[query] += level_log_probs[np.arange(len(codes)), codes[:, level]]
    return log_probs


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", DECODERS)
def test_a_beam_as_wide_as_the_pool_is_exhaustive(name: str, known: bool) -> None:
    vectors = queries(5)
    first = np.array([0, 1, 2, 0, 1]) if known else None
    searched = beam_search(DECODERS[name], TRIE, vectors, len(CODES), modality_code=first)
    scores, items = ranked_items(TRIE, searched, len(CODES))
    expected = all_log_probs(NETWORK, vectors, CODES, known=known)
    if first is not None:
        expected[CODES[None, :, 0] != first[:, None]] = -np.inf
    for query in range(5):
        reach = np.isfinite(expected[query])
        assert sorted(items[query, : reach.sum()].tolist()) == np.flatnonzero(reach).tolist()
        np.testing.assert_allclose(scores[query, : reach.sum()], -np.sort(-expected[query, reach]), atol=1e-4)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_searches_are_batch_invariant(data: st.DataObject) -> None:
    """Also where queries have different numbers of rows, or one wants a modality that no item has."""
    count = data.draw(st.integers(1, 7))
    first = data.draw(st.none() | st.lists(st.integers(-1, 3), min_size=count, max_size=count))
    wanted = None if first is None else np.array(first)
    decoder, vectors = DECODERS[data.draw(st.sampled_from(sorted(DECODERS)))], queries(count)
    together = beam_search(decoder, TRIE, vectors, 12, modality_code=wanted)
    for query in range(count):
        own = slice(query, query + 1)
        own_code = None if wanted is None else wanted[own]
        alone = beam_search(decoder, TRIE, vectors[own], 12, modality_code=own_code)
        np.testing.assert_array_equal(alone.codes[0], together.codes[query])
        np.testing.assert_allclose(alone.log_probs[0], together.log_probs[query], atol=1e-4)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("known", [False, True])
def test_finished_queries_leave_and_the_others_go_on_as_if_alone(name: str, known: bool) -> None:
    """Three queries, of which one has no row left after each level; the network no longer sees them."""
    decoder, vectors, codes = DECODERS[name], queries(3), some_codes(3)
    first = codes[:, 0] if known else None
    alone = [decoder.begin(vectors[[query]], None if first is None else first[[query]]) for query in range(3)]
    state = decoder.begin(vectors, first)
    level = int(known)
    while True:
        left = list(range(max(0, level - 1), 3))
        expected = np.concatenate([alone[query].scores() for query in left])
        np.testing.assert_allclose(state.scores(), expected, atol=1e-5)
        if len(left) == 1 or level == len(SIZES) - 1:
            break
        going = [query for query in left if query >= level]
        state.advance(np.array([left.index(query) for query in going]), codes[going, level])
        for query in going:
            alone[query].advance(np.array([0]), codes[[query], level])
        level += 1
    assert len(left) < 3


def test_the_network_works_for_living_queries_only(monkeypatch: pytest.MonkeyPatch) -> None:
    decoder = TorchDecoder(NETWORK)
    sizes: list[int] = []
    step = decoder.step

    def counted(tokens: np.ndarray, *more: Any) -> Any:
        sizes.append(len(tokens))
        return step(tokens, *more)

    monkeypatch.setattr(decoder, "step", counted)
    state = decoder.begin(queries(4), np.zeros(4, np.int64))
    state.advance(np.array([1, 1, 3]), np.array([0, 1, 2]))
    state.advance(np.array([2]), np.array([1]))
    assert sizes == [4, 2, 1]


@pytest.mark.parametrize("name", DECODERS)
def test_no_queries_find_nothing(name: str) -> None:
    for first in (None, np.zeros(0, np.int64)):
        assert beam_search(DECODERS[name], TRIE, queries(0), 5, modality_code=first).codes.shape == (0, 5, 4)


@pytest.mark.parametrize("name", DECODERS)
def test_bad_queries(name: str) -> None:
    with pytest.raises(InputError, match="vectors of width 10, not of the shape"):
        DECODERS[name].begin(np.zeros((2, 9), np.float32))
    for codes in ([0, 3], [0, -1], [0]):
        with pytest.raises(InputError, match="each query needs a modality code from 0 to 2"):
            DECODERS[name].begin(queries(2), np.array(codes))
