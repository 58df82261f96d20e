"""Token fusion equals transformers' T5 encoder; score fusion equals a direct computation."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.errors import InputError
from tests.encode.small_clip import IMAGES, tokens_of, write_clip, write_siglip

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
import transformers

from genius.encode import clip_fusion
from genius.encode.clip import Clip
from genius.encode.clip_fusion import (
    FusedClip,
    TokenFusion,
    TokenFusionSettings,
    distance_buckets,
    score_fusion,
)

WIDTH, TEXT, IMAGE = 32, 9, 140  # long enough that distances reach the last bucket
SMALL: dict[str, Any] = {"layers": 2, "heads": 3, "head_width": 8, "inner_width": 40}
NAMES = {  # T5's parts of a layer: ours
    "0.SelfAttention.q": "query",
    "0.SelfAttention.k": "key",
    "0.SelfAttention.v": "value",
    "0.SelfAttention.o": "out",
    "0.layer_norm": "attention_norm",
    "1.DenseReluDense.wi": "up",
    "1.DenseReluDense.wo": "down",
    "1.layer_norm": "mlp_norm",
}


def fusion(masked: bool = False) -> Any:
    made = TokenFusion(
        WIDTH,
        TEXT,
        TokenFusionSettings(**SMALL, masked=masked),
        generator=torch.Generator().manual_seed(0),
    )
    return made.eval()


def t5_stack(ours: Any) -> Any:
    """transformers' T5 encoder with our weights."""
    config = transformers.T5Config(
        vocab_size=7, d_model=WIDTH, d_kv=8, d_ff=40, num_layers=2, num_heads=3, feed_forward_proj="relu"
    )
    stack = transformers.T5EncoderModel(config).encoder.eval()
    state = stack.state_dict()
    weights = ours.state_dict()
    renamed = {
        "embed_tokens.weight": state["embed_tokens.weight"],
        "final_layer_norm.weight": weights["norm.weight"],
    }
    renamed["block.0.layer.0.SelfAttention.relative_attention_bias.weight"] = weights["bias.weight"]
    for layer in range(2):
        for theirs, name in NAMES.items():
            renamed[f"block.{layer}.layer.{theirs}.weight"] = weights[f"layers.{layer}.{name}.weight"]
    stack.load_state_dict(renamed)  # strict: every weight of both is used
    assert len(renamed) == len(weights) + 1
    return stack


def tokens(rows: int = 4, seed: int = 1) -> tuple[Any, Any]:
    generator = torch.Generator().manual_seed(seed)
    return (
        torch.randn(rows, TEXT, WIDTH, generator=generator),
        torch.randn(rows, IMAGE, WIDTH, generator=generator),
    )


def shaken(module: Any) -> Any:
    """With norms that are not all ones."""
    generator = torch.Generator().manual_seed(2)
    for weight in module.parameters():
        if weight.ndim == 1:
            torch.nn.init.normal_(weight, mean=1, std=0.3, generator=generator)
    return module


def test_equals_the_encoder_of_t5() -> None:
    ours = shaken(fusion())
    text, image = tokens()
    with torch.no_grad():
        expected = t5_stack(ours)(inputs_embeds=torch.cat([text, image], 1)).last_hidden_state.mean(1)
        np.testing.assert_allclose(ours(text, image).numpy(), expected.numpy(), atol=1e-5)


def test_masks_equal_those_of_t5() -> None:
    ours = shaken(fusion(masked=True))
    text, image = tokens()
    kept = torch.ones(4, TEXT, dtype=torch.bool)
    kept[0, 3:] = False
    kept[1] = False
    has_image = torch.tensor([True, True, False, True])
    mask = torch.cat([kept, has_image[:, None].expand(4, IMAGE)], 1)
    with torch.no_grad():
        stack = t5_stack(ours)(inputs_embeds=torch.cat([text, image], 1), attention_mask=mask.long())
        hidden = torch.where(mask[:, :, None], stack.last_hidden_state, 0)
        expected = hidden.sum(1) / mask.sum(1, keepdim=True)
        np.testing.assert_allclose(ours(text, image, kept, has_image).numpy(), expected.numpy(), atol=1e-5)


def test_what_is_absent_is_masked() -> None:
    """Leaving a modality or padding out of the input is the same as masking it."""
    ours = fusion(masked=True)
    text, image = tokens()
    nothing, everything = torch.zeros(4, dtype=torch.bool), torch.ones(4, dtype=torch.bool)
    beginning = torch.ones(4, TEXT, dtype=torch.bool)
    beginning[:, 5:] = False
    with torch.no_grad():
        for masked, without in (
            (ours(text, image, nothing, everything), ours(text[:, :0], image)),
            (ours(text, image, everything, nothing), ours(text, image[:, :0])),
            (ours(text, image, beginning, everything), ours(text[:, :5], image)),
        ):
            np.testing.assert_allclose(masked.numpy(), without.numpy(), atol=1e-5)
        assert ours(text, image, nothing, nothing).abs().max() == 0


def test_without_masks_everything_counts() -> None:
    ours = fusion()
    text, image = tokens()
    nothing = torch.zeros(4, dtype=torch.bool)
    with torch.no_grad():
        np.testing.assert_array_equal(ours(text, image, nothing, nothing).numpy(), ours(text, image).numpy())
        assert (ours(text + 1, image) - ours(text, image)).abs().max() > 1e-3
        swapped = ours(image[:, :TEXT], torch.cat([text, image[:, TEXT:]], 1))
        assert (swapped - ours(text, image)).abs().max() > 1e-3, "the order counts"


@pytest.mark.parametrize(("buckets", "reach"), [(32, 128), (16, 40), (8, 20)])
def test_buckets_equal_those_of_t5(buckets: int, reach: int) -> None:
    attention: Any = importlib.import_module("transformers.models.t5.modeling_t5").T5Attention
    distances = torch.arange(-400, 401)
    expected = attention._relative_position_bucket(distances, True, buckets, reach)
    assert torch.equal(distance_buckets(distances, buckets, reach), expected)


def test_the_same_seed_gives_the_same_weights() -> None:
    first, second = fusion().state_dict(), fusion().state_dict()
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_the_defaults_are_those_of_uniir() -> None:
    made = TokenFusion(16, 77)
    shapes = {name: tuple(value.shape) for name, value in made.layers[1].named_parameters()}
    assert len(made.layers) == 2
    assert shapes["query.weight"] == (768, 16)
    assert shapes["up.weight"] == (2048, 16)
    assert tuple(made.bias.weight.shape) == (32, 12)


def test_half_precision_and_training() -> None:
    text, image = tokens()
    for masked in (False, True):
        ours = fusion(masked)
        half = fusion(masked).half()
        with torch.no_grad():
            exact, close = ours(text, image), half(text.half(), image.half())
        assert close.dtype == torch.float16
        assert torch.nn.functional.cosine_similarity(exact, close.float()).min() > 0.999
        ours.train()(text, image).square().sum().backward()
        assert all(weight.grad.abs().sum() > 0 for weight in ours.parameters())


# --- with an encoder --------------------------------------------------------------------------------

ITEM_TEXTS = ["a dog on the beach", None, "cat", "old house"]
ITEM_IMAGES = [IMAGES[0], IMAGES[1], None, IMAGES[2]]


@pytest.fixture(scope="module", params=["clip", "siglip"])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Clip:
    folder = tmp_path_factory.mktemp(request.param)
    {"clip": write_clip, "siglip": write_siglip}[request.param](folder)
    return Clip.open(folder)


def test_tokens_of_items(encoder: Clip) -> None:
    with torch.no_grad():
        text, image, text_kept, has_image = tokens_of(encoder, ITEM_IMAGES, ITEM_TEXTS)
        pixels = encoder.pixels(IMAGES[:3])
        grey = encoder.image_tokens(torch.zeros_like(pixels[:1]))
        order = torch.stack([*encoder.image_tokens(pixels)])
    np.testing.assert_allclose(image[[0, 1, 3]].numpy(), order.numpy(), atol=1e-5)
    np.testing.assert_allclose(image[2].numpy(), grey[0].numpy(), atol=1e-5)
    assert has_image.tolist() == [True, True, False, True]
    assert text.shape[1] == encoder.text_length
    assert text_kept.any(1).tolist() == [True, False, True, True]


@pytest.mark.parametrize("masked", [False, True])
def test_token_fusion_is_batch_invariant(encoder: Clip, masked: bool) -> None:
    made = TokenFusion(32, encoder.text_length, TokenFusionSettings(**SMALL, masked=masked)).eval()
    with torch.no_grad():
        together = made(*tokens_of(encoder, ITEM_IMAGES, ITEM_TEXTS))
        alone = [
            made(*tokens_of(encoder, [image], [text]))
            for image, text in zip(ITEM_IMAGES, ITEM_TEXTS, strict=True)
        ]
    np.testing.assert_allclose(together.numpy(), torch.cat(alone).numpy(), atol=1e-5)


def test_training_reaches_fusion_and_towers(encoder: Clip) -> None:
    made: Any = TokenFusion(32, encoder.text_length, TokenFusionSettings(**SMALL))
    encoder.module.zero_grad()
    made(*tokens_of(encoder, ITEM_IMAGES, ITEM_TEXTS)).square().sum().backward()
    first = encoder.module.text_model.encoder.layers[0].mlp.fc1.weight, made.layers[0].query.weight
    assert all(weight.grad.abs().sum() > 0 for weight in first)


def test_score_fusion_is_the_sum_of_what_is_present(encoder: Clip) -> None:
    has_image = np.array([image is not None for image in ITEM_IMAGES])
    has_text = np.array([text is not None for text in ITEM_TEXTS])
    grey = IMAGES[3]  # anything: it is masked
    image = encoder.encode_images([image or grey for image in ITEM_IMAGES])
    text = encoder.encode_texts([text or "" for text in ITEM_TEXTS])
    fused = score_fusion(*map(torch.from_numpy, (image, text, has_image, has_text))).numpy()
    expected = np.stack([image[0] + text[0], image[1], text[2], image[3] + text[3]])
    np.testing.assert_array_equal(fused, expected)


def test_towers_of_different_widths(tmp_path: Path) -> None:
    write_clip(tmp_path)
    encoder = Clip.open(tmp_path)
    encoder.token_widths = (32, 48)
    with pytest.raises(InputError, match="text tokens are 32 wide and image tokens 48"):
        tokens_of(encoder, [None], ["cat"])
    with pytest.raises(InputError, match="token fusion needs a model where they are the same"):
        FusedClip(encoder, "tokens")
    encoder.image_width = 48
    with pytest.raises(InputError, match="score fusion needs a model where they are the same"):
        FusedClip(encoder, "score")


def test_embeddings_of_records_by_both_kinds_of_fusion(
    encoder: Clip, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are the fusion's output of unit length, whatever the size of a batch."""
    monkeypatch.setattr(clip_fusion, "IMAGE_BATCH", 3)
    texts = [text or "" for text in ITEM_TEXTS]
    by_sum = FusedClip(encoder, "score").embed(ITEM_IMAGES, texts)
    image = encoder.encode_images([image or IMAGES[3] for image in ITEM_IMAGES])
    text = encoder.encode_texts(texts)
    sums = np.stack([image[0] + text[0], image[1], text[2], image[3] + text[3]])
    np.testing.assert_allclose(by_sum, sums / np.linalg.norm(sums, axis=1, keepdims=True), atol=1e-5)
    trained = TokenFusion(32, encoder.text_length, TokenFusionSettings(**SMALL)).eval()
    by_tokens = FusedClip.with_token_fusion(encoder, SMALL, trained.state_dict()).embed(ITEM_IMAGES, texts)
    with torch.no_grad():
        expected = trained(*tokens_of(encoder, ITEM_IMAGES, ITEM_TEXTS))
    np.testing.assert_allclose(by_tokens, torch.nn.functional.normalize(expected).numpy(), atol=1e-5)
