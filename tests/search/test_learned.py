"""The engine with the learned decoder finds what the readable search finds with it."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from genius.decode.torch_decoder import TorchDecoder
from genius.search.beam import walk
from genius.search.codes import PackedCodes
from genius.search.segment_view import Part
from tests.decode.small_decoder import SIZES, network, queries, some_codes
from tests.oracles.beam import beam_search
from tests.oracles.trie import Trie


@pytest.mark.parametrize("known", [False, True])
def test_a_learned_decoder_is_searched_alike(known: bool) -> None:
    decoder, codes, vectors = TorchDecoder(network()), some_codes(400), queries(6)
    first = np.arange(6) % SIZES[0] if known else None
    packed, _ = PackedCodes.build(codes, SIZES, 1)
    found = walk(decoder, [Part(packed)], vectors, 12, first=first)
    expected = beam_search(decoder, Trie.build(codes), vectors, 12, first=first)
    assert (expected.nodes >= 0).all()
    np.testing.assert_array_equal(packed.codes(found.starts[0]).reshape(expected.codes.shape), expected.codes)
    np.testing.assert_allclose(found.scores.reshape(6, 12), expected.scores, atol=1e-5)
    exact = walk(decoder, [Part(packed)], vectors, 12, first=first, limit=0)
    assert exact.depths.min() <= len(SIZES)
    for query in range(6):
        one, two = (
            {
                row
                for run in range(some.bounds[query], some.bounds[query + 1])
                for row in range(some.starts[0, run], some.ends[0, run])
            }
            for some in (found, exact)
        )
        assert one == two
