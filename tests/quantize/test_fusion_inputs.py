from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.quantize.fusion_inputs import FusionInputs, concatenate

WIDTH = 3


def rows(kinds: list[str], seed: int, dtype: type = np.float32) -> tuple[FusionInputs, dict[str, np.ndarray]]:
    """Parts of records (`i`mage, `t`ext or `b`oth), and the inputs of the fusion as they should be."""
    random = np.random.default_rng(seed)
    shape = (len(kinds), WIDTH)
    embeddings, image, text = random.standard_normal((3, *shape)).astype(dtype)
    has_image = np.array([kind in "ib" for kind in kinds], bool)
    has_text = np.array([kind in "tb" for kind in kinds], bool)
    both = (has_image & has_text)[:, None]
    expected = {
        "embeddings": embeddings,
        "image": np.where(both, image, embeddings),
        "has_image": has_image,
        "text": np.where(both, text, embeddings),
        "has_text": has_text,
    }
    lengths = None
    if seed % 2:  # some blocks have features of unit length
        lengths = random.random((len(kinds), 2)).astype(np.float32)
    both_lengths = np.ones((len(kinds), 2), np.float32) if lengths is None else lengths
    expected |= {"image_length": both_lengths[:, 0], "text_length": both_lengths[:, 1]}
    return FusionInputs.from_parts(embeddings, (image, has_image), (text, has_text), lengths), expected


def check(inputs: dict[str, np.ndarray], expected: dict[str, np.ndarray], chosen: np.ndarray | slice) -> None:
    names = ["embeddings", "image", "has_image", "text", "has_text", "image_length", "text_length"]
    assert list(inputs) == names
    for name, value in expected.items():
        np.testing.assert_array_equal(inputs[name], value[chosen])
        assert inputs[name].dtype == (bool if name.startswith("has") else np.float32)


KINDS = st.lists(st.sampled_from("itb"), max_size=12)


@given(st.lists(KINDS, min_size=1, max_size=4), st.data())
def test_any_rows_of_any_blocks(blocks: list[list[str]], data: st.DataObject) -> None:
    made = [rows(kinds, number) for number, kinds in enumerate(blocks)]
    inputs = concatenate([block for block, _ in made])
    expected = {name: np.concatenate([given[name] for _, given in made]) for name in made[0][1]}
    assert len(inputs) == sum(map(len, blocks))
    assert inputs.width == WIDTH
    check(inputs[:], expected, slice(None))
    if len(inputs):
        chosen = np.array(data.draw(st.lists(st.integers(0, len(inputs) - 1), max_size=20)), np.int64)
        check(inputs[chosen], expected, chosen)


def test_parts_are_stored_for_records_with_both_only() -> None:
    inputs, _ = rows(list("itbtbi"), 0)
    assert inputs.image_parts.shape == inputs.text_parts.shape == (2, WIDTH)
    assert inputs.part_rows.tolist() == [-1, -1, 0, -1, 1, -1]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_the_fusion_gets_single_precision_and_may_write_into_it(dtype: type) -> None:
    inputs, expected = rows(list("itb"), 1, dtype)
    for name, value in inputs[:].items():
        if not name.startswith("has"):
            value[:] = 0
    check(inputs[:], expected, slice(None))
