from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from genius.encode.projection import LIKELIEST, ClassNaming, Projection, kept_parts
from genius.errors import InputError


@pytest.mark.parametrize(
    "parts",
    [{"mean": 5, "logits": 30}, {"mean": 5, "logits": 30, "second_mean": 4, "second_logits": 30}],
)
def test_an_image_is_named_by_its_likeliest_classes(parts: dict[str, int]) -> None:
    """Against the direct computation, row by row, by one network and by two."""
    random = np.random.default_rng(0)
    text = Projection({"mean": 8}, {"mean": 4}, raw=3)
    text.fit(random.normal(size=(60, 8)).astype(np.float32), 0.0)
    naming = ClassNaming(parts, raw=3)
    sentences = random.normal(size=(30, 8)).astype(np.float32)
    features = random.normal(size=(10, sum(parts.values())), scale=2).astype(np.float32)
    naming.fit(torch.from_numpy(sentences), text, torch.from_numpy(features))
    named = naming(torch.from_numpy(features)).numpy()
    unit = sentences / np.linalg.norm(sentences, axis=1, keepdims=True)
    names = unit @ text.get_buffer("raw_directions").numpy()
    mixed = []
    for row in features:
        by_network = []
        for logits in (row[5:35], row[39:])[: len(parts) // 2]:
            shares = np.exp(logits) / np.exp(logits).sum()
            likeliest = np.argsort(-shares)[:LIKELIEST]
            weights = np.sqrt(shares[likeliest])
            by_network.append((weights / weights.sum()) @ names[likeliest])
        mixed.append(np.mean(by_network, axis=0))
    centred = np.array(mixed) - np.mean(mixed, axis=0)
    np.testing.assert_allclose(named, centred / np.linalg.norm(centred, axis=1, keepdims=True), atol=1e-4)


def test_features_without_classes_name_no_image() -> None:
    with pytest.raises(InputError, match="have no class logits"):
        ClassNaming({"features": 10}, raw=3)


def test_projection_equals_principal_components() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 8)) @ random.normal(size=(8, 8)) + 3
    projection = Projection({"mean": 8}, {"mean": 3}, raw=2)
    projection.fit(rows.astype(np.float32), whitening=1.0)
    with torch.no_grad():
        projected = projection(torch.from_numpy(rows.astype(np.float32))).numpy()
    _, _, directions = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    expected = (rows - rows.mean(0)) @ directions[:3].T
    expected /= expected.std(0)
    for place in range(3):
        assert abs(np.corrcoef(projected[:, place], expected[:, place])[0, 1]) == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(
        projected[:, :3].std(0), 1, rtol=0.01
    )  # whitened: all directions equally strong
    np.testing.assert_allclose(np.linalg.norm(projected[:, 3:], axis=1), 1, rtol=1e-4)


def test_bad_parts() -> None:
    parts = {"mean": 10, "max": 6}
    with pytest.raises(InputError, match="have no part 'last'; they have mean, max"):
        Projection(parts, {"last": 3}, 2)
    with pytest.raises(InputError, match="part 'max' has 6 numbers, so 7 can't be kept"):
        Projection(parts, {"max": 7}, 2)
    with pytest.raises(InputError, match="'mean' should be a part's name and how many numbers to keep"):
        kept_parts(["mean"])
    with pytest.raises(InputError, match="NaN or infinite"):
        Projection({"mean": 8}, {"mean": 3}, 2).fit(np.full((4, 8), np.nan), 0.0)
