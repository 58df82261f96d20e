"""The text tower in 8 bits gives almost what that in single precision gives, whatever is beside a text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genius.encode import lite, lite_text, lite_text_int8
from genius.encode import lite_weights as weights
from genius.encode.checkpoints import read_checkpoint
from genius.encode.lite_text_int8 import rounded_matrix
from genius.errors import InputError
from genius.runtime import session
from tests.encode.small_towers import bert_weights, run_graph, small_sizes, write_small_towers

TEXTS = ["a red square", "the blue square of one picture", "green", "a picture that matches the text ."]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> lite.Lite:
    return lite.Lite.open(write_small_towers(tmp_path_factory.mktemp("towers") / "lite", "int8"), threads=2)


def cosines(values: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Of each row with the expected one."""
    lengths = np.linalg.norm(values, axis=1) * np.linalg.norm(expected, axis=1)
    return np.asarray((values * expected).sum(axis=1) / lengths)


def test_features_are_almost_those_of_single_precision() -> None:
    words = bert_weights(40, width=48, layers=3)
    ids = np.random.default_rng(0).integers(0, 40, (1, 11))
    expected = run_graph(lite_text.build(words), ids=ids, mask=np.ones_like(ids))
    outputs = run_graph(lite_text_int8.build(words, small_sizes(words)), ids=ids)
    assert outputs.keys() == expected.keys()
    np.testing.assert_allclose(outputs["words"], expected["words"], atol=1e-5)  # no matrix before it
    for name in ("mean", "max"):
        assert cosines(outputs[name], expected[name]).min() > 0.99, name


def test_a_large_token_and_a_large_channel_cost_the_others_little() -> None:
    """One unit for all of a matrix's input would leave hardly any bits to what is much smaller."""
    words = bert_weights(40, width=48, layers=2)
    for layer in range(2):
        words[f"encoder.layer.{layer}.attention.output.LayerNorm.weight"][5] = 40
        words[f"encoder.layer.{layer}.intermediate.dense.weight"][:, 5] /= 40
    ids = np.random.default_rng(1).integers(0, 40, (1, 9))
    expected = run_graph(lite_text.build(words), ids=ids, mask=np.ones_like(ids))
    careful = run_graph(lite_text_int8.build(words, small_sizes(words)), ids=ids)
    even = {name: np.ones_like(sizes) for name, sizes in small_sizes(words).items()}
    careless = run_graph(lite_text_int8.build(words, even), ids=ids)
    others = np.arange(48) != 5
    off = [np.linalg.norm((run["mean"] - expected["mean"])[:, others]) for run in (careful, careless)]
    assert off[0] < off[1]
    assert cosines(careful["mean"][:, others], expected["mean"][:, others]).min() > 0.99


def test_features_are_the_same_in_any_batch(encoder: lite.Lite) -> None:
    together = encoder.encode_texts(TEXTS)
    alone = np.concatenate([encoder.encode_texts([text]) for text in TEXTS])
    np.testing.assert_array_equal(together, alone)


def test_towers_in_single_precision_are_read_as_ever(encoder: lite.Lite, tmp_path: Path) -> None:
    single = lite.Lite.open(write_small_towers(tmp_path / "lite"), threads=1)
    assert single.text_parts == encoder.text_parts
    assert single.image_parts == encoder.image_parts
    assert cosines(single.encode_texts(TEXTS), encoder.encode_texts(TEXTS)).min() > 0.98


@pytest.mark.parametrize("largest", [63, 127])
def test_a_rounded_matrix_is_off_by_half_a_unit(largest: int) -> None:
    matrix = np.random.default_rng(0).normal(size=(5, 36)).astype(np.float32)
    matrix[2] = 0
    rounded, units = rounded_matrix(matrix, largest)
    assert np.abs(rounded).max() == largest
    assert (np.abs(rounded * units[:, None] - matrix).max(axis=1) <= units * 0.5001).all()
    assert not rounded[2].any()


def test_sizes_are_there_for_every_layer_of_the_real_tower() -> None:
    """So that it can be built; whoever has fetched the weights builds it here."""
    sizes = lite_text_int8.read_sizes()
    assert len(sizes) == 12
    assert all(own.shape == (384,) and (own > 0).all() for own in sizes.values())
    if weights.path_of(weights.TEXT).is_file():
        tower = session(lite_text_int8.build(read_checkpoint(weights.path_of(weights.TEXT)), sizes))
        assert tower.run(["mean"], {"ids": np.array([[101, 3899, 102]])})[0].shape == (1, 384)


def test_other_weights_are_refused() -> None:
    with pytest.raises(InputError, match="no weights of a BERT encoder"):
        lite_text_int8.build({"x": np.zeros(3)}, {})
