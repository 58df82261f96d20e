"""The graphs beside torch, in single precision and in 8 bits."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from genius.decode import export
from genius.decode.export import export_decoder
from genius.decode.onnx_decoder import OnnxDecoder
from genius.decode.torch_decoder import TorchDecoder
from genius.errors import GeniusError, InputError
from genius.runtime import session
from tests.decode.small_decoder import changed, network, onnx, queries, some_codes
from tests.oracles.beam import Beams, beam_search
from tests.oracles.trie import Trie


def overlap(first: Beams, second: Beams) -> float:
    pairs = zip(first.nodes.tolist(), second.nodes.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(set(a) | set(b)) for a, b in pairs]))


def test_beams_in_8_bits_are_nearly_the_same() -> None:
    made = network(settings=changed(width=64, feed_forward=128, head_width=16))
    vectors = queries(20)
    trie = Trie.build(np.unique(some_codes(150), axis=0))
    exact = beam_search(TorchDecoder(made), trie, vectors, 20)
    rounded = beam_search(onnx(made, "int8"), trie, vectors, 20)
    assert overlap(exact, rounded) > 0.8


def test_graphs_say_how_far_they_are_from_torch_and_are_refused_if_too_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = network()
    exported = export_decoder(made, queries(4), some_codes(4))
    assert 0 < exported.largest["fp32"] < 1e-4 < exported.mean["int8"] < exported.largest["int8"] < 1
    monkeypatch.setattr(export, "TOLERANCE", {"fp32": 1e-3, "int8": 1e-5})
    with pytest.raises(GeniusError, match="int8 graph differs from torch by"):
        export_decoder(made, queries(4), some_codes(4))
    assert set(export_decoder(made, queries(4), some_codes(4), needs_8_bits=False).graphs) == {"fp32"}
    with pytest.raises(InputError, match="along codes of some queries"):
        export_decoder(made, queries(4), some_codes(3))


def test_levels_of_many_codes_have_their_logits_in_8_bits() -> None:
    sizes = (3, 1024, 5, 1500)
    made = network(sizes=sizes)
    vectors, codes = queries(16), some_codes(16, sizes)
    exported = export_decoder(made, vectors, codes)
    assert set(exported.graphs["int8"]) == {"prefix", "step", "head-1", "head-3"}
    assert set(exported.graphs["fp32"]) == {"prefix", "step"}
    table = made.codes.weight.detach().numpy()
    exact, rounded = (
        OnnxDecoder(exported.graphs[precision], table, sizes, threads=1).begin(vectors)
        for precision in ("fp32", "int8")
    )
    for level in range(len(sizes)):
        if level:
            exact.advance(np.arange(16), codes[:, level - 1])
            rounded.advance(np.arange(16), codes[:, level - 1])
        expected, scores = exact.scores(), rounded.scores()
        assert scores.shape == expected.shape
        assert np.corrcoef(scores.ravel(), expected.ravel())[0, 1] > 0.998
        np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1, atol=1e-4)


def test_graphs_have_the_inputs_and_outputs_of_format_1() -> None:
    """Graphs are files of models, which every later version has to run."""
    graphs = export_decoder(network(settings=changed(layers=1)), queries(4), some_codes(4)).graphs["fp32"]
    prefix, step = (session(graphs[name], threads=1) for name in ("prefix", "step"))
    assert [value.name for value in prefix.get_inputs()] == ["vectors"]
    assert [value.name for value in prefix.get_outputs()] == ["key_0", "value_0"]
    assert {value.name for value in step.get_inputs()} == {
        *("embedded", "distances", "paths"),
        *("memory_key_0", "memory_value_0", "past_key_0", "past_value_0"),
    }
    assert {value.name for value in step.get_outputs()} == {"hidden", "key_0", "value_0"}
