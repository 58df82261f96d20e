"""Features: what an encoder made of a collection's pictures and texts, as an artifact.

`images.npy` [pictures, image_width] and `texts.npy` [texts, text_width] in float16, memory-mapped, with the
pictures' names and the texts themselves beside them, so that a row is found by what it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import orjson

from genius import storage
from genius.encode.encoder import Encoder
from genius.errors import MismatchError

KIND = "features"
FORMAT = 1
ABSENT = -1


class Features:
    """Rows of features by picture name and by text."""

    def __init__(self, artifact: storage.Artifact) -> None:
        self.path = artifact.path
        self.fingerprint = artifact.fingerprint
        self.encoder = artifact.manifest.made_from["encoder"]
        self.images: np.ndarray = np.load(artifact.file("images.npy"), mmap_mode="r")
        self.texts: np.ndarray = np.load(artifact.file("texts.npy"), mmap_mode="r")
        self._image_rows = _numbered(artifact.file("images.jsonl"))
        self._text_rows = _numbered(artifact.file("texts.jsonl"))

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

    def image_rows(self, names: Iterable[str | None]) -> np.ndarray:
        """The rows of pictures by name; -1 where there is none."""
        return np.array([self._image_rows.get(name, ABSENT) for name in names], np.int32)

    def text_rows(self, texts: Iterable[str | None]) -> np.ndarray:
        """The rows of texts; -1 where there is none."""
        return np.array([self._text_rows.get(text, ABSENT) for text in texts], np.int32)

    def image_key(self, row: int) -> bytes:
        """What is the same for pictures of equal content: their features are."""
        return bytes(self.images[row].tobytes())

    def text_key(self, row: int) -> bytes:
        """What is the same for equal texts."""
        return bytes(self.texts[row].tobytes())


def write_features(
    path: Path | str,
    encoder: Encoder,
    contents: str,
    images: tuple[list[str], np.ndarray],
    texts: tuple[list[str], np.ndarray],
) -> None:
    """Write features as an artifact: names and texts with their rows, and a digest of all contents."""
    made_from = {"encoder": encoder.fingerprint, "contents": contents}
    with storage.create(path, kind=KIND, format=FORMAT, made_from=made_from) as draft:
        for name, (keys, rows) in (("images", images), ("texts", texts)):
            np.save(draft.folder / f"{name}.npy", rows)
            lines = (orjson.dumps(key) + b"\n" for key in keys)
            with (draft.folder / f"{name}.jsonl").open("wb") as file:
                file.writelines(lines)
            draft.counts[name] = len(keys)


def is_of(path: Path | str, encoder: Encoder, contents: str) -> bool:
    """Whether the artifact at `path` holds the features of these contents by this encoder."""
    if not storage.is_artifact(path):
        return False
    manifest = storage.read_manifest(path)
    wanted = {"encoder": encoder.fingerprint, "contents": contents}
    return (manifest.kind, manifest.format, manifest.made_from) == (KIND, FORMAT, wanted)


def _numbered(path: Path) -> dict[str | None, int]:
    with path.open("rb") as file:
        return {orjson.loads(line): number for number, line in enumerate(file)}
