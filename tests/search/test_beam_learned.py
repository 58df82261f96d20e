"""Beam search with the learned decoder finds what the readable search finds with it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from genius.decode.torch_decoder import TorchDecoder
from genius.search.beam import beam_search
from genius.search.codes import PackedCodes
from genius.search.segment_view import SegmentView
from tests.decode.small_decoder import SIZES, network, queries, some_codes
from tests.oracles import beam as oracle
from tests.oracles.trie import Trie


@pytest.mark.parametrize("given", [False, True])
def test_a_learned_decoder_is_searched_alike(given: bool) -> None:
    decoder, codes, vectors = TorchDecoder(network()), some_codes(400), queries(6)
    wanted = np.arange(6) % SIZES[0] if given else None
    packed, _ = PackedCodes.build(codes, SIZES, 1)
    segments = [SegmentView(packed)]
    result = beam_search(decoder, segments, vectors, 12, modality_code=wanted)
    expected = oracle.beam_search(decoder, Trie.build(codes), vectors, 12, modality_code=wanted)
    assert (expected.nodes >= 0).all()
    np.testing.assert_array_equal(
        packed.codes(result.starts[0]).reshape(expected.codes.shape), expected.codes
    )
    np.testing.assert_allclose(result.log_probs.reshape(6, 12), expected.log_probs, atol=1e-5)
    exact = beam_search(decoder, segments, vectors, 12, modality_code=wanted, limit=0)
    for query in range(6):
        rows, exact_rows = (
            {
                row
                for run in range(search.bounds[query], search.bounds[query + 1])
                for row in range(search.starts[0, run], search.ends[0, run])
            }
            for search in (result, exact)
        )
        assert rows == exact_rows
