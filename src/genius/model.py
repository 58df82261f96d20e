"""A model: one folder that holds all that a search needs, and grows stage by stage.

After stage 0 it embeds items and queries for dense search. What it can't do yet is a clear error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genius import storage
from genius.data.records import MODALITIES, Item, Query
from genius.data.text import clean, query_text
from genius.decode.decoder import Decoder, open_decoder
from genius.decode.geometry import Geometry
from genius.decode.onnx_decoder import Precision
from genius.encode.direct import Rows, image_rows, loaded, text_rows
from genius.encode.encoder import Encoder, EncoderLoader
from genius.encode.lite import FILES as TOWER_FILES
from genius.encode.lite import LiteLoader
from genius.errors import InputError, MismatchError, MissingError
from genius.quantize.fusion_inputs import FusionInputs
from genius.quantize.quantizer import Quantizer, modality_codes_for
from genius.runtime import cores, session

if TYPE_CHECKING:
    from PIL import Image

KIND = "model"
FORMAT = 1
BLOCK = 4096
STAGES = ("encoder", "quantizer", "decoder")

Joining = Literal["heads", "score", "tokens"]
"""By trained heads over features of picture, text and instruction; by the sum of a fine-tuned CLIP's
features; or by a transformer over its tokens."""

DenseBaseline = Literal["embeddings", "vectors"]
"""What dense search compares: joined embeddings or fused vectors."""


class Model:
    """A trained model, opened for use; torch is not needed."""

    def __init__(
        self, artifact: storage.Artifact, threads: int | None = None, device: str | None = None
    ) -> None:
        self.path = artifact.path
        self.fingerprint = artifact.fingerprint
        self.settings = artifact.manifest.settings
        self.stages: list[str] = self.settings["stages"]
        self._artifact = artifact
        self._threads, self._device = threads, device

    @classmethod
    def open(cls, path: Path | str, *, threads: int | None = None, device: str | None = None) -> Model:
        """The model at `path`; with a `device`, as "cuda", its learned decoder runs there by torch.

        Raises InputError, MismatchError or DamagedError if there is no whole one.
        """
        return cls(storage.open(path, kind=KIND, format=FORMAT), threads, device)

    @cached_property
    def encoder(self) -> Encoder:
        """The towers that the model was trained on. Raises MismatchError if others stand in their place."""
        encoder = self.encoder_loader(self._threads or cores())
        trained_on = self.settings["encoder"]["fingerprint"]
        source = self.settings["encoder"]["source"] or self.path / "towers"
        if encoder.fingerprint != trained_on:
            raise MismatchError(
                f"{self.path} was trained on the encoder {trained_on[:12]}, but "
                f"{source} is now {encoder.fingerprint[:12]}: "
                "bring the old one back, or train again"
            )
        return encoder

    @property
    def encoder_loader(self) -> EncoderLoader:
        """What opens these towers, here or in a worker process."""
        described = self.settings["encoder"]
        if described["kind"] == "lite":
            for name in TOWER_FILES:
                self._artifact.file(f"towers/{name}")
            return LiteLoader(self.path / "towers", described["fingerprint"])
        from genius.encode.clip import ClipLoader

        # A fine-tuned CLIP has no other place than the model.
        return ClipLoader(described["source"] or str(self._artifact.file("towers/config.json").parent))

    @property
    def width(self) -> int:
        """Of the joined embedding."""
        return int(self.settings["width"])

    @property
    def joining(self) -> Joining:
        """How pictures and texts become one embedding."""
        return self.settings.get("joining", "heads")  # type: ignore[no-any-return]

    @property
    def instruction_apart(self) -> bool:
        """Whether an instruction is encoded apart; otherwise it stands before the query's text."""
        return self.joining == "heads"

    @property
    def joins_features(self) -> bool:
        """Whether embeddings come from features of pictures and texts; otherwise from whole records."""
        return self.joining != "tokens"

    # --- from features

    def join_items(self, image: Rows, text: Rows, modality: np.ndarray) -> np.ndarray:
        """Joined embeddings [n, width] of items, of unit length."""
        return self._run(self._items, image, text, modality=modality.astype(np.int64))

    def join_queries(self, image: Rows, text: Rows, instruction: Rows) -> np.ndarray:
        """Joined embeddings [n, width] of queries, of unit length."""
        return self._run(self._queries, image, text, instruction)

    def item_parts(self, image: Rows, text: Rows, modality: np.ndarray) -> FusionInputs:
        """The parts of items, and their joined embeddings."""
        return _parted(lambda image, text, rows: self.join_items(image, text, modality[rows]), image, text)

    def query_parts(self, image: Rows, text: Rows, instruction: Rows) -> FusionInputs:
        """The parts of queries, each under the instruction, and their joined embeddings."""

        def join(image: Rows, text: Rows, rows: np.ndarray) -> np.ndarray:
            return self.join_queries(image, text, (instruction[0][rows], instruction[1][rows]))

        return _parted(join, image, text)

    def record_parts(self, pictures: Sequence[Image.Image | None], texts: Sequence[str]) -> FusionInputs:
        """Joined embeddings of records that tokens join: such have no parts, so each is the whole."""
        embeddings = self.embed_records(pictures, texts)
        has_image = np.array([picture is not None for picture in pictures], bool)
        return FusionInputs.from_parts(
            embeddings, (embeddings, has_image), (embeddings, np.array([bool(text) for text in texts], bool))
        )

    def _run(self, graph: Any, *parts: Rows, **more: np.ndarray) -> np.ndarray:
        inputs = dict(more)
        for name, (rows, present) in zip(("image", "text", "instruction"), parts, strict=False):
            inputs[name] = np.ascontiguousarray(rows, np.float32)
            inputs[f"has_{name}"] = present.astype(bool)
        embeddings: np.ndarray = graph.run(["embeddings"], inputs)[0]
        return embeddings

    @cached_property
    def _items(self) -> Any:
        return self._graph("encoder", "items.onnx")

    @cached_property
    def _queries(self) -> Any:
        return self._graph("encoder", "queries.onnx")

    def _graph(self, stage: str, name: str) -> Any:
        if stage == "encoder" and not self.joins_features:
            raise MismatchError(
                f"{self.path} joins pictures and texts by their tokens, so it can't start from features: "
                "use embed_items and embed_queries"
            )
        self._require(stage)
        return session(str(self._artifact.file(name)), self._threads)

    def _require(self, stage: str) -> None:
        if stage not in self.stages:
            raise MissingError(
                f"{self.path} has no {stage} yet (it has: {', '.join(self.stages) or 'nothing'}); "
                f"train it with: genius train RECIPE --tree TREE -o {self.path}"
            )

    # --- quantizer

    def vectors(self, parts: FusionInputs) -> np.ndarray:
        """The fused vectors [n, width] of records, of unit length."""
        known = {given.name for given in self._fusion.get_inputs()}  # the published fusion has no joined one
        blocks = [np.zeros((0, self.width), np.float32)]
        for start in range(0, len(parts), BLOCK):
            inputs = parts[slice(start, start + BLOCK)]
            blocks += self._fusion.run(["vectors"], {name: inputs[name] for name in known})
        return np.concatenate(blocks)

    def modality_codes_for(self, want: int, count: int) -> np.ndarray | None:
        """The modality code [count] of queries that want a modality; None if the model has no such codes."""
        self._require("quantizer")
        return modality_codes_for(self.settings["quantizer"]["modality_of"], want, count)

    @property
    def dense_baseline(self) -> DenseBaseline:
        """What fair dense search compares: what found more of the validation queries' answers."""
        return self.settings.get("quantizer", {}).get("dense_baseline", "embeddings")  # type: ignore[no-any-return]

    @property
    def rerank_weight(self) -> float:
        """How much joined embeddings count in re-ranking; the rest is the nearness of vector and code."""
        self._require("quantizer")
        return float(self.settings["quantizer"].get("rerank", 1.0))

    @cached_property
    def _fusion(self) -> Any:
        return self._graph("quantizer", "fusion.onnx")

    @cached_property
    def quantizer(self) -> Quantizer:
        """What turns vectors into codes."""
        self._require("quantizer")
        modality_code = self.settings["quantizer"]["modality_code"]
        return Quantizer.open(self._artifact.file("codebooks.safetensors"), modality_code)

    @cached_property
    def geometry(self) -> Geometry:
        """The decoder without a network: codes by their distance from the query's vector."""
        return Geometry(self.quantizer.codebooks, self.settings["quantizer"]["temperature"])

    @cached_property
    def learned(self) -> Decoder:
        """The learned decoder, in single precision."""
        return self.learned_decoder("fp32")

    def learned_decoder(self, precision: Precision, threads: int | None = None) -> Decoder:
        """The learned decoder; in 8 bits it is faster, and its answers depend a little on their company."""
        self._require("decoder")
        described, threads = self.settings["decoder"], threads or self._threads
        return open_decoder(self._artifact.file, self.width, described, precision, threads, self._device)

    # --- from items and queries

    def embed_items(self, items: Sequence[Item]) -> np.ndarray:
        """Joined embeddings of items. Raises InputError for a picture that can't be read."""
        images, texts = [item.image for item in items], [clean(item.text) for item in items]
        if not self.joins_features:
            return self.embed_records(loaded(images), texts)
        modality = np.array([MODALITIES.index(item.modality) for item in items], np.int64)
        return self.join_items(image_rows(self.encoder, images), text_rows(self.encoder, texts), modality)

    def embed_queries(self, queries: Sequence[Query]) -> np.ndarray:
        """Joined embeddings of queries; of an instruction only what it says counts, not where it is from."""
        return self.embed(queries).embeddings

    def embed(self, queries: Sequence[Query]) -> FusionInputs:
        """The parts of queries, and their joined embeddings."""
        if not queries:
            raise InputError("there is no query to embed")
        images, (texts, instructions) = [query.image for query in queries], self.query_texts(queries)
        if not self.joins_features:
            return self.record_parts(loaded(images), texts)
        features = text_rows(self.encoder, texts), text_rows(self.encoder, instructions)
        return self.query_parts(image_rows(self.encoder, images), *features)

    def query_texts(self, queries: Sequence[Query]) -> tuple[list[str], list[str]]:
        """The texts that stand for queries, and their instructions: empty where these are in the texts."""
        if self.instruction_apart:
            return [clean(query.text) for query in queries], [clean(query.instruction) for query in queries]
        return [query_text(query) for query in queries], [""] * len(queries)

    def embed_records(self, pictures: Sequence[Image.Image | None], texts: Sequence[str]) -> np.ndarray:
        """Embeddings [n, width] of pictures with their texts (absent: None, empty), as tokens join them."""
        embedded: np.ndarray = self._fused.embed(pictures, texts)
        return embedded

    @cached_property
    def _fused(self) -> Any:
        from genius.encode.clip_fusion import JoinedClip

        clip: Any = self.encoder
        return JoinedClip.by_tokens(clip, self.settings["fusion"], self._artifact.file("fusion.safetensors"))


def _parted(join: Callable[[Rows, Rows, np.ndarray], np.ndarray], image: Rows, text: Rows) -> FusionInputs:
    """Joined embeddings, and for records with both parts also what each part alone becomes."""
    numbers = np.arange(len(image[1]))
    embeddings = join(image, text, numbers)
    both = np.flatnonzero(image[1] & text[1])
    if not len(both):
        return FusionInputs.from_parts(embeddings, (embeddings, image[1]), (embeddings, text[1]))
    pictures, texts = (image[0][both], image[1][both]), (text[0][both], text[1][both])
    nothing = np.zeros(len(both), bool)
    alone = np.zeros_like(embeddings), np.zeros_like(embeddings)
    alone[0][both] = join(pictures, (texts[0], nothing), both)
    alone[1][both] = join((pictures[0], nothing), texts, both)
    return FusionInputs.from_parts(embeddings, (alone[0], image[1]), (alone[1], text[1]))
