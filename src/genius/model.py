"""A model: one folder that holds all that a search needs, and grows stage by stage.

With its first stage it embeds items and queries for dense search; the quantizer adds codes, and the decoder a
learned search over them. Using a stage that was not trained yet raises MissingError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from genius import storage
from genius.data.records import MODALITIES, Item, Query, Vectors
from genius.data.text import clean, query_text
from genius.decode.decoder import Decoder, open_decoder
from genius.decode.geometry import Geometry
from genius.decode.onnx_decoder import Precision
from genius.encode import lite
from genius.encode.direct import MaskedFeatures, image_features, load_images, text_features
from genius.encode.encoder import Encoder, EncoderLoader, saved_encoder_loader
from genius.encode.lite import FILES as TOWER_FILES
from genius.encode.lite import LiteLoader
from genius.errors import InputError, MismatchError, MissingError
from genius.quantize.fusion_inputs import KINDS, FusionInputs
from genius.quantize.joint_embedder import JointEmbedder
from genius.quantize.joint_space import JointSpace
from genius.quantize.quantizer import Quantizer, modality_codes_for
from genius.runtime import cores, session
from genius.storage import Json
from genius.tensors import read_tensors, tensor_for_graph

if TYPE_CHECKING:
    from PIL import Image

KIND = "model"
FORMAT = 2
BLOCK = 4096
STAGES = ("encoder", "quantizer", "decoder")
TENSOR_FILES = {
    "items.onnx": "heads.safetensors",
    "queries.onnx": "heads.safetensors",
    "fusion.onnx": "quantizer.safetensors",
}
"""Where the tensors of a graph are; in models made before they were shared, within the graph itself."""


SHIPPED = Path(__file__).parent / "shipped"
"""The models that come with genius, by name; their towers are in the user's cache."""
DEFAULT = "photo"
"""The model of whoever has none."""

FusionKind = Literal["heads", "score", "tokens", "joint"]
"""How an image and a text become one embedding: by trained heads over features of image, text and
instruction, by the sum of a fine-tuned CLIP's features (score fusion), by a transformer over its tokens
(token fusion), or as they are, from an encoder whose images and texts are in one space (joint)."""

DenseBaseline = Literal["embeddings", "vectors"]
"""What dense search compares: embeddings or fused vectors."""


class Model:
    """A trained model, opened for use. Torch is needed only for a CLIP, and for a decoder on a device."""

    def __init__(
        self, artifact: storage.Artifact, threads: int | None = None, device: str | None = None
    ) -> None:
        manifest = artifact.manifest
        self.path = artifact.path
        self.fingerprint = artifact.fingerprint
        self.settings = manifest.settings if manifest.format == FORMAT else _upgrade(manifest.settings)
        self.stages: list[str] = self.settings["stages"]
        self._artifact = artifact
        self._threads, self._device = threads, device
        self._read_tensors: dict[str, dict[str, np.ndarray]] = {}

    @classmethod
    def open(
        cls, path: Path | str = DEFAULT, *, threads: int | None = None, device: str | None = None
    ) -> Model:
        """The model at `path`, or `photo`, which ships with genius.

        With a `device` such as "cuda", its CLIP and its learned decoder run there, by torch. Raises
        InputError (no model), MismatchError (of another format) or DamagedError.
        """
        path = model_folder(path)
        is_older = storage.is_artifact(path) and storage.read_manifest(path).format == 1
        artifact = storage.open(path, kind=KIND, format=1 if is_older else FORMAT)
        return cls(artifact, threads, device)

    @property
    def name(self) -> str:
        """What the model is opened by again: its folder, or its name if it ships with genius."""
        return self.path.name if self.path.parent == SHIPPED else str(self.path.resolve())

    def prepare(self, *, offline: bool = False) -> None:
        """Fetch and build what the model's encoder needs, if that is the built-in one and not here yet.

        Raises MissingError if it can't be fetched, or may not be because the user is `offline`.
        """
        if not self._has_towers and self.settings["encoder"]["kind"] == "lite":
            lite.prepare(offline=offline)

    @property
    def _has_towers(self) -> bool:
        return any(name.startswith("towers/") for name in self._artifact.manifest.files)

    @classmethod
    def fit(
        cls, items: Iterable[Item], *, encoder: Model | Path | str, out: Path | str, **options: Any
    ) -> Model:
        """A model for items without queries and labels, by any encoder, written to `out`.

        `encoder` is a model, or what `genius fit --encoder` takes; `options` are those of
        `genius.fit.run.fit_model`: cache, workers, seed, strict, trust_remote_code, offline, most.
        """
        from genius.fit.run import fit_model

        return fit_model(items, encoder, out, **options).model

    def _require(self, stage: str) -> None:
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

    def fusion_tensors(self) -> dict[str, np.ndarray]:
        """The tensors of the fusion by name, for training to start from."""
        return self._tensors("quantizer.safetensors")

    def _tensors(self, file: str) -> dict[str, np.ndarray]:
        """The tensors of one of the model's files, which several graphs may share."""
        if file not in self._read_tensors:
            self._read_tensors[file] = read_tensors(self._artifact.file(file))
        return self._read_tensors[file]

    # --- the encoder and what it makes

    @cached_property
    def encoder(self) -> Encoder:
        """The encoder that the model was trained on. Raises MismatchError if it was replaced since."""
        encoder = self.encoder_loader(self._threads or cores())
        trained_on = self.settings["encoder"]["fingerprint"]
        source = self.settings["encoder"]["source"] or (
            self.path / "towers" if self._has_towers else lite.home()
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
                return lite.loader()
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
        return FusionInputs.from_parts(embeddings, (image, named["has_image"]), (text, named["has_text"]))

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
        return _fusion_inputs(
            lambda image, text, rows: self.embed_item_features(image, text, modality[rows]), image, text
        )

    def query_fusion_inputs(
        self, image: MaskedFeatures, text: MaskedFeatures, instruction: MaskedFeatures
    ) -> FusionInputs:
        """The embeddings of queries, as a whole and by modality, each under the instruction."""
        if self.fusion_kind == "joint":
            return self.space.from_parts(image, text)

        def embed(image: MaskedFeatures, text: MaskedFeatures, rows: np.ndarray) -> np.ndarray:
            return self.embed_query_features(image, text, (instruction[0][rows], instruction[1][rows]))

        return _fusion_inputs(embed, image, text)

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
        embeddings: np.ndarray = self._fused_clip.embed(images, texts)
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

        Raises InputError for vectors of another width.
        """
        space = self.space if self.fusion_kind == "joint" else JointSpace.uncentred(self.width)
        return space.from_vectors(vectors, modality)

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
        named = {".".join(map(_current_name, name.split("."))): tensor for name, tensor in weights.items()}
        return FusedClip.with_token_fusion(clip, self.settings["fusion"], named)

    # --- the quantizer

    def vectors(self, inputs: FusionInputs) -> np.ndarray:
        """The vectors [n, vector_width] of items, which are coded: of unit length, or embeddings themselves
        where nothing fuses them."""
        self._require("quantizer")
        if not self.has_fusion:
            return np.asarray(inputs.embeddings, np.float32)
        # the graph lacks the inputs that it does not use: the published fusion has no embedding of the whole
        names = [declared.name for declared in self._fusion_graph.get_inputs()]
        blocks = [np.zeros((0, self.vector_width), np.float32)]
        for start in range(0, len(inputs), BLOCK):
            block = inputs[slice(start, start + BLOCK)]
            blocks += self._fusion_graph.run(None, {name: block[_current_name(name)] for name in names})
        return np.concatenate(blocks)

    def query_vectors(self, inputs: FusionInputs) -> np.ndarray:
        """The vectors [n, width] of queries, as long as the quantizer's settings say.

        The longer they are, the less the lengths of quantized vectors count beside their directions.
        """
        return np.asarray(self.vectors(inputs) * self._by_kind("query_scale", inputs.kinds)[:, None])

    def vectors_as_queries(self, vectors: np.ndarray, kinds: np.ndarray) -> np.ndarray:
        """Vectors [n, width] of queries, of these kinds [n], for what is like items with these vectors."""
        return np.asarray(vectors * self._by_kind("query_scale", kinds)[:, None])

    def rerank_weights(self, kinds: np.ndarray) -> np.ndarray:
        """The weight [n] of the embeddings' similarity in re-ranking for queries of these kinds [n]; the rest
        is the code score."""
        return self._by_kind("rerank", kinds)

    def _by_kind(self, name: str, kinds: np.ndarray) -> np.ndarray:
        """A setting of the quantizer for each of these kinds of query [n]; one number holds for all kinds."""
        self._require("quantizer")
        setting = np.asarray(self.settings["quantizer"].get(name, 1.0), np.float32)
        return np.asarray(np.broadcast_to(setting, KINDS)[kinds])

    @property
    def has_fusion(self) -> bool:
        """Whether vectors come from a trained fusion; a fitted quantizer codes embeddings themselves."""
        described = self.settings.get("quantizer")
        return described is not None and not described.get("fitted", False)

    @cached_property
    def _fusion_graph(self) -> Any:
        return self._graph("quantizer", "fusion.onnx")

    @cached_property
    def quantizer(self) -> Quantizer:
        """Turns vectors into codes."""
        self._require("quantizer")
        described = self.settings["quantizer"]
        path = self._artifact.file("codebooks.safetensors")
        return Quantizer.open(path, described["modality_code"], beams=int(described.get("beams", 1)))

    @property
    def vector_width(self) -> int:
        """Numbers of a vector, which may be fewer than those of an embedding."""
        return self.quantizer.width

    def modality_codes_for(self, want: int, count: int) -> np.ndarray | None:
        """The modality code [count] of queries that want a modality; None if the model has no such codes."""
        self._require("quantizer")
        return modality_codes_for(self.settings["quantizer"]["modality_of"], want, count)

    @property
    def dense_baseline(self) -> DenseBaseline:
        """What dense search compares: the kind that answered more of the validation queries."""
        return self.settings.get("quantizer", {}).get("dense_baseline", "embeddings")  # type: ignore[no-any-return]

    # --- the decoders

    @cached_property
    def geometry(self) -> Geometry:
        """The decoder without a network: it ranks codes by their distance from the query's vector."""
        return Geometry(self.quantizer.codebooks, self.settings["quantizer"]["temperature"])

    @cached_property
    def learned(self) -> Decoder:
        """The learned decoder, in single precision."""
        return self.learned_decoder("fp32")

    def learned_decoder(self, precision: Precision, threads: int | None = None) -> Decoder:
        """The learned decoder; in int8 it is faster, but not quite batch-invariant.

        On a device of torch it is always in single precision. Raises MissingError if there is no such device.
        """
        self._require("decoder")
        described, threads = self.settings["decoder"], threads or self._threads
        return open_decoder(
            self._artifact.file, self.vector_width, described, precision, threads, self._device
        )


def model_folder(path: Path | str) -> Path:
    """The folder of a model, given that or the name of one that ships with genius.

    A model's folder that has such a name comes first; any other folder, say one of photos, does not count.
    """
    shipped = SHIPPED / str(path)
    is_name = str(path) == shipped.name and shipped.is_dir()
    return shipped if is_name and not storage.is_artifact(Path(path)) else Path(path)


def _fusion_inputs(
    embed: Callable[[MaskedFeatures, MaskedFeatures, np.ndarray], np.ndarray],
    image: MaskedFeatures,
    text: MaskedFeatures,
) -> FusionInputs:
    """Embeddings of records, and for those with an image and a text also of each of the two alone.

    `embed` takes features of image and text, and the numbers [n] of the records that these are of.
    """
    embeddings = embed(image, text, np.arange(len(image[1])))
    both = np.flatnonzero(image[1] & text[1])
    if not len(both):
        return FusionInputs.from_parts(embeddings, (embeddings, image[1]), (embeddings, text[1]))
    images, texts = (image[0][both], image[1][both]), (text[0][both], text[1][both])
    absent = np.zeros(len(both), bool)
    image_alone, text_alone = np.zeros_like(embeddings), np.zeros_like(embeddings)
    image_alone[both] = embed(images, (texts[0], absent), both)
    text_alone[both] = embed((images[0], absent), texts, both)
    return FusionInputs.from_parts(embeddings, (image_alone, image[1]), (text_alone, text[1]))


# --- models of format 1 ----------------------------------------------------------------------------

_FORMAT_1_NAMES = {
    "joining": "fusion_kind",
    "fair": "dense_baseline",
    "first": "modality_code",
    "joined": "embeddings",
    "widen": "up",
    "shrink": "down",
    "inner_norm": "mlp_norm",
}
"""Names that changed: of settings and their values, of a graph's inputs, of a network's tensors."""


def _current_name(name: str) -> str:
    return _FORMAT_1_NAMES.get(name, name)


def _upgrade(settings: Json) -> Json:
    """The settings of a model of format 1, as far as a model reads them, under the names of format 2."""
    upgraded = {_current_name(name): value for name, value in settings.items()}
    if "quantizer" in upgraded:
        quantizer = {_current_name(name): value for name, value in upgraded["quantizer"].items()}
        quantizer.pop("memory", None)  # there is no query memory any more
        quantizer["dense_baseline"] = _current_name(quantizer.get("dense_baseline", "embeddings"))
        upgraded["quantizer"] = quantizer
    return {"fusion_kind": "heads"} | upgraded
