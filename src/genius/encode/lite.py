"""Pictures named by the classes that their tower sees in them (ConSE, Norouzi et al., arXiv 1312.5650).

The mean of the text embeddings of the likeliest classes' names is where a caption would roughly be. It needs
no training, so it also holds for what training never showed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch
from PIL import Image
from torch import nn
from torch.nn import functional

from genius import storage
from genius.encode import lite_colour as colour
from genius.encode import lite_image as efficientnet
from genius.encode import lite_text as minilm
from genius.encode import lite_weights as weights
from genius.encode.checkpoints import read_checkpoint
from genius.encode.projection import Projection
from genius.errors import InputError
from genius.runtime import cores, session

LIKELIEST = 20


class Naming(nn.Module):
    """From a picture's class logits to the raw block of the text that would name it."""

    def __init__(self, image_parts: Mapping[str, int], raw: int) -> None:
        super().__init__()
        if "logits" not in image_parts:
            raise InputError("these features have no class logits, so pictures can't be named by them")
        names = list(image_parts)
        self.first = sum(image_parts[name] for name in names[: names.index("logits")])
        self.classes = image_parts["logits"]
        self.register_buffer("vectors", torch.zeros(self.classes, raw))
        self.register_buffer("centre", torch.zeros(raw))

    def fit(self, sentences: torch.Tensor, text: Projection, features: torch.Tensor) -> None:
        """Take over the classes' sentences (text features) and centre the names of training pictures."""
        first, last = text.spans[0]
        unit = functional.normalize(sentences[:, first:last], dim=1)
        self.get_buffer("vectors").copy_(unit @ text.get_buffer("raw_directions"))
        self.get_buffer("centre").copy_(self._mixed(features).mean(0))

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """Raw text blocks [n, raw], of unit length."""
        return functional.normalize(self._mixed(features) - self.get_buffer("centre"), dim=1)

    def _mixed(self, features: torch.Tensor) -> torch.Tensor:
        shares = features[:, self.first : self.first + self.classes].softmax(dim=1)
        likeliest = shares.topk(LIKELIEST, dim=1)
        weights = torch.zeros_like(shares).scatter(1, likeliest.indices, likeliest.values.sqrt())
        return functional.normalize(weights, p=1.0, dim=1) @ self.get_buffer("vectors")


KIND = "towers"
FORMAT = 1
FILES = ("image.onnx", "text.onnx", "tokenizer.json")
VERSION = 1
"""Goes up when the same towers would give other features, so that old ones are not mistaken for new."""
MAX_TOKENS = 128
_IMAGE_OUTPUTS = ("mean", "max", "logits", "stages", "grid")
_TEXT_OUTPUTS = ("mean", "max", "words")
_TEXTS_AT_ONCE = 64


class Lite:
    """The embedded encoder, from a folder that holds its towers."""

    def __init__(self, folder: Path, fingerprint: str, threads: int | None = None) -> None:
        from tokenizers import Tokenizer

        self._fingerprint = fingerprint
        self._image = session(str(folder / "image.onnx"), threads)
        # Short texts keep one core busy at a time, so batches go side by side instead of being split.
        self._text = session(str(folder / "text.onnx"), 1)
        self._threads = threads or cores()
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        widths = {output.name: output.shape[1] for output in self._image.get_outputs()}
        self._image_parts = {name: widths[name] for name in _IMAGE_OUTPUTS}
        self._image_parts |= {"colours": colour.HISTOGRAM_WIDTH, "thumbnail": colour.THUMBNAIL_WIDTH}
        self._text_parts = {output.name: output.shape[1] for output in self._text.get_outputs()}

    @classmethod
    def open(cls, folder: Path | str | None = None, *, threads: int | None = None) -> Lite:
        """The encoder from its towers' folder; by default the one that `build` keeps in the user's cache."""
        found = loader(folder)
        return cls(found.folder, found.fingerprint, threads)

    @property
    def fingerprint(self) -> str:
        """What identifies these towers."""
        return self._fingerprint

    @property
    def image_parts(self) -> Mapping[str, int]:
        """The tower's layers, then the colour descriptor."""
        return self._image_parts

    @property
    def text_parts(self) -> Mapping[str, int]:
        """The tower's layers."""
        return self._text_parts

    @property
    def image_width(self) -> int:
        """How many numbers a picture becomes."""
        return sum(self._image_parts.values())

    @property
    def text_width(self) -> int:
        """How many numbers a text becomes."""
        return sum(self._text_parts.values())

    def images(self, pictures: Sequence[Image.Image]) -> np.ndarray:
        """Features [n, image_width] of upright RGB pictures."""
        if not pictures:
            return np.zeros((0, self.image_width), np.float32)
        squares = np.stack([pixels(picture) for picture in pictures])
        colours = [np.concatenate(colour.describe(picture)) for picture in pictures]
        layers = self._image.run(list(_IMAGE_OUTPUTS), {"pixels": squares})
        return np.concatenate([*layers, np.stack(colours)], axis=1)

    def texts(self, texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of texts; what is longer than 128 tokens is cut."""
        rows = np.zeros((len(texts), self.text_width), np.float32)
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]
        # Texts of one length go together: no padding, and the same features whatever stands beside them.
        by_length: dict[int, list[int]] = {}
        for place, ids in enumerate(tokens):
            if ids:  # a text without a single token stays zeros
                by_length.setdefault(len(ids), []).append(place)
        batches = [
            together[start : start + _TEXTS_AT_ONCE]
            for together in by_length.values()
            for start in range(0, len(together), _TEXTS_AT_ONCE)
        ]

        def run(places: list[int]) -> None:
            numbers = np.array([tokens[place] for place in places], np.int64)
            layers = self._text.run(list(_TEXT_OUTPUTS), {"ids": numbers, "mask": np.ones_like(numbers)})
            rows[places] = np.concatenate(layers, axis=1)

        if min(len(batches), self._threads) < 2:
            for places in batches:
                run(places)
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(run, batches))
        return rows

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts have more than 128 tokens."""
        return [bool(encoding.overflowing) for encoding in self._tokenizer.encode_batch(list(texts))]


@dataclass(frozen=True)
class LiteLoader:
    """Opens the encoder in a worker process."""

    folder: Path
    fingerprint: str

    def __call__(self, threads: int) -> Lite:
        """The encoder, using this many threads."""
        return Lite(self.folder, self.fingerprint, threads)


def loader(folder: Path | str | None = None) -> LiteLoader:
    """What opens the encoder from its towers' folder, once that was found whole."""
    artifact = storage.open(folder or home(), kind=KIND, format=FORMAT)
    return LiteLoader(artifact.path, artifact.fingerprint)


def class_sentences() -> list[str]:
    """A sentence for each class of the image tower's logits, as a caption would name it."""
    names = orjson.loads(weights.fetched(weights.CLASSES).read_bytes())
    return [f"A photo of a {name}." for name in names]


def home() -> Path:
    """Where the towers are kept once they are built."""
    return weights.home().parent / "towers" / "lite"


def build(folder: Path | str | None = None, *, weight_folder: Path | None = None) -> Path:
    """Build the towers from the fetched weights, if that was not done before; returns their folder.

    Raises MissingError if the weights were not fetched.
    """
    target = Path(folder or home())
    files = {file.sha256: weights.fetched(file, weight_folder) for file in weights.TOWERS}
    made_from = {file.member: file.sha256 for file in weights.TOWERS}
    if storage.is_artifact(target):
        manifest = storage.read_manifest(target)
        if manifest.kind == KIND and manifest.made_from == made_from and manifest.settings == _settings():
            return target
    with storage.create(target, kind=KIND, format=FORMAT, settings=_settings(), made_from=made_from) as draft:
        image = efficientnet.build(read_checkpoint(files[weights.IMAGE.sha256]))
        (draft.folder / "image.onnx").write_bytes(image)
        (draft.folder / "text.onnx").write_bytes(minilm.build(read_checkpoint(files[weights.TEXT.sha256])))
        (draft.folder / "tokenizer.json").write_bytes(files[weights.TOKENIZER.sha256].read_bytes())
    return target


def _settings() -> dict[str, Any]:
    return {"version": VERSION, "side": efficientnet.SIDE, "tokens": MAX_TOKENS}


def pixels(picture: Image.Image) -> np.ndarray:
    """A picture as the tower takes it: squeezed to its square, (value − 127) / 128."""
    side = efficientnet.SIDE
    squeezed = picture.resize((side, side), Image.Resampling.BICUBIC)
    return ((np.asarray(squeezed, np.float32) - 127) / 128).transpose(2, 0, 1)
