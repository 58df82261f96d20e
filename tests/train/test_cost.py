"""What training would cost, against counts by torch and what the paper reports."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

from genius.errors import InputError
from genius.train.cost import (
    GPUS,
    VIT_L_14,
    clip_sizes,
    cost_lines,
    decoder_cost,
    find_gpu,
    quantizer_cost,
    stage_costs,
    tower_cost,
)
from genius.train.recipe import Recipe, read_recipe
from tests.encode.small_clip import write_clip

ROOT = Path(__file__).parents[2]


def recipe(name: str = "mbeir-paper") -> Recipe:
    return read_recipe(ROOT / f"recipes/{name}.toml")


def test_a_clip_s_operations_and_weights_are_those_that_torch_counts(tmp_path: Path) -> None:
    write_clip(tmp_path / "clip")
    clip = transformers.CLIPModel.from_pretrained(tmp_path / "clip", attn_implementation="eager").eval()
    sizes, config = clip_sizes(str(tmp_path / "clip")), clip.config
    side = config.vision_config.image_size
    tokens = torch.ones(1, config.text_config.max_position_embeddings, dtype=torch.long)
    for tower, module, inputs in (
        (sizes.image, clip.vision_model, {"pixel_values": torch.zeros(1, 3, side, side)}),
        (sizes.text, clip.text_model, {"input_ids": tokens}),
    ):
        with FlopCounterMode(display=False) as counter:
            module(**inputs)
        assert 2 * tower.macs == pytest.approx(counter.get_total_flops(), rel=0.05)
    count = sum(parameter.numel() for parameter in clip.parameters())
    assert sizes.parameters == pytest.approx(count, rel=0.1)
    assert sizes.width == config.projection_dim and not sizes.assumed


def test_vit_l_14_is_what_openai_published() -> None:
    """Of the image tower 81 billion multiply-adds; nothing here to look at, so that its sizes are assumed."""
    assert clip_sizes("openai/clip-vit-large-patch14") == VIT_L_14
    assert VIT_L_14.image.macs == pytest.approx(81e9, rel=0.01)


def test_tuning_as_uniir_did_takes_what_the_paper_says() -> None:
    """91 hours on four RTX 3090 (its supplement, B.2); UniIR had eight GPUs of 80 GB."""
    towers = recipe().towers
    assert towers is not None and towers.frozen and towers.upsampled
    cost = tower_cost(towers, VIT_L_14)
    assert cost.hours(find_gpu("RTX 3090")) / 4 == pytest.approx(91, rel=0.1)
    assert 7 * 80e9 < cost.memory < 8 * 80e9
    single = dataclasses.replace(towers, precision="float32")
    assert tower_cost(single, VIT_L_14).memory > cost.memory


def test_stages_are_counted_as_far_as_they_are_left(tmp_path: Path) -> None:
    paper = recipe()
    assert [cost.name for cost in stage_costs(paper, tmp_path)] == ["quantizer", "decoder"]
    assert paper.towers is not None and paper.quantizer is not None and paper.decoder is not None
    tuned = dataclasses.replace(paper, towers=dataclasses.replace(paper.towers, frozen=False))
    assert [cost.name for cost in stage_costs(tuned, tmp_path)] == ["towers", "quantizer", "decoder"]
    sizes = paper.quantizer.codebooks.all_sizes
    # 60 million numbers of fusion and 54 million of decoder (method), with AdamW's moments and averages
    assert quantizer_cost(paper.quantizer, 768).memory > 20 * 45e6
    assert 20 * 50e6 < decoder_cost(paper.decoder, 768, sizes).memory < 24e9


def test_the_sentences_name_the_gpu() -> None:
    lines = cost_lines(recipe(), Path("nowhere"), find_gpu("a100"))
    assert lines[0].startswith("On one A100 (80 GB, 19.5 TFLOP/s in float32, 312 in bfloat16, of which 30%")
    assert "stage quantizer: 3,486 steps" in lines[1] and "stage decoder: 40,362 steps" in lines[2]
    assert "a CLIP ViT-L/14, which is assumed" in lines[3]
    assert [find_gpu(gpu.name.lower()) for gpu in GPUS] == list(GPUS)
    with pytest.raises(InputError, match="there is no data sheet of 'TPU' here; there are: RTX 3090, RTX"):
        find_gpu("TPU")
