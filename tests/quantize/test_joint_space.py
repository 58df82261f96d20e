"""The joint space: it closes the gap between modalities, and leaves an encoder alone where there is none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genius.data.records import Vectors
from genius.errors import InputError
from genius.quantize.joint_space import IMAGE, PAIR, TEXT, JointSpace

RNG = np.random.default_rng(0)
WIDTH = 24
CONTENT = RNG.normal(size=(200, WIDTH)).astype(np.float32)
GAP = 3 * RNG.normal(size=(2, WIDTH)).astype(np.float32)
ALL, NONE = np.ones(200, bool), np.zeros(200, bool)


def nearest(queries: np.ndarray, items: np.ndarray) -> np.ndarray:
    return np.asarray((queries @ items.T).argmax(1))


def test_a_text_finds_its_image_among_texts_and_images() -> None:
    """Images and texts of the same contents in two clouds: before, a text's nearest are other texts."""
    noise = 0.3 * RNG.normal(size=(2, *CONTENT.shape)).astype(np.float32)
    images, texts = CONTENT + noise[0] + GAP[0], CONTENT + noise[1] + GAP[1]
    uncentred = JointSpace.uncentred(WIDTH)
    items = uncentred.from_parts(
        (np.concatenate([images, texts[:100]]), np.arange(300) < 200),
        (np.concatenate([images, texts[:100]]), np.arange(300) >= 200),
    )
    space = JointSpace.fit(items, whole=False)

    def right(space: JointSpace) -> float:
        pool = space.moved(items, whole=False).embeddings
        queries = space.from_parts((texts, NONE), (texts, ALL)).embeddings[100:]
        return float((nearest(queries, pool) == np.arange(100, 200)).mean())

    assert right(uncentred) < 0.1
    assert right(space) > 0.9


@pytest.mark.parametrize("whole", [True, False])
def test_items_of_one_kind_keep_the_encoders_own_ranking(whole: bool) -> None:
    images = (CONTENT + GAP[0]).astype(np.float32)
    inputs = JointSpace.uncentred(WIDTH).from_parts((images, ALL), (images, NONE))
    space = JointSpace.fit(inputs, whole=whole)
    assert not space.centres.any()
    units = images / np.linalg.norm(images, axis=1, keepdims=True)
    np.testing.assert_allclose(space.moved(inputs, whole=whole).embeddings, units, atol=1e-6)


def test_length_does_not_count() -> None:
    lengths = RNG.uniform(0.1, 10, (200, 1)).astype(np.float32)
    space = JointSpace(RNG.normal(size=(3, WIDTH)))
    for modality in (IMAGE, TEXT, PAIR):
        kinds = np.full(200, modality)
        np.testing.assert_allclose(
            space.from_wholes(CONTENT, kinds).embeddings,
            space.from_wholes(CONTENT * lengths, kinds).embeddings,
            atol=1e-5,
        )


def test_parts_given_by_the_user_are_parts() -> None:
    space = JointSpace(RNG.normal(size=(3, WIDTH)))
    given = [Vectors(image=CONTENT[0]), Vectors(text=CONTENT[1]), Vectors(image=CONTENT[0], text=CONTENT[1])]
    embeddings = space.from_vectors(given, np.array([IMAGE, TEXT, PAIR])).embeddings
    both = embeddings[0] + embeddings[1]
    np.testing.assert_allclose(embeddings[2], both / np.linalg.norm(both), atol=1e-6)
    with pytest.raises(InputError, match="give all alike"):
        space.from_vectors([Vectors(CONTENT[0]), Vectors(image=CONTENT[0])], np.array([TEXT, IMAGE]))
    with pytest.raises(InputError, match="a vector has 2 numbers, and this model takes 24"):
        space.from_vectors([Vectors([1.0, 2.0])], np.array([TEXT]))


def test_it_survives_being_written(tmp_path: Path) -> None:
    space = JointSpace(RNG.normal(size=(3, WIDTH)))
    space.write(tmp_path / "space.safetensors")
    np.testing.assert_array_equal(JointSpace.open(tmp_path / "space.safetensors").centres, space.centres)
