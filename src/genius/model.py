"""A model: one folder that holds all that a search needs, and grows stage by stage.

With its first stage it embeds items and queries for dense search; the quantizer adds codes, and the decoder a
learned search over them. Using a stage that was not trained yet raises MissingError.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from genius import storage
from genius.data.records import Item
from genius.decode.decoder import Decoder, check_identifiers, open_decoder
from genius.decode.format_1 import FORMAT_1, current_name
from genius.decode.fused_decoder import FusedDecoder, fusion_settings
from genius.decode.geometry import Geometry
from genius.decode.onnx_decoder import Precision, graph_file
from genius.decode.pool_temperature import pool_rows, pool_temperature
from genius.dense_model import DenseModel
from genius.errors import MissingError
from genius.identifiers.identifiers import Identifiers
from genius.quantize.code_space import CodeSpace
from genius.quantize.fusion_inputs import KINDS, FusionInputs
from genius.quantize.quantizer import Quantizer, modality_codes_for
from genius.quantize.search_settings import SearchSettings

KIND = "model"
FORMAT = 2
BLOCK = 4096
SHIPPED = Path(__file__).parent / "shipped"
"""The models that come with genius, by name; their towers are in the user's cache."""
DEFAULT = "photo"
"""The model of whoever has none."""

DenseBaseline = Literal["embeddings", "vectors"]
"""What dense search compares: embeddings or fused vectors."""


class Model(DenseModel):
    """A trained model, opened for use. Torch is needed only for a CLIP, and for a decoder on a device."""

    def __init__(
        self, artifact: storage.Artifact, threads: int | None = None, device: str | None = None
    ) -> None:
        super().__init__(artifact, threads, device)
        self._pool_geometries: dict[float, Geometry] = {}

    @classmethod
    def open(
        cls, path: Path | str = DEFAULT, *, threads: int | None = None, device: str | None = None
    ) -> Model:
        """The model at `path`, or `photo`, which ships with genius.

        With a `device` such as "cuda", its CLIP and its learned decoder run there, by torch. Raises
        InputError (no model), MismatchError (of another format) or DamagedError.
        """
        path = model_folder(path)
        is_older = storage.is_artifact(path) and storage.read_manifest(path).format == FORMAT_1
        artifact = storage.open(path, kind=KIND, format=FORMAT_1 if is_older else FORMAT)
        return cls(artifact, threads, device)

    def known_as(self, fingerprint: str) -> Self:
        """The model, or itself over towers in single precision if that has this fingerprint.

        A model that ships with towers in 8 bits says by which fingerprint it was known before, over those in
        single precision: indexes of that time are searched by them.
        """
        before = self.settings["encoder"].get("single_precision", {})
        if fingerprint == self.fingerprint or fingerprint != before.get("model"):
            return self
        model = type(self)(self._artifact, self._threads, self._device)
        model.fingerprint = fingerprint
        encoder = {"kind": "lite", "source": "", "fingerprint": before["encoder"]}
        model.settings = {**self.settings, "encoder": encoder}
        return model

    @property
    def name(self) -> str:
        """What the model is opened by again: its folder, or its name if it ships with genius."""
        return self.path.name if self.path.parent == SHIPPED else str(self.path.resolve())

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

    def fusion_tensors(self) -> dict[str, np.ndarray]:
        """The tensors of the fusion by name, for training to start from."""
        return self._tensors("quantizer.safetensors")

    # --- the quantizer

    def vectors(self, inputs: FusionInputs) -> np.ndarray:
        """The vectors [n, vector_width] of items, which are coded: of unit length, or embeddings themselves
        where nothing fuses them."""
        self._require(self._code_stage)
        if not self.has_fusion:
            return np.asarray(inputs.embeddings, np.float32)
        # the graph lacks the inputs that it does not use: the published fusion has no embedding of the whole
        names = [declared.name for declared in self._fusion_graph.get_inputs()]
        blocks = [np.zeros((0, self.vector_width), np.float32)]
        for start in range(0, len(inputs), BLOCK):
            block = inputs[slice(start, start + BLOCK)]
            known = {name: block[current_name(name) if self._is_older else name] for name in names}
            blocks += self._fusion_graph.run(None, known)
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
        self._require(self._code_stage)
        setting = np.asarray(self.settings[self._code_stage].get(name, 1.0), np.float32)
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

    @cached_property
    def identifiers(self) -> Identifiers:
        """Gives items the identifiers of another method. Raises MissingError if the model has codes."""
        self._require("identifiers")
        name, path = self.identifier_name, self._artifact.file("identifiers.safetensors")
        assert name != "codes"
        return Identifiers.open(path, name, self.width)

    @property
    def code_space(self) -> CodeSpace:
        """What a search needs to know of the codes: the quantizer, or identifiers of another method."""
        return self.quantizer if self.has_code_vectors else self.identifiers

    @property
    def _code_stage(self) -> str:
        return "quantizer" if self.has_code_vectors else "identifiers"

    @property
    def vector_width(self) -> int:
        """Numbers of a vector, which may be fewer than those of an embedding."""
        return self.code_space.width

    def modality_codes_for(self, want: int, count: int) -> np.ndarray | None:
        """The modality code [count] of queries that want a modality; None if the model has no such codes, or
        does not force them."""
        self._require(self._code_stage)
        if not self.search_settings.force_modality:
            return None
        return modality_codes_for(self.settings[self._code_stage].get("modality_of", []), want, count)

    @property
    def search_settings(self) -> SearchSettings:
        """How its codes are searched."""
        return SearchSettings(**self.settings.get(self._code_stage, {}).get("search", {}))

    @property
    def dense_baseline(self) -> DenseBaseline:
        """What dense search compares: the kind that answered more of the validation queries."""
        return self.settings.get("quantizer", {}).get("dense_baseline", "embeddings")  # type: ignore[no-any-return]

    # --- the decoders

    @cached_property
    def geometry(self) -> Geometry:
        """The decoder without a network: it ranks codes by their distance from the query's vector.

        Raises MissingError if no queries were there to fit its temperature to; then `geometry_for` has it.
        """
        if not self.has_temperature:
            raise MissingError(
                f"{self.path} has no temperature for its geometry, which then depends on the items: "
                "index them with genius index, and search that"
            )
        return Geometry(self.quantizer.codebooks, self.settings["quantizer"]["temperature"])

    @property
    def has_temperature(self) -> bool:
        """Whether the geometry's temperature was fitted to queries when the model was made."""
        self._require("quantizer")
        return self.settings["quantizer"]["temperature"] is not None

    def geometry_for(self, embeddings: np.ndarray, codes: np.ndarray) -> Geometry:
        """`geometry`, if need be with a temperature fitted to a pool by the embeddings [n, width] and codes
        [n, levels] of its items, or of those of `decode.pool_temperature.pool_rows`."""
        if self.has_temperature:
            return self.geometry
        rows = pool_rows(len(codes))
        temperature = pool_temperature(self.quantizer, embeddings[rows], codes[rows])
        if temperature not in self._pool_geometries:
            made = Geometry(self.quantizer.codebooks, temperature)
            self._pool_geometries = {temperature: made}  # the last one only: each has large tables
        return self._pool_geometries[temperature]

    @cached_property
    def learned(self) -> Decoder:
        """The learned decoder, in single precision."""
        return self.learned_decoder("fp32")

    def learned_decoder(
        self, precision: Precision, threads: int | None = None, geometry_weight: float | None = None
    ) -> Decoder:
        """The learned decoder; in int8 it is faster, but not quite batch-invariant.

        Geometry's scores are added to its own with `geometry_weight`, by default as the model says
        (`decode.fused_decoder`). On a device of torch it is always in single precision. Raises MissingError
        if there is no such device, and in int8 if that was too far off when the model was made.
        """
        self._require("decoder")
        if precision == "int8" and graph_file("step", precision) not in self._artifact.manifest.files:
            raise MissingError(
                f"{self.path} has its decoder in single precision only, as 8 bits were too far off: "
                "search with the precision fp32"
            )
        described, threads = self.settings["decoder"], threads or self._threads
        check_identifiers(self.path, described, self.identifier_name)
        network = open_decoder(
            self._artifact.file, self.vector_width, described, precision, threads, self._device
        )
        weight = fusion_settings(described).weight if geometry_weight is None else geometry_weight
        if not weight:
            return network
        geometry = self.geometry if self.has_temperature else Geometry(self.quantizer.codebooks, 1.0)
        return FusedDecoder(network, geometry, weight, self.quantizer.semantic)


def model_folder(path: Path | str) -> Path:
    """The folder of a model, given that or the name of one that ships with genius.

    A model's folder that has such a name comes first; any other folder, say one of photos, does not count.
    """
    shipped = SHIPPED / str(path)
    is_name = str(path) == shipped.name and shipped.is_dir()
    return shipped if is_name and not storage.is_artifact(Path(path)) else Path(path)
