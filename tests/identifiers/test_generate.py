"""Our decoder with rivals' identifiers finds what `generate` of transformers finds."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("transformers")

from genius.decode.decoder import Decoder
from genius.decode.torch_decoder import TorchDecoder
from genius.identifiers.identifiers import Identifiers
from genius.identifiers.scheme import RIVALS, RivalName
from genius.search.code_pool import CodePool
from tests.decode.small_decoder import network, onnx, queries
from tests.identifiers.small_items import items, training_texts
from tests.oracles.generate import generate

BEAMS = 12


@pytest.mark.filterwarnings("default")  # transformers warns about its own settings
@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize("kind", ["torch", "onnx"])
def test_the_engine_finds_what_generate_finds(name: RivalName, kind: str) -> None:
    """Items of the best identifiers in the same order; of shared identifiers all items."""
    known = items(250)
    identifiers = Identifiers.fit(name, known, training_texts(), seed=1)
    codes = identifiers.codes(known).astype(np.int64)
    made = network(identifiers.sizes, seed=2)
    decoder: Decoder = TorchDecoder(made) if kind == "torch" else onnx(made)
    pool, vectors = CodePool(codes, None, identifiers.semantic, identifiers.sizes), queries(3, seed=4)
    results, _ = pool.search(decoder, vectors, [np.array([0])] * 3, k=BEAMS, beams=BEAMS)
    for query, expected in enumerate(generate(made, vectors, np.unique(codes, axis=0), BEAMS)):
        best = [code for code, _ in expected]
        found_codes = [tuple(codes[item].tolist()) for item in results[query]]
        assert list(dict.fromkeys(found_codes)) == best[: len(set(found_codes))]
        for code in found_codes[:-1]:  # all but perhaps the last are there with all their items
            if code != found_codes[-1]:
                assert found_codes.count(code) == (codes == code).all(1).sum()
