"""Small random CLIP and SigLIP models, saved as Hugging Face folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

WORDS = ["a", "red", "green", "dog", "cat", "on", "the", "beach", "house", "old"]
CLIP_SIDE, SIGLIP_SIDE = 20, 24
CLIP_LENGTH, SIGLIP_LENGTH = 12, 9
CLIP_PREPROCESSING = {
    "crop_size": CLIP_SIDE,
    "do_center_crop": True,
    "do_normalize": True,
    "do_resize": True,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
    "resample": 3,
    "size": CLIP_SIDE,
    "image_processor_type": "CLIPImageProcessor",
}
SIGLIP_PREPROCESSING = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": SIGLIP_SIDE, "width": SIGLIP_SIDE},
    "image_processor_type": "SiglipImageProcessor",
}


def bpe_files(folder: Path) -> int:
    """CLIP's tokenizer with letters and a few words; the size of its vocabulary."""
    letters = [chr(code) for code in range(ord("!"), ord("~") + 1)]
    tokens = letters + [f"{letter}</w>" for letter in letters]
    merges = []
    for word in WORDS:
        parts = [*word[:-1], f"{word[-1]}</w>"]
        while len(parts) > 1:
            merge = f"{parts[0]} {parts[1]}"
            parts[:2] = [parts[0] + parts[1]]
            if merge not in merges:
                merges.append(merge)
                tokens.append(parts[0])
    tokens += ["<|startoftext|>", "<|endoftext|>"]
    (folder / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("\n".join(["#version: 0.2", *merges, ""]))
    settings = {"tokenizer_class": "CLIPTokenizer", "model_max_length": CLIP_LENGTH}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    return len(tokens)


def random_weights(module: Any, seed: int = 0) -> Any:
    """Weights large enough that every part of the network shows in the result."""
    import torch

    generator = torch.Generator().manual_seed(seed)
    for name, weight in module.named_parameters():
        start = 1.0 if "norm" in name and name.endswith("weight") else 0.0
        torch.nn.init.normal_(weight, mean=start, std=0.2, generator=generator)
    return module.eval()


def write_clip(folder: Path, seed: int = 0) -> Any:
    """A CLIP with its tokenizer and its preprocessing; the model itself is returned."""
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    words = bpe_files(folder)
    text = {"vocab_size": words, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 4, "max_position_embeddings": CLIP_LENGTH}
    text |= {"bos_token_id": words - 2, "eos_token_id": words - 1, "pad_token_id": words - 1}
    vision = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    vision |= {"image_size": CLIP_SIDE, "patch_size": 5}
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=32)
    model = random_weights(transformers.CLIPModel(config), seed)
    model.save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(CLIP_PREPROCESSING))
    return model


def write_siglip(folder: Path, seed: int = 0) -> Any:
    """A SigLIP with a tokenizer of whole words that needs no sentencepiece."""
    import tokenizers
    import transformers

    folder.mkdir(parents=True, exist_ok=True)
    names = ["<pad>", "</s>", "<unk>", *WORDS]
    core = tokenizers.Tokenizer(tokenizers.models.WordLevel({w: n for n, w in enumerate(names)}, "<unk>"))
    core.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    core.post_processor = tokenizers.processors.TemplateProcessing("$A </s>", special_tokens=[("</s>", 1)])
    fast: Any = transformers.PreTrainedTokenizerFast
    tokenizer = fast(tokenizer_object=core, pad_token="<pad>", eos_token="</s>", unk_token="<unk>")
    tokenizer.save_pretrained(folder)
    text = {"vocab_size": len(names), "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 4, "max_position_embeddings": SIGLIP_LENGTH, "projection_size": 32}
    text |= {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    vision = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    vision |= {"image_size": SIGLIP_SIDE, "patch_size": 8}
    model = transformers.SiglipModel(transformers.SiglipConfig(text_config=text, vision_config=vision))
    random_weights(model, seed).save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(SIGLIP_PREPROCESSING))
    return model


def tokens_of(clip: Any, images: list[Any], texts: list[str | None]) -> Any:
    """The inputs of `TokenFusion`, from images and texts, either of which may be None."""
    import torch

    from genius.encode.clip_fusion import record_tokens

    pixels = clip.pixels([image for image in images if image is not None])
    return record_tokens(clip, pixels, torch.tensor([image is not None for image in images]), texts)


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """An image of random pixels."""
    values = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(values)


IMAGES = [noise(*size, seed) for seed, size in enumerate([(20, 20), (31, 47), (90, 33), (7, 5), (24, 64)])]
TEXTS = ["a dog on the beach", "", "old red house", "cat", "the Green DOG!", " ".join(WORDS * 5)]
