"""The speed of the built-in encoder, compared with eager torch (images) and an unsorted, padded loop (texts).

    python benchmarks/encode.py [--images 96] [--texts 2048] [--rounds 3] [--json]

Uses the collection of the demo (`genius demo` fetches it). All are measured in turns, on all cores of this
process; figures are medians. Exits 1 if a bar is missed: 3 × eager torch, 2 × the padded loop.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import numpy as np
import torch
from figures import median_seconds, print_figures
from onnxruntime import InferenceSession
from options import add_json, script_parser
from PIL import Image
from tokenizers import Tokenizer
from torch.nn import functional

from genius.data.images import load
from genius.data.instructions import clean
from genius.data.mbeir import SPLITS, Tree
from genius.demo.corpus import demo_tree
from genius.encode import lite, lite_image
from genius.encode import lite_weights as weights
from genius.encode.checkpoints import read_checkpoint
from genius.runtime import cores, session

BATCH = 16
TEXT_BATCH = 64
BAR_IMAGES = 3.0
BAR_TEXTS = 2.0


class EagerTower:
    """The image tower, run by torch layer by layer with the published weights."""

    def __init__(self) -> None:
        arrays = read_checkpoint(weights.fetched(weights.IMAGE))
        self.weights = {name: torch.from_numpy(array) for name, array in arrays.items()}
        self.blocks = 1 + max(int(name.split(".")[1]) for name in arrays if name.startswith("_blocks."))

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
        mean, variance, scale, shift = (
            self.weights[f"{norm}.{name}"] for name in ("running_mean", "running_var", "weight", "bias")
        )
        value = functional.batch_norm(value, mean, variance, scale, shift, eps=lite_image.EPSILON)
        return functional.relu6(value) if clip else value

    @torch.no_grad()
    def __call__(self, pixels: np.ndarray) -> np.ndarray:
        """The pooled features [n, width] of pixels [n, 3, side, side]."""
        value = self.layer(torch.from_numpy(pixels), "_conv_stem", "_bn0", 2)
        stage, before = -1, 0
        for number in range(self.blocks):
            name, inner = f"_blocks.{number}.", value
            width = self.weights[f"{name}_project_conv.weight"].shape[0]
            first = width != before
            stage, before = stage + first, width
            if f"{name}_expand_conv.weight" in self.weights:
                inner = self.layer(inner, f"{name}_expand_conv", f"{name}_bn0")
            stride = lite_image.STAGE_STRIDES[stage] if first else 1
            inner = self.layer(inner, f"{name}_depthwise_conv", f"{name}_bn1", stride)
            inner = self.layer(inner, f"{name}_project_conv", f"{name}_bn2", clip=False)
            value = inner if first else inner + value
        return self.layer(value, "_conv_head", "_bn1").mean((2, 3)).numpy()


def padded_loop(tokenizer: Tokenizer, tower: InferenceSession, texts: list[str]) -> None:
    """Encode texts in the order given, each batch padded to its longest text."""
    tokenizer.enable_padding()
    for start in range(0, len(texts), TEXT_BATCH):
        batch = tokenizer.encode_batch(texts[start : start + TEXT_BATCH])
        ids = np.array([encoding.ids for encoding in batch], np.int64)
        mask = np.array([encoding.attention_mask for encoding in batch], np.int64)
        tower.run(None, {"ids": ids, "mask": mask})


def demo_contents(images: int, texts: int) -> tuple[list[Image.Image], list[str]]:
    """Images of the demo's items, and different texts of its items and queries in random order."""
    tree = Tree(demo_tree())
    loaded = [load(item.image) for _, item in zip(range(images), tree, strict=False) if item.image]
    distinct = {clean(item.text): None for item in tree if item.text}
    distinct |= {clean(query.text): None for split in SPLITS for query in tree.queries(split) if query.text}
    order = np.random.default_rng(0).permutation(len(distinct))[:texts]
    return loaded, [list(distinct)[number] for number in order]


def main() -> int:
    """Measure in turns and print; the exit code says whether the bars were held."""
    parser = script_parser(__doc__)
    parser.add_argument("--images", type=int, default=96, help="how many (default: 96)")
    parser.add_argument("--texts", type=int, default=2048, help="how many (default: 2048)")
    parser.add_argument("--rounds", type=int, default=3)
    add_json(parser)
    options = parser.parse_args()
    torch.set_num_threads(cores())
    figures = measure(*demo_contents(options.images, options.texts), options.rounds)
    print_figures(figures, as_json=options.json)
    held = (
        figures["images_ratio_to_eager_torch"] >= BAR_IMAGES
        and figures["texts_ratio_to_padded_loop"] >= BAR_TEXTS
    )
    return int(not held)


def measure(images: list[Image.Image], texts: list[str], rounds: int) -> dict[str, float]:
    """The figures, ratios first."""
    folder = lite.build()
    encoder, eager = lite.Lite.open(folder), EagerTower()
    batches = [images[start : start + BATCH] for start in range(0, len(images), BATCH)]
    pixels = [np.stack([lite.pixels(image) for image in batch]) for batch in batches]
    image_tower, text_tower = session(str(folder / "image.onnx")), session(str(folder / "text.onnx"))
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(lite.MAX_TOKENS)
    features = image_tower.run(["mean"], {"pixels": pixels[0]})[0]
    assert np.abs(features - eager(pixels[0])).max() < 1e-3, "the two towers should agree"
    works: dict[str, Callable[[], object]] = {
        "tower": lambda: [image_tower.run(["mean"], {"pixels": batch}) for batch in pixels],
        "eager": lambda: [eager(batch) for batch in pixels],
        "images": lambda: [encoder.encode_images(batch) for batch in batches],
        "texts": lambda: encoder.encode_texts(texts),
        "padded": lambda: padded_loop(tokenizer, text_tower, texts),
    }
    median = median_seconds(works, rounds)
    return {
        "images_ratio_to_eager_torch": round(median["eager"] / median["tower"], 2),
        "texts_ratio_to_padded_loop": round(median["padded"] / median["texts"], 2),
        "images_per_second_with_preparation": round(len(images) / median["images"], 1),
        "texts_per_second": round(len(texts) / median["texts"]),
        "cores": cores(),
    }


if __name__ == "__main__":
    sys.exit(main())
