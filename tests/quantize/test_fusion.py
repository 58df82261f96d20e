from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from genius.errors import InputError
from genius.quantize.fusion import Fusion, FusionSettings
from genius.runtime import session
from genius.train.model_writer import fusion_graph

WIDTH, HIDDEN = 6, 5
PUBLISHED: dict[str, Any] = {"raw": True, "share_of": "text", "share_hidden": 9, "mix_hidden": 7}


def fusion(with_embedding: bool, seed: int = 0, width: int = 0, **settings: Any) -> Fusion:
    """A fusion in use, its last layers no longer zero."""
    torch.manual_seed(seed)
    network = Fusion(
        WIDTH, FusionSettings(hidden=HIDDEN, width=width, with_embedding=with_embedding, **settings)
    )
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return network.eval()


def records(count: int, seed: int = 0) -> dict[str, torch.Tensor]:
    random = np.random.default_rng(seed)
    parts = {
        name: random.standard_normal((count, WIDTH)).astype(np.float32)
        for name in ("embeddings", "image", "text")
    }
    has_image = random.random(count) < 0.7
    has_text = ~has_image | (random.random(count) < 0.5)
    return {
        name: torch.from_numpy(value)
        for name, value in {
            "embeddings": parts["embeddings"],
            "image": parts["image"],
            "has_image": has_image,
            "text": parts["text"],
            "has_text": has_text,
            "image_length": random.uniform(0.5, 3, count).astype(np.float32),
            "text_length": random.uniform(0.5, 3, count).astype(np.float32),
        }.items()
    }


def by_hand(network: Fusion, inputs: dict[str, torch.Tensor]) -> np.ndarray:
    """N(λx + (1 − λ)y + φ) + MLP([y; x; φ]), of unit length, in numpy's double precision."""
    weights = {name: value.detach().double().numpy() for name, value in network.named_parameters()}
    values = {name: value.numpy() for name, value in inputs.items()}

    def layer(name: str, value: np.ndarray) -> np.ndarray:
        return np.asarray(value @ weights[f"{name}.weight"].T + weights[f"{name}.bias"])

    x = np.where(values["has_image"][:, None], values["image"], 0.0)
    y = np.where(values["has_text"][:, None], values["text"], 0.0)
    if network.settings.raw:
        x, y = x * values["image_length"][:, None], y * values["text_length"][:, None]
    projected = [layer("text_projection", y), layer("image_projection", x)]
    if network.settings.with_embedding:
        projected.append(layer("embedding_projection", values["embeddings"]))
    u = np.maximum(np.concatenate(projected, axis=1), 0)
    share = 1 / (1 + np.exp(-layer("share.2", np.maximum(layer("share.0", u), 0))))
    share = share if network.settings.share_of == "image" else 1 - share
    z = share * x + (1 - share) * y
    z = z + values["embeddings"] if network.settings.with_embedding else z
    if network.settings.width:
        z = z @ weights["projection.weight"].T
    z = z + layer("mix.2", np.maximum(layer("mix.0", u), 0))
    return np.asarray(z / np.linalg.norm(z, axis=1, keepdims=True))


@pytest.mark.parametrize("width", [0, 4])
@pytest.mark.parametrize("with_embedding", [False, True])
def test_the_formula(with_embedding: bool, width: int) -> None:
    network, inputs = fusion(with_embedding, width=width), records(50)
    vectors = network(**inputs).detach().numpy()
    np.testing.assert_allclose(vectors, by_hand(network, inputs), atol=2e-6)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_formula_in_each_of_the_published_ways(name: str) -> None:
    network, inputs = fusion(False, **{name: PUBLISHED[name]}), records(50)
    vectors = network(**inputs).detach().numpy()
    np.testing.assert_allclose(vectors, by_hand(network, inputs), atol=2e-6)
    assert np.abs(vectors - fusion(False)(**inputs).detach().numpy()).max() > 0.01
    sizes = [layer[0].get_parameter("weight").shape[0] for layer in (network.mix, network.share)]
    assert tuple(sizes) == (
        PUBLISHED[name] if name == "mix_hidden" else 2 * HIDDEN,
        PUBLISHED[name] if name == "share_hidden" else HIDDEN,
    )


@given(st.booleans(), st.integers(0, 2**32 - 1), st.sampled_from([0.0, 1e30, float("nan"), float("inf")]))
def test_the_values_of_an_absent_part_are_ignored(with_embedding: bool, seed: int, stored: float) -> None:
    network, inputs = fusion(with_embedding), records(7, seed)
    changed = {name: value.clone() for name, value in inputs.items()}
    for part in ("image", "text"):
        changed[part][~inputs[f"has_{part}"]] = stored
    assert torch.equal(network(**changed), network(**inputs))
    loss = network(**changed).sum()
    loss.backward()
    assert all(value.grad is None or bool(value.grad.isfinite().all()) for value in network.parameters())


def test_training_starts_from_the_plain_mixture() -> None:
    """A record with one part, which is also its joined embedding, begins as just that."""
    inputs = records(20)
    inputs["has_text"] = ~inputs["has_image"]
    inputs["image"] = inputs["text"] = inputs["embeddings"]
    vectors = Fusion(WIDTH, FusionSettings(hidden=HIDDEN)).eval()(**inputs)
    torch.testing.assert_close(vectors, torch.nn.functional.normalize(inputs["embeddings"], dim=1))


def test_narrower_vectors_start_from_what_queries_tell_apart() -> None:
    """Products of queries with items keep as much as in any projection to as few numbers."""
    random = np.random.default_rng(0)
    queries = (random.normal(size=(200, WIDTH)) * [3, 0.1, 2, 0.2, 1, 0.1]).astype(np.float32)
    queries = queries @ np.linalg.qr(random.normal(size=(WIDTH, WIDTH)))[0].astype(np.float32)
    network = Fusion(WIDTH, FusionSettings(hidden=HIDDEN, width=3))
    network.init_projection(torch.from_numpy(queries))
    assert network.projection is not None
    kept = network.projection.weight.detach().numpy()
    np.testing.assert_allclose(kept @ kept.T, np.eye(3), atol=1e-6)
    lost = np.square(queries - queries @ kept.T @ kept).sum()
    assert lost == pytest.approx(np.square(np.linalg.svd(queries)[1][3:]).sum(), rel=1e-4)


@pytest.mark.parametrize("settings", [{}, {"width": 4}, PUBLISHED])
def test_the_exported_graph_gives_the_same(settings: dict[str, Any]) -> None:
    network = fusion(with_embedding=settings is not PUBLISHED, **settings)
    graph = session(fusion_graph(network))
    names = [declared.name for declared in graph.get_inputs()]
    assert ("embeddings" in names, "image_length" in names) == (
        (False, True) if settings is PUBLISHED else (True, False)
    )
    for count in (1, 40):
        inputs = records(count, seed=9)
        (vectors,) = graph.run(["vectors"], {name: inputs[name].numpy() for name in names})
        np.testing.assert_allclose(vectors, network(**inputs).detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("wrong", [{"hidden": 0}, {"width": -1}, {"dropout": 1.0}, {"dropout": -0.1}])
def test_bad_settings(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match="hidden should be at least 1, width at least 0, and dropout a share"
    ):
        FusionSettings(**wrong)
    with pytest.raises(InputError, match="mix_hidden and share_hidden should be at least 0"):
        FusionSettings(share_hidden=-1)
