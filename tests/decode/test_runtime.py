"""The decoder as ONNX graphs, beside torch and beside `generate` of transformers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("onnx")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from genius.decode import export  # noqa: E402
from genius.decode.decoder import Decoder  # noqa: E402
from genius.decode.export import export_decoder  # noqa: E402
from genius.decode.onnx_decoder import WEIGHTS, OnnxDecoder, Precision, graph_file  # noqa: E402
from genius.decode.t5 import CodeNetwork  # noqa: E402
from genius.decode.torch_decoder import TorchDecoder  # noqa: E402
from genius.errors import GeniusError, InputError  # noqa: E402
from tests.decode.small_decoder import SIZES, as_t5, network, queries, some_codes  # noqa: E402
from tests.decode.test_decoder import changed  # noqa: E402
from tests.oracles.beam import Beams, beam_search, ranked_items  # noqa: E402
from tests.oracles.trie import Trie  # noqa: E402

NETWORK = network()
CODES = np.unique(some_codes(150), axis=0)
TRIE = Trie.build(CODES)


def onnx(made: CodeNetwork = NETWORK, precision: Precision = "fp32") -> OnnxDecoder:
    exported = export_decoder(made, queries(4), some_codes(4, made.sizes))
    return OnnxDecoder(exported.graphs[precision], made.codes.weight.detach().numpy(), made.sizes, threads=1)


DECODERS: dict[str, Decoder] = {"torch": TorchDecoder(NETWORK), "onnx": onnx()}


# --- beside transformers


def generated(made: CodeNetwork, vectors: np.ndarray, codes: np.ndarray, beams: int) -> list[list[Any]]:
    """What `generate` finds for each query: codes with scores, best first.

    It would normalise over all codes of all levels. So a processor that normalises inside the level comes
    first, and then the one that `prefix_allowed_tokens_fn` becomes (given as such it would come first).
    """
    from transformers import LogitsProcessor, LogitsProcessorList, PrefixConstrainedLogitsProcessor
    from transformers.modeling_outputs import BaseModelOutput

    first, sizes = torch.tensor(made.offsets), made.sizes
    known = {(): set()} | {tuple(row[:level]): set() for row in codes.tolist() for level in range(len(sizes))}
    for row in codes.tolist():
        for level, code in enumerate(row):
            known[tuple(row[:level])].add(made.offsets[level] + code)

    def allowed(_: int, tokens: Any) -> list[int]:
        prefix = (tokens[1:] - first[: len(tokens) - 1]).tolist()
        return sorted(known.get(tuple(prefix), {0}))  # (a beam that ran out of codes goes on with nothing)

    class InsideTheLevel(LogitsProcessor):
        def __call__(self, tokens: Any, scores: Any) -> Any:
            level = tokens.shape[1] - 1
            inside = slice(made.offsets[level], made.offsets[level] + sizes[level])
            levelled = torch.full_like(scores, -torch.inf)
            levelled[:, inside] = scores[:, inside].log_softmax(1)
            return levelled

    processors = [InsideTheLevel(), PrefixConstrainedLogitsProcessor(allowed, beams)]
    model = as_t5(made, encoder_layers=made.settings.layers)
    settings = made.settings
    with torch.no_grad():
        prefix = made.prefix(torch.from_numpy(vectors)).view(-1, settings.prefix, settings.width)
        memory = made.prefix_norm(prefix)
        found = model.generate(
            encoder_outputs=BaseModelOutput(last_hidden_state=memory),
            attention_mask=torch.ones(memory.shape[:2], dtype=torch.long),
            num_beams=beams,
            num_return_sequences=beams,
            max_new_tokens=len(sizes),
            early_stopping=True,
            length_penalty=0.0,
            do_sample=False,
            logits_processor=LogitsProcessorList(processors),
            output_scores=True,
            return_dict_in_generate=True,
        )
    rows = (found.sequences[:, 1:] - first).view(len(vectors), beams, -1).tolist()
    scores = found.sequences_scores.view(len(vectors), beams).tolist()
    return [
        list(zip(map(tuple, some), values, strict=True)) for some, values in zip(rows, scores, strict=True)
    ]


@pytest.mark.filterwarnings("default")  # transformers says this and that about its own settings
@pytest.mark.parametrize("name", ["torch", "onnx"])
@pytest.mark.parametrize("shape", ["with a modality", "without"])
def test_finds_what_generate_finds_in_the_same_order(name: str, shape: str) -> None:
    pytest.importorskip("transformers")
    sizes = SIZES if shape == "with a modality" else (17, 13, 11)
    made = network(sizes, seed=3)
    decoder: Decoder = TorchDecoder(made) if name == "torch" else onnx(made)
    codes, vectors, beams = np.unique(some_codes(300, sizes), axis=0), queries(6, seed=4), 20
    found = beam_search(decoder, Trie.build(codes), vectors, beams)
    for query, expected in enumerate(generated(made, vectors, codes, beams)):
        assert [tuple(code) for code in found.codes[query].tolist()] == [code for code, _ in expected]
        np.testing.assert_allclose(found.scores[query], [score for _, score in expected], atol=1e-3)


# --- beside brute force


def every_score(made: CodeNetwork, vectors: np.ndarray, codes: np.ndarray, *, known: bool) -> np.ndarray:
    """The summed log-probabilities [queries, codes] of all codes by teacher forcing."""
    totals = np.zeros((len(vectors), len(codes)), np.float32)
    with torch.no_grad():
        for query, vector in enumerate(vectors):
            logits = made(torch.from_numpy(np.tile(vector, (len(codes), 1))), torch.from_numpy(codes))
            for level in range(1 if known else 0, len(logits)):
                chances = logits[level].log_softmax(1).numpy()
                totals[query] += chances[np.arange(len(codes)), codes[:, level]]
    return totals


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("name", DECODERS)
def test_a_beam_as_wide_as_the_pool_is_exhaustive(name: str, known: bool) -> None:
    vectors = queries(5)
    first = np.array([0, 1, 2, 0, 1]) if known else None
    found = beam_search(DECODERS[name], TRIE, vectors, len(CODES), first=first)
    scores, items = ranked_items(TRIE, found, len(CODES))
    expected = every_score(NETWORK, vectors, CODES, known=known)
    if first is not None:
        expected[CODES[None, :, 0] != first[:, None]] = -np.inf
    for query in range(5):
        reach = np.isfinite(expected[query])
        assert sorted(items[query, : reach.sum()].tolist()) == np.flatnonzero(reach).tolist()
        np.testing.assert_allclose(scores[query, : reach.sum()], -np.sort(-expected[query, reach]), atol=1e-4)


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_a_query_finds_the_same_in_any_company(data: st.DataObject) -> None:
    """Also where queries have different numbers of rows, or one wants what is not there."""
    count = data.draw(st.integers(1, 7))
    first = data.draw(st.none() | st.lists(st.integers(-1, 3), min_size=count, max_size=count))
    wanted = None if first is None else np.array(first)
    decoder, vectors = DECODERS[data.draw(st.sampled_from(sorted(DECODERS)))], queries(count)
    together = beam_search(decoder, TRIE, vectors, 12, first=wanted)
    for query in range(count):
        one = slice(query, query + 1)
        alone = beam_search(decoder, TRIE, vectors[one], 12, first=None if wanted is None else wanted[one])
        np.testing.assert_array_equal(alone.codes[0], together.codes[query])
        np.testing.assert_allclose(alone.scores[0], together.scores[query], atol=1e-4)


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("known", [False, True])
def test_finished_queries_leave_and_the_others_go_on_as_if_alone(name: str, known: bool) -> None:
    """Three queries, of which one has no row left after each level; the network no longer sees them."""
    decoder, vectors, codes = DECODERS[name], queries(3), some_codes(3)
    first = codes[:, 0] if known else None
    alone = [decoder.begin(vectors[[one]], None if first is None else first[[one]]) for one in range(3)]
    decoding = decoder.begin(vectors, first)
    level = int(known)
    while True:
        left = list(range(max(0, level - 1), 3))
        expected = np.concatenate([alone[one].scores() for one in left])
        np.testing.assert_allclose(decoding.scores(), expected, atol=1e-5)
        if len(left) == 1 or level == len(SIZES) - 1:
            break
        going = [one for one in left if one >= level]
        decoding.advance(np.array([left.index(one) for one in going]), codes[going, level])
        for one in going:
            alone[one].advance(np.array([0]), codes[[one], level])
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
    decoding = decoder.begin(queries(4), np.zeros(4, np.int64))
    decoding.advance(np.array([1, 1, 3]), np.array([0, 1, 2]))
    decoding.advance(np.array([2]), np.array([1]))
    assert sizes == [4, 2, 1]


@pytest.mark.parametrize("name", DECODERS)
def test_no_queries_find_nothing(name: str) -> None:
    for first in (None, np.zeros(0, np.int64)):
        assert beam_search(DECODERS[name], TRIE, queries(0), 5, first=first).codes.shape == (0, 5, 4)


# --- precision


def overlap(one: Beams, two: Beams) -> float:
    pairs = zip(one.nodes.tolist(), two.nodes.tolist(), strict=True)
    return float(np.mean([len(set(a) & set(b)) / len(set(a) | set(b)) for a, b in pairs]))


def test_8_bits_find_nearly_the_same() -> None:
    made = network(settings=changed(width=64, feed_forward=128, head_width=16))
    vectors = queries(20)
    exact = beam_search(TorchDecoder(made), TRIE, vectors, 20)
    rounded = beam_search(onnx(made, "int8"), TRIE, vectors, 20)
    assert overlap(exact, rounded) > 0.8


def test_graphs_say_how_far_they_are_from_torch_and_are_refused_if_too_far(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    exported = export_decoder(NETWORK, queries(4), some_codes(4))
    assert 0 < exported.largest["fp32"] < 1e-4 < exported.mean["int8"] < exported.largest["int8"] < 1
    monkeypatch.setattr(export, "TOLERANCE", {"fp32": 1e-3, "int8": 1e-5})
    with pytest.raises(GeniusError, match="int8 graph differs from torch by"):
        export_decoder(NETWORK, queries(4), some_codes(4))
    with pytest.raises(InputError, match="along codes of some queries"):
        export_decoder(NETWORK, queries(4), some_codes(3))


def test_an_opened_decoder_needs_no_torch(tmp_path: Path) -> None:
    made = network(settings=changed(prefix_hidden=6))
    exported = export_decoder(made, queries(4), some_codes(4))
    save_file(made.state_dict(), tmp_path / WEIGHTS)
    for graph, content in exported.graphs["fp32"].items():
        (tmp_path / graph_file(graph, "fp32")).write_bytes(content)
    vectors, codes = queries(3), [0, 2, 1]
    np.save(tmp_path / "vectors.npy", vectors)
    code = f"""
import sys, numpy
from pathlib import Path
from genius.decode.onnx_decoder import OnnxDecoder
decoder = OnnxDecoder.open(Path({str(tmp_path)!r}).joinpath, {SIZES}, threads=1)
scores = decoder.begin(numpy.load({str(tmp_path / "vectors.npy")!r}), numpy.array({codes})).scores()
numpy.save({str(tmp_path / "scores.npy")!r}, scores)
assert not {{"torch", "onnx", "transformers"}} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    expected = TorchDecoder(made).begin(vectors, np.array(codes)).scores()
    np.testing.assert_allclose(np.load(tmp_path / "scores.npy"), expected, atol=1e-4)


def test_levels_of_many_codes_are_compared_in_8_bits() -> None:
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
        one, other = exact.scores(), rounded.scores()
        assert one.shape == other.shape
        assert np.corrcoef(one.ravel(), other.ravel())[0, 1] > 0.998
        np.testing.assert_allclose(np.exp(other).sum(axis=1), 1, atol=1e-4)
