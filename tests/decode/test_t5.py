from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from genius.decode.t5 import DecoderSettings, Dropout, T5Decoder, relative_position_buckets
from genius.decode.torch_decoder import TorchDecoder
from genius.errors import InputError
from tests.decode.small_decoder import (
    SETTINGS,
    SIZES,
    WIDTH,
    as_t5,
    changed,
    network,
    onnx,
    prefixes,
    queries,
    some_codes,
)

CONFIGURATIONS: dict[str, tuple[tuple[int, ...], DecoderSettings]] = {
    "small": (SIZES, SETTINGS),
    "perceptron": (SIZES, changed(prefix_hidden=9)),
    "one level": ((6,), changed(layers=1)),
    "no modality": ((11, 12, 13), changed(layers=3, heads=2)),
    "far": ((4,) * 14, changed(buckets=8, max_distance=11)),
    "T5-small": (
        (3, 32, 32, 32),
        changed(layers=6, width=512, heads=8, head_width=64, feed_forward=2048, prefix=30),
    ),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_equals_the_t5_of_transformers(name: str) -> None:
    pytest.importorskip("transformers")
    sizes, chosen = CONFIGURATIONS[name]
    ours = network(sizes, chosen)
    theirs = as_t5(ours)
    vectors, codes = queries(5), torch.from_numpy(some_codes(5, sizes))
    tokens = torch.cat([torch.zeros(5, 1, dtype=torch.long), codes + torch.tensor(ours.offsets)], 1)[:, :-1]
    with torch.no_grad():
        expected = theirs(
            inputs_embeds=prefixes(ours, vectors), decoder_input_ids=tokens, use_cache=False
        ).logits
        logits = ours(torch.from_numpy(vectors), codes)
    assert [tuple(level.shape) for level in logits] == [(5, size) for size in sizes]
    for level, (first, size) in enumerate(zip(ours.offsets, sizes, strict=True)):
        wanted = expected[:, level, first : first + size]
        assert torch.allclose(logits[level], wanted, atol=1e-5 * max(1.0, float(wanted.abs().max())))


WHOLE = changed(normalisation="vocabulary", special_tokens=2)


def test_probabilities_over_the_whole_vocabulary_equal_those_of_transformers() -> None:
    """Of the start token, all levels' codes and two special tokens; in training and along beams."""
    pytest.importorskip("transformers")
    ours = network(settings=WHOLE)
    assert len(ours.codes.weight) == 1 + sum(SIZES) + 2
    vectors, codes = queries(5), torch.from_numpy(some_codes(5))
    targets = ours.targets(codes)
    tokens = torch.cat([torch.zeros(5, 1, dtype=torch.long), targets], 1)[:, :-1]
    with torch.no_grad():
        theirs = as_t5(ours)(
            inputs_embeds=prefixes(ours, vectors), decoder_input_ids=tokens, use_cache=False
        ).logits
        logits = ours(torch.from_numpy(vectors), codes)
    torch.testing.assert_close(torch.stack(logits, 1), theirs, atol=2e-5, rtol=1e-5)
    expected = theirs.log_softmax(2).numpy()
    decoders = ((TorchDecoder(ours), 2e-5), (onnx(ours), 2e-5), (onnx(ours, "int8"), 1.0))
    for decoder, tolerance in decoders:
        state = decoder.begin(vectors)
        for level, (first, size) in enumerate(zip(ours.offsets, SIZES, strict=True)):
            scores = state.scores()
            wanted = expected[:, level, first : first + size]
            assert np.abs(scores - wanted).max() < tolerance
            assert (np.exp(scores).sum(1) < 1).all(), "some of it is other tokens'"
            if level + 1 < len(SIZES):
                state.advance(np.arange(5), codes[:, level].numpy())


def test_a_code_is_scored_by_those_before_it_alone() -> None:
    ours, vectors, codes = network(), torch.from_numpy(queries(1)), torch.from_numpy(some_codes(1))
    with torch.no_grad():
        before = ours(vectors, codes)
        for level in range(len(SIZES)):
            other = codes.clone()
            other[:, level] = (other[:, level] + 1) % SIZES[level]
            after = ours(vectors, other)
            same = [torch.equal(one, two) for one, two in zip(before, after, strict=True)]
            assert same == [number <= level for number in range(len(SIZES))]


def test_embeddings_start_near_where_codes_are_near() -> None:
    random = np.random.default_rng(0)
    books = [random.normal(size=(size, WIDTH)).astype(np.float32) for size in SIZES]
    books[1][4] = 3 * books[1][2] + 0.01  # nearly the same direction
    made = T5Decoder(WIDTH, SIZES, changed(start_from_codebooks=True, width=256, start_scale=2.0), books)
    table = made.codes.weight.detach().numpy()
    assert table[1:].std() == pytest.approx(2.0, rel=0.1)
    first = made.offsets[1]
    similar = np.corrcoef(table[first : first + SIZES[1]])
    assert similar[2, 4] > 0.99
    assert np.abs(similar[2, [0, 1, 3]]).max() < 0.95


def test_distances_have_buckets_as_in_t5() -> None:
    modeling = pytest.importorskip("transformers.models.t5.modeling_t5")
    for buckets, farthest in ((32, 128), (8, 20), (6, 4)):
        expected = modeling.T5Attention._relative_position_bucket(
            -torch.arange(200), bidirectional=False, num_buckets=buckets, max_distance=farthest
        )
        np.testing.assert_array_equal(relative_position_buckets(200, buckets, farthest), expected.numpy())


def test_bad_settings() -> None:
    for wrong in ({"layers": 0}, {"prefix_hidden": -1}):
        with pytest.raises(InputError, match="should be at least 1"):
            changed(**wrong)
    with pytest.raises(InputError, match="dropout should be a share"):
        changed(dropout=1.0)
    with pytest.raises(InputError, match="special_tokens should be at least 0"):
        changed(special_tokens=-1)
    with pytest.raises(InputError, match="max_distance above half"):
        changed(max_distance=16)
    with pytest.raises(InputError, match="start_from_codebooks needs the codebooks"):
        network(settings=changed(start_from_codebooks=True))


def test_training_computes_what_a_search_does_if_nothing_is_dropped() -> None:
    ours, vectors, codes = network(SIZES, changed(dropout=1e-9)), torch.from_numpy(queries(5)), some_codes(5)
    logits, gradients = [], []
    for training in (True, False):
        ours.train(training).zero_grad()
        logits.append(torch.cat(ours(vectors, torch.from_numpy(codes)), 1))
        logits[-1].square().sum().backward()
        gradients.append([parameter.grad for parameter in ours.parameters()])
    torch.testing.assert_close(logits[0], logits[1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(gradients[0], gradients[1], rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("rate", [0.1, 0.5])
def test_dropout_drops_a_share_and_keeps_the_mean(rate: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    dropout, rows = Dropout(rate), torch.ones(999, 501, dtype=dtype, requires_grad=True)
    dropped = dropout(rows)
    kept = dropped != 0
    assert abs(float(kept.float().mean()) - (1 - rate)) < 0.003
    assert torch.allclose(dropped[kept].float(), torch.tensor(1 / (1 - rate)), rtol=5e-3)
    # Neither neighbours nor rows depend on each other.
    for other in (kept.roll(1, 0), kept.roll(1, 1), kept.roll(4, 1)):
        assert abs(float((kept & other).float().mean()) - (1 - rate) ** 2) < 0.004
    dropped.sum().backward()
    torch.testing.assert_close(rows.grad, dropped)
    assert not torch.equal(dropout(rows), dropped) and dropout.eval()(rows) is rows
