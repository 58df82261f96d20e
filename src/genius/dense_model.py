"""The first stage of a model: its encoder, and what it makes of items and queries for dense search."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genius import storage
from genius.data.instructions import clean, query_text
from genius.data.records import MODALITIES, Item, Query, Vectors
from genius.decode.format_1 import FORMAT_1, current_name, upgraded
from genius.encode import lite
from genius.encode.direct import MaskedFeatures, image_features, load_images, text_features
from genius.encode.encoder import Encoder, EncoderLoader, saved_encoder_loader
from genius.encode.lite import FILES as TOWER_FILES
from genius.encode.lite import LiteLoader, TowerPrecision
from genius.errors import InputError, MismatchError, MissingError
from genius.identifiers.identifiers import SCHEMES, no_code_vectors
from genius.identifiers.scheme import IdentifierName
from genius.quantize.fusion_inputs import FusionInputs, embedded_parts, feature_lengths
from genius.quantize.joint_embedder import JointEmbedder
from genius.quantize.joint_space import JointSpace, masked_parts
from genius.runtime import cores, session
from genius.tensors import read_tensors, tensor_for_graph

if TYPE_CHECKING:
    from PIL import Image

TENSOR_FILES = {
    "items.onnx": "heads.safetensors",
    "queries.onnx": "heads.safetensors",
    "fusion.onnx": "quantizer.safetensors",
}
"""Where the tensors of a graph are; in models made before they were shared, within the graph itself."""

FusionKind = Literal["heads", "score", "tokens", "joint"]
"""How an image and a text become one embedding: by trained heads over features of image, text and
instruction, by the sum of a fine-tuned CLIP's or BLIP's features (score fusion), by a transformer over its
tokens (token fusion), or as they are, from an encoder whose images and texts are in one space (joint)."""


class DenseModel:
    """What a model with its first stage can do; `Model` has the rest."""

    def __init__(
        self, artifact: storage.Artifact, threads: int | None = None, device: str | None = None
    ) -> None:
        manifest = artifact.manifest
        self.path = artifact.path
        self.fingerprint = artifact.fingerprint
        self._is_older = manifest.format == FORMAT_1
        self.settings = upgraded(manifest.settings) if self._is_older else manifest.settings
        self.stages: list[str] = self.settings["stages"]
        self._artifact = artifact
        self._threads, self._device = threads, device
        self._read_tensors: dict[str, dict[str, np.ndarray]] = {}

    def prepare(self, *, offline: bool = False) -> None:
        """Fetch and build what the model's encoder needs, if that is the built-in one and not here yet.

        Raises MissingError if it can't be fetched, or may not be because the user is `offline`.
        """
        if not self._has_towers and self.settings["encoder"]["kind"] == "lite":
            lite.prepare(self._tower_precision, offline=offline)

    @property
    def _has_towers(self) -> bool:
        return any(name.startswith("towers/") for name in self._artifact.manifest.files)

    @property
    def _tower_precision(self) -> TowerPrecision:
        """Of the built-in encoder's towers."""
        return self.settings["encoder"].get("precision", "fp32")  # type: ignore[no-any-return]

    def _require(self, stage: str) -> None:
        if stage == "quantizer" and not self.has_code_vectors:
            raise MissingError(f"{self.path}: {no_code_vectors(self.identifier_name)}")
        if stage not in self.stages:
            raise MissingError(
                f"{self.path} has no {stage} yet (it has: {', '.join(self.stages) or 'nothing'}); "
                f"train it with: genius train RECIPE --tree TREE -o {self.path}"
            )

    def _graph(self, stage: str, name: str) -> Any:
        """An ONNX session of one of the model's graphs."""
        self._require(stage)
        needed = self.settings.get("tensors", {}).get(name, [])
        tensors = {key: tensor_for_graph(self._tensors(TENSOR_FILES[name]), key) for key in needed}
        return session(str(self._artifact.file(name)), self._threads, tensors)

    def head_tensors(self) -> dict[str, np.ndarray]:
        """The tensors of the heads by name, for training to start from."""
        return self._tensors("heads.safetensors")

    def _tensors(self, file: str) -> dict[str, np.ndarray]:
        """The tensors of one of the model's files, which several graphs may share."""
        if file not in self._read_tensors:
            self._read_tensors[file] = read_tensors(self._artifact.file(file))
        return self._read_tensors[file]

    @property
    def identifier_name(self) -> IdentifierName:
        """What items are known by: codes of the quantizer, or the identifiers of another method."""
        return self.settings.get("identifiers", {}).get("kind", "codes")  # type: ignore[no-any-return]

    @property
    def has_code_vectors(self) -> bool:
        """Whether codes have vectors, as those of a quantizer have; identifiers of other methods don't."""
        return self.identifier_name == "codes"

    @property
    def reads_instructions(self) -> bool:
        """Whether a query's instruction counts; some methods have none."""
        name = self.identifier_name
        return name == "codes" or SCHEMES[name].reads_instructions

    # --- the encoder and what it makes

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder that the model was trained on. Raises MismatchError if it was replaced since."""
        encoder = self.encoder_loader(self._threads or cores())
        trained_on = self.settings["encoder"]["fingerprint"]
        source = self.settings["encoder"]["source"] or (
            self.path / "towers" if self._has_towers else lite.home(self._tower_precision)
        )
        if encoder.fingerprint != trained_on:
            raise MismatchError(
                f"{self.path} was trained on the encoder {trained_on[:12]}, but "
                f"{source} is now {encoder.fingerprint[:12]}: "
                "bring the old one back, or train again"
            )
        return encoder

    @property
    def encoder_loader(self) -> EncoderLoader:
        """Opens the model's encoder, in this process or in a worker process."""
        described = self.settings["encoder"]
        if described["kind"] == "lite":
            if not self._has_towers:
                return lite.loader(lite.build(precision=self._tower_precision))
            for name in TOWER_FILES:
                self._artifact.file(f"towers/{name}")
            return LiteLoader(self.path / "towers", described["fingerprint"])
        return saved_encoder_loader(described, self.path / "towers", self._device)

    @property
    def width(self) -> int:
        """Width of embeddings and of fused vectors."""
        return int(self.settings["width"])

    @property
    def fusion_kind(self) -> FusionKind:
        """How an image and a text become one embedding."""
        return self.settings["fusion_kind"]  # type: ignore[no-any-return]

    @property
    def instruction_apart(self) -> bool:
        """Whether an instruction is encoded apart; otherwise it is put before the query's text."""
        return self.fusion_kind in ("heads", "joint")

    @property
    def uses_features(self) -> bool:
        """Whether embeddings are made of features of images and texts; otherwise of whole records."""
        return self.fusion_kind != "tokens" and not self.settings["encoder"].get("pairs", False)

    @property
    def encodes_queries_apart(self) -> bool:
        """Whether a query's features are others than an item's would be."""
        return bool(self.settings["encoder"].get("queries", False))

    @property
    def takes_vectors(self) -> bool:
        """Whether items bring their vectors along, instead of being encoded."""
        return self.settings["encoder"]["kind"] == "precomputed"  # type: ignore[no-any-return]

    # --- from items and queries

    def embed_items(self, items: Sequence[Item]) -> np.ndarray:
        """Embeddings [n, width] of items, of unit length. Raises InputError for an unreadable image."""
        images, texts = [item.image for item in items], [self.read_text(item.text) for item in items]
        if not self.uses_features:
            return self.record_fusion_inputs(load_images(images), texts).embeddings
        modality = np.array([MODALITIES.index(item.modality) for item in items], np.int64)
        features = image_features(self.encoder, images), text_features(self.encoder, texts)
        return self.embed_item_features(*features, modality)

    def embed_queries(self, queries: Sequence[Query]) -> np.ndarray:
        """Embeddings [n, width] of queries, of unit length. Raises InputError as `fusion_inputs` does."""
        return self.fusion_inputs(queries).embeddings

    def fusion_inputs(self, queries: Sequence[Query]) -> FusionInputs:
        """The embeddings of queries, as a whole and by modality: what `vectors` takes.

        Of an instruction only its text counts. Raises InputError for no query at all, and for an image that
        can't be read.
        """
        if not queries:
            raise InputError("there is no query to embed")
        images, (texts, instructions) = [query.image for query in queries], self.query_texts(queries)
        if not self.uses_features or self.encodes_queries_apart:
            return self.query_record_inputs(load_images(images), texts, instructions)
        features = text_features(self.encoder, texts), text_features(self.encoder, instructions)
        return self.query_fusion_inputs(image_features(self.encoder, images), *features)

    def read_text(self, text: str | None) -> str:
        """A text as the encoder gets it: as it is, or as benchmarks write it where it learned from them."""
        return (text or "").strip() if self.fusion_kind == "joint" else clean(text)

    def query_texts(self, queries: Sequence[Query]) -> tuple[list[str], list[str]]:
        """The texts of queries and their instructions, which are empty if they are put before the texts."""
        if self.instruction_apart:
            read = self.read_text
            return [read(query.text) for query in queries], [read(query.instruction) for query in queries]
        return [query_text(query) for query in queries], [""] * len(queries)

    def unread_words(self, texts: Sequence[str]) -> list[list[str]]:
        """The words of each text that the encoder can't read, as far as it says so."""
        encoder = self.encoder
        return encoder.unread_words(texts) if isinstance(encoder, lite.Lite) else [[] for _ in texts]

    def retargeted(self, inputs: FusionInputs, rows: np.ndarray, want: np.ndarray) -> FusionInputs:
        """The queries at `rows` [n], each as if it asked for the modality `want` [n]; -1 changes nothing."""
        named = inputs[rows]
        parts = ("embeddings", "image", "text")
        embeddings, image, text = (self.wanting(named[name], want) for name in parts)
        lengths = np.stack([named["image_length"], named["text_length"]], axis=1)
        return FusionInputs.from_parts(
            embeddings, (image, named["has_image"]), (text, named["has_text"]), lengths
        )

    def wanting(self, embeddings: np.ndarray, want: np.ndarray) -> np.ndarray:
        """Embeddings [n, width] of the same content that ask for the modality `want` [n]; -1 changes nothing.

        Heads keep what a query wants apart from its content, in the last numbers of its embedding. So the
        similarities of one content with items of different modalities can be compared if each was asked for.
        """
        if self.fusion_kind != "heads" or not embeddings.shape[1]:
            return embeddings
        changed = embeddings.copy()
        rows = np.flatnonzero(want >= 0)
        blocks = changed[:, -len(MODALITIES) :]
        strength = np.linalg.norm(blocks[rows], axis=1)
        blocks[rows] = 0
        blocks[rows, want[rows]] = strength
        return changed

    @property
    def content_width(self) -> int:
        """How many numbers of an embedding say what it is about; heads say in the others what is wanted."""
        return self.width - len(MODALITIES) if self.fusion_kind == "heads" else self.width

    # --- from features

    def embed_item_features(
        self, image: MaskedFeatures, text: MaskedFeatures, modality: np.ndarray
    ) -> np.ndarray:
        """Embeddings [n, width] of items from their features and modality [n]."""
        if self.fusion_kind == "joint":
            return self.space.from_parts(image, text).embeddings
        return self._embed(self._item_graph, image, text, modality=modality.astype(np.int64))

    def embed_query_features(
        self, image: MaskedFeatures, text: MaskedFeatures, instruction: MaskedFeatures
    ) -> np.ndarray:
        """Embeddings [n, width] of queries from their features."""
        if self.fusion_kind == "joint":
            return self.space.from_parts(image, text).embeddings
        return self._embed(self._query_graph, image, text, instruction)

    def item_fusion_inputs(
        self, image: MaskedFeatures, text: MaskedFeatures, modality: np.ndarray
    ) -> FusionInputs:
        """The embeddings of items, as a whole and by modality."""
        if self.fusion_kind == "joint":
            return self.space.from_parts(image, text)
        return embedded_parts(
            lambda image, text, rows: self.embed_item_features(image, text, modality[rows]),
            image,
            text,
            self._feature_lengths(image, text),
        )

    def query_fusion_inputs(
        self, image: MaskedFeatures, text: MaskedFeatures, instruction: MaskedFeatures
    ) -> FusionInputs:
        """The embeddings of queries, as a whole and by modality, each under the instruction."""
        if self.fusion_kind == "joint":
            return self.space.from_parts(image, text)
        if not self.reads_instructions:
            instruction = instruction[0], np.zeros_like(instruction[1])

        def embed(image: MaskedFeatures, text: MaskedFeatures, rows: np.ndarray) -> np.ndarray:
            return self.embed_query_features(image, text, (instruction[0][rows], instruction[1][rows]))

        return embedded_parts(embed, image, text, self._feature_lengths(image, text))

    def _feature_lengths(self, image: MaskedFeatures, text: MaskedFeatures) -> np.ndarray | None:
        """How long features of image and text are [n, 2]; of heads only directions are left."""
        if self.fusion_kind != "score":
            return None
        return feature_lengths(image, text)

    def _embed(self, graph: Any, *parts: MaskedFeatures, **more: np.ndarray) -> np.ndarray:
        inputs = dict(more)
        for name, (features, present) in zip(("image", "text", "instruction"), parts, strict=False):
            inputs[name] = np.ascontiguousarray(features, np.float32)
            inputs[f"has_{name}"] = present.astype(bool)
        embeddings: np.ndarray = graph.run(None, inputs)[0]
        return embeddings

    @cached_property
    def _item_graph(self) -> Any:
        return self._feature_graph("items.onnx")

    @cached_property
    def _query_graph(self) -> Any:
        return self._feature_graph("queries.onnx")

    def _feature_graph(self, name: str) -> Any:
        if not self.uses_features:
            raise MismatchError(
                f"{self.path} embeds pictures and texts by their tokens, so it can't start from features: "
                "use embed_items and embed_queries"
            )
        return self._graph("encoder", name)

    # --- from whole records: token fusion, and encoders of pairs

    def embed_records(self, images: Sequence[Image.Image | None], texts: Sequence[str]) -> np.ndarray:
        """Embeddings [n, width] of images with their texts (absent: None, empty) by token fusion."""
        embedder: Any = self.encoder if self.settings["encoder"]["kind"] == "blip" else self._fused_clip
        embeddings: np.ndarray = embedder.embed(images, texts)
        return embeddings

    def record_fusion_inputs(
        self, images: Sequence[Image.Image | None], texts: Sequence[str]
    ) -> FusionInputs:
        """Embeddings of items; token fusion has none by modality, so the whole stands for each."""
        if self.fusion_kind == "joint":
            return self._joint_embedder.items(images, texts)
        embeddings = self.embed_records(images, texts)
        has_image = np.array([image is not None for image in images], bool)
        has_text = np.array([bool(text) for text in texts], bool)
        return FusionInputs.from_parts(embeddings, (embeddings, has_image), (embeddings, has_text))

    def query_record_inputs(
        self, images: Sequence[Image.Image | None], texts: Sequence[str], instructions: Sequence[str]
    ) -> FusionInputs:
        """Embeddings of queries; for token fusion instructions are before the texts already."""
        if self.fusion_kind == "joint":
            return self._joint_embedder.queries(images, texts, instructions)
        return self.record_fusion_inputs(images, texts)

    def vector_inputs(self, vectors: Sequence[Vectors], modality: np.ndarray) -> FusionInputs:
        """Embeddings from given vectors, as those of records of this modality [n].

        Raises InputError for vectors of another width, and for one vector of an image with its text where
        the model takes them apart.
        """
        if self.fusion_kind != "score":
            space = self.space if self.fusion_kind == "joint" else JointSpace.uncentred(self.width)
            return space.from_vectors(vectors, modality)
        image, text = masked_parts(vectors, modality, self.width)
        return self.item_fusion_inputs(image, text, modality)

    @cached_property
    def space(self) -> JointSpace:
        """What brings a joint encoder's vectors together."""
        if "space.safetensors" not in self._artifact.manifest.files:
            return JointSpace.uncentred(self.width)
        return JointSpace.open(self._artifact.file("space.safetensors"))

    @cached_property
    def _joint_embedder(self) -> JointEmbedder:
        return JointEmbedder(self.encoder, self.space)

    @cached_property
    def _fused_clip(self) -> Any:
        from safetensors.torch import load_file

        from genius.encode.clip_fusion import FusedClip

        clip: Any = self.encoder
        weights = load_file(self._artifact.file("fusion.safetensors"))
        named = {".".join(map(current_name, name.split("."))): tensor for name, tensor in weights.items()}
        return FusedClip.with_token_fusion(clip, self.settings["fusion"], named)
