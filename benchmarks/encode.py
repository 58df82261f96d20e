"""How fast the embedded encoder is, beside eager torch (pictures) and an unsorted, padded loop (texts).

    python benchmarks/encode.py [--pictures 96] [--texts 2048] [--rounds 3] [--json]

Uses the demo corpus (genius demo fetches it). Everything is measured in one run, by turns, on all cores of
this process, medians; exits 1 if a bar is missed: 3 × eager torch, 2 × the padded loop.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer
from torch.nn import functional

from genius.data.images import load
from genius.data.mbeir import SPLITS, Tree
from genius.data.text import clean
from genius.demo.corpus import demo_tree
from genius.encode import lite
from genius.encode import lite_image as efficientnet
from genius.encode import lite_weights as weights
from genius.encode.checkpoints import read_checkpoint
from genius.runtime import cores, session

BATCH = 16
TEXT_BATCH = 64
BAR_PICTURES = 3.0
BAR_TEXTS = 2.0


class EagerTower:
    """The image tower as torch runs it layer by layer, weights as they come from the package."""

    def __init__(self) -> None:
        found = read_checkpoint(weights.fetched(weights.IMAGE))
        self.weights = {name: torch.from_numpy(value) for name, value in found.items()}
        self.blocks = 1 + max(int(name.split(".")[1]) for name in found if name.startswith("_blocks."))

    def layer(
        self, value: torch.Tensor, name: str, norm: str, stride: int = 1, clip: bool = True
    ) -> torch.Tensor:
        """Convolution with TensorFlow's padding, batch normalisation, ReLU6."""
        kernel, side = self.weights[f"{name}.weight"], value.shape[2]
        padding = max((-(-side // stride) - 1) * stride + kernel.shape[2] - side, 0)
        if padding:
            value = functional.pad(value, (padding // 2, padding - padding // 2) * 2)
        groups = kernel.shape[0] if kernel.shape[1] == 1 and kernel.shape[2] > 1 else 1
        value = functional.conv2d(value, kernel, stride=stride, groups=groups)
        parts = (self.weights[f"{norm}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
        value = functional.batch_norm(value, *parts, eps=efficientnet.EPSILON)
        return functional.relu6(value) if clip else value

    @torch.no_grad()
    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """Pooled features."""
        value = self.layer(torch.from_numpy(pixels), "_conv_stem", "_bn0", 2)
        stage, before = -1, 0
        for number in range(self.blocks):
            name, inner = f"_blocks.{number}.", value
            width = self.weights[f"{name}_project_conv.weight"].shape[0]
            first = width != before
            stage, before = stage + first, width
            if f"{name}_expand_conv.weight" in self.weights:
                inner = self.layer(inner, f"{name}_expand_conv", f"{name}_bn0")
            stride = efficientnet.STAGE_STRIDES[stage] if first else 1
            inner = self.layer(inner, f"{name}_depthwise_conv", f"{name}_bn1", stride)
            inner = self.layer(inner, f"{name}_project_conv", f"{name}_bn2", clip=False)
            value = inner if first else inner + value
        return self.layer(value, "_conv_head", "_bn1").mean((2, 3)).numpy()


def padded_loop(tokenizer: Tokenizer, tower: Any, texts: list[str]) -> None:
    """Texts in the order in which they come, each batch padded to its longest."""
    tokenizer.enable_padding()
    for start in range(0, len(texts), TEXT_BATCH):
        batch = tokenizer.encode_batch(texts[start : start + TEXT_BATCH])
        ids = np.array([one.ids for one in batch], np.int64)
        mask = np.array([one.attention_mask for one in batch], np.int64)
        tower.run(None, {"ids": ids, "mask": mask})


def seconds(work: Callable[[], Any]) -> float:
    """The time of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def demo_contents(pictures: int, texts: int) -> tuple[list[Image.Image], list[str]]:
    """Pictures and different texts of the demo corpus: of items and of queries, in no order."""
    tree = Tree(demo_tree())
    images = [load(item.image) for _, item in zip(range(pictures), tree, strict=False) if item.image]
    found = {clean(item.text): None for item in tree if item.text}
    found |= {clean(q.text): None for split in SPLITS for q in tree.queries(split) if q.text}
    order = np.random.default_rng(0).permutation(len(found))[:texts]
    return images, [list(found)[number] for number in order]


def main() -> int:
    """Measure by turns, print ratios first, and say by the exit code whether the bars hold."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pictures", type=int, default=96)
    parser.add_argument("--texts", type=int, default=2048)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(cores())
    folder = lite.build()
    encoder, eager = lite.Lite.open(folder), EagerTower()
    pictures, texts = demo_contents(options.pictures, options.texts)
    pixels = [
        np.stack([lite.pixels(p) for p in pictures[s : s + BATCH]]) for s in range(0, len(pictures), BATCH)
    ]
    image_tower, text_tower = session(str(folder / "image.onnx")), session(str(folder / "text.onnx"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(lite.MAX_TOKENS)
    found = image_tower.run(["mean"], {"pixels": pixels[0]})[0]
    assert np.abs(found - eager(pixels[0])).max() < 1e-3, "the two towers should agree"
    work: dict[str, Callable[[], Any]] = {
        "tower": lambda: [image_tower.run(["mean"], {"pixels": batch}) for batch in pixels],
        "eager": lambda: [eager(batch) for batch in pixels],
        "pictures": lambda: [
            encoder.encode_images(pictures[s : s + BATCH]) for s in range(0, len(pictures), BATCH)
        ],
        "texts": lambda: encoder.encode_texts(texts),
        "padded": lambda: padded_loop(tokenizer, text_tower, texts),
    }
    times: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(options.rounds):
        for name, run in work.items():
            times[name].append(seconds(run))
    median = {name: statistics.median(values) for name, values in times.items()}
    result = {
        "pictures_ratio_to_eager_torch": round(median["eager"] / median["tower"], 2),
        "texts_ratio_to_padded_loop": round(median["padded"] / median["texts"], 2),
        "pictures_per_second_with_preparation": round(len(pictures) / median["pictures"], 1),
        "texts_per_second": round(len(texts) / median["texts"]),
        "cores": cores(),
    }
    print(
        json.dumps(result)
        if options.json
        else "\n".join(f"{key:38} {value}" for key, value in result.items())
    )
    held = (
        result["pictures_ratio_to_eager_torch"] >= BAR_PICTURES
        and result["texts_ratio_to_padded_loop"] >= BAR_TEXTS
    )
    return int(not held)


if __name__ == "__main__":
    sys.exit(main())
