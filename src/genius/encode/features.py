"""Features: what an encoder made of a collection's images and texts, as an artifact.

`images.npy` [images, image_width] and `texts.npy` [texts, text_width] in float16, memory-mapped, and beside
them the images' names and the texts themselves, by which a row is looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import orjson

from genius import storage
from genius.encode.encoder import Encoder
from genius.errors import MismatchError

KIND = "features"
FORMAT = 1
ABSENT = -1
"""The row number of an absent image or text."""


class RowLookup:
    """Row numbers by image name and by text."""

    def __init__(self, image_names: Iterable[str], texts: Iterable[str]) -> None:
        self._image_rows: dict[str | None, int] = {name: row for row, name in enumerate(image_names)}
        self._text_rows: dict[str | None, int] = {text: row for row, text in enumerate(texts)}

    def image_rows(self, names: Iterable[str | None]) -> np.ndarray:
        """Row numbers int32 [n] of images by name; ABSENT where a name is unknown or None."""
        return np.array([self._image_rows.get(name, ABSENT) for name in names], np.int32)

    def text_rows(self, texts: Iterable[str | None]) -> np.ndarray:
        """Row numbers int32 [n] of texts; ABSENT where a text is unknown or None."""
        return np.array([self._text_rows.get(text, ABSENT) for text in texts], np.int32)

    def text_list(self) -> list[str]:
        """The texts by row number."""
        return [text for text in self._text_rows if text is not None]


class Features(RowLookup):
    """Features of images and texts, float16 [n, width] each, and their row numbers."""

    def __init__(self, artifact: storage.Artifact) -> None:
        super().__init__(_lines(artifact.file("images.jsonl")), _lines(artifact.file("texts.jsonl")))
        self.path = artifact.path
        self.fingerprint = artifact.fingerprint
        self.encoder = artifact.manifest.made_from["encoder"]
        self.images: np.ndarray = np.load(artifact.file("images.npy"), mmap_mode="r")
        self.texts: np.ndarray = np.load(artifact.file("texts.npy"), mmap_mode="r")

    @classmethod
    def open(cls, path: Path | str, encoder: Encoder | None = None) -> Features:
        """The features at `path`. Raises MismatchError if another encoder than `encoder` made them."""
        features = cls(storage.open(path, kind=KIND, format=FORMAT))
        if encoder is not None:
            features.check(encoder)
        return features

    def check(self, encoder: Encoder) -> None:
        """Raise MismatchError if another encoder made these features."""
        if self.encoder != encoder.fingerprint:
            raise MismatchError(
                f"{self.path} holds features of the encoder {self.encoder[:12]}, but here "
                f"{encoder.fingerprint[:12]} is used: encode the collection again with genius encode"
            )

    def image_key(self, row: int) -> bytes:
        """The same for images of equal content, since their features are equal."""
        return bytes(self.images[row].tobytes())

    def text_key(self, row: int) -> bytes:
        """The same for equal texts."""
        return bytes(self.texts[row].tobytes())


def write_features(
    path: Path | str,
    encoder: Encoder,
    digest: str,
    images: tuple[list[str], np.ndarray],
    texts: tuple[list[str], np.ndarray],
) -> None:
    """Write an artifact of features: image names and texts, each with their rows [n, width].

    `digest` identifies the encoded images and texts.
    """
    made_from = {"encoder": encoder.fingerprint, "contents": digest}
    with storage.create(path, kind=KIND, format=FORMAT, made_from=made_from) as draft:
        for name, (keys, rows) in (("images", images), ("texts", texts)):
            draft.write_array(f"{name}.npy", rows)
            lines = (orjson.dumps(key) + b"\n" for key in keys)
            with (draft.folder / f"{name}.jsonl").open("wb") as file:
                file.writelines(lines)
            draft.counts[name] = len(keys)


def is_up_to_date(path: Path | str, encoder: Encoder, digest: str) -> bool:
    """Whether the artifact at `path` holds the features of these inputs by this encoder."""
    if not storage.is_artifact(path):
        return False
    manifest = storage.read_manifest(path)
    wanted = {"encoder": encoder.fingerprint, "contents": digest}
    return (manifest.kind, manifest.format, manifest.made_from) == (KIND, FORMAT, wanted)


def _lines(path: Path) -> Iterator[str]:
    with path.open("rb") as file:
        for line in file:
            yield orjson.loads(line)
