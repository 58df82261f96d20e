from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from genius.encode.lite import LIKELIEST, Naming  # noqa: E402
from genius.encode.projection import Projection  # noqa: E402
from genius.errors import InputError  # noqa: E402


def test_a_picture_is_named_by_its_likeliest_classes() -> None:
    """Against the direct computation, row by row."""
    random = np.random.default_rng(0)
    text = Projection({"mean": 8}, {"mean": 4}, raw=3)
    text.fit(random.normal(size=(60, 8)).astype(np.float32), 0.0)
    naming = Naming({"mean": 5, "logits": 30}, raw=3)
    sentences = random.normal(size=(30, 8)).astype(np.float32)
    features = random.normal(size=(10, 35), scale=2).astype(np.float32)
    naming.fit(torch.from_numpy(sentences), text, torch.from_numpy(features))
    found = naming(torch.from_numpy(features)).numpy()
    unit = sentences / np.linalg.norm(sentences, axis=1, keepdims=True)
    names = unit @ text.get_buffer("raw_directions").numpy()
    mixed = []
    for row in features:
        shares = np.exp(row[5:]) / np.exp(row[5:]).sum()
        likeliest = np.argsort(-shares)[:LIKELIEST]
        weights = np.sqrt(shares[likeliest])
        mixed.append((weights / weights.sum()) @ names[likeliest])
    away = np.array(mixed) - np.mean(mixed, axis=0)
    np.testing.assert_allclose(found, away / np.linalg.norm(away, axis=1, keepdims=True), atol=1e-4)


def test_features_without_classes() -> None:
    with pytest.raises(InputError, match="have no class logits"):
        Naming({"features": 10}, raw=3)
