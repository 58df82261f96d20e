"""The decoders that an index can search with, each opened when it is first needed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

from genius.decode.decoder import Decoder
from genius.decode.geometry import Geometry
from genius.decode.onnx_decoder import Precision
from genius.errors import MismatchError
from genius.model import Model
from genius.search.engine import Mode

DecoderName = Literal["geometry", "learned"]
DECODERS: tuple[DecoderName, ...] = get_args(DecoderName)
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


def describe_model(model: Model) -> dict[str, str]:
    """What an index remembers of the model that it is made by."""
    described = {"path": model.name, "fingerprint": model.fingerprint}
    return described if model.has_code_vectors else described | {"identifiers": model.identifier_name}


def check_model(index: Path, made_by: Mapping[str, str], model: Model) -> None:
    """Raise MismatchError if an index was not made by this model, whose decoder would know other codes."""
    identifiers = made_by.get("identifiers", "codes")
    if identifiers != model.identifier_name:
        raise MismatchError(
            f"the items of {index} have {identifiers} identifiers, but the decoder of {model.name} knows "
            f"{model.identifier_name} identifiers: open it with the model that it was made by, or make the "
            "index again with genius index"
        )
    if model.fingerprint != made_by["fingerprint"]:
        raise MismatchError(
            f"{index} was made by the model {made_by['fingerprint'][:12]}, but {model.name} is "
            f"{model.fingerprint[:12]}: bring the old one back, or move the items to the new one with "
            f"genius recode {index} --model {model.path} -o NEW"
        )


@dataclass(frozen=True, eq=False)
class NamedDecoder:
    """A decoder and its name."""

    name: DecoderName
    decoder: Decoder


class Decoders:
    """The decoders of a model, on one thread each: a second one hardly helps with so few rows."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._opened: dict[tuple[str, Precision | None], Decoder] = {}
        self._lock = threading.Lock()

    def choose(
        self,
        mode: Mode,
        name: DecoderName | None = None,
        precision: Precision = "fp32",
        pool_geometry: Callable[[], Geometry] | None = None,
    ) -> NamedDecoder:
        """The decoder of this name; without a name geometry, but in the mode `paper` the learned one if the
        model has it, and always if its codes have no vectors.

        `pool_geometry` gives the geometry of a model whose temperature depends on the pool. Raises
        MissingError for a decoder that is not trained, and for geometry without code vectors.
        """
        if name is None:
            published = mode == "paper" and "decoder" in self._model.stages
            name = "learned" if published or not self._model.has_code_vectors else "geometry"
        if name == "geometry" and pool_geometry is not None and not self._model.has_temperature:
            return NamedDecoder(name, pool_geometry())
        key = name, precision if name == "learned" else None
        with self._lock:
            if key not in self._opened:
                self._opened[key] = self._open(name, precision)
            return NamedDecoder(name, self._opened[key])

    def _open(self, name: DecoderName, precision: Precision) -> Decoder:
        if name == "learned":
            return self._model.learned_decoder(precision, threads=1)
        return self._model.geometry
