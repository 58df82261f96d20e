"""The decoders that an index can search with, each opened when it is first asked for."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Literal, get_args

from genius.decode.decoder import Decoder
from genius.decode.onnx_decoder import Precision
from genius.errors import InputError
from genius.model import Model
from genius.search.hits import Mode

DecoderName = Literal["geometry", "learned"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)


@dataclass(frozen=True, eq=False)
class Chosen:
    """A decoder, and what it is called."""

    name: str
    decoder: Decoder


class Decoders:
    """The decoders of a model. They run on one thread each: a second one hardly helps with so few rows."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._opened: dict[tuple[str, Precision | None], Decoder] = {}
        self._opening = threading.Lock()

    def choose(
        self, mode: Mode, name: DecoderName | str | None = None, precision: Precision = "fp32"
    ) -> Chosen:
        """The decoder of this name. Without one, geometry; for the mode `paper` the learned one,
        if the model has it.

        Raises InputError for an unknown name or precision, MissingError for a decoder that is not trained.
        """
        if precision not in PRECISIONS:
            raise InputError(f"unknown precision {precision!r}: expected one of {', '.join(PRECISIONS)}")
        if name is None:
            name = "learned" if mode == "paper" and "decoder" in self._model.stages else "geometry"
        elif name not in get_args(DecoderName):
            raise InputError(f"unknown decoder {name!r}: expected one of {', '.join(get_args(DecoderName))}")
        key = name, precision if name == "learned" else None
        with self._opening:
            if key not in self._opened:
                self._opened[key] = self._open(name, precision)
            decoder = self._opened[key]
        return Chosen(name, decoder)

    def _open(self, name: str, precision: Precision) -> Decoder:
        if name == "learned":
            return self._model.learned_decoder(precision, threads=1)
        return self._model.geometry
