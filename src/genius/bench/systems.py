"""Our own systems: the engine in its modes, by a network of a given size or by geometry alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from genius.bench.timing import TimedSystem
from genius.bench.world import World
from genius.decode.decoder import Decoder, DecodingState
from genius.decode.geometry import Geometry
from genius.decode.onnx_decoder import OnnxDecoder, Precision
from genius.index.index import Index
from genius.search.beam import BEAMS
from genius.search.engine import Engine, Mode

TEMPERATURE = 0.05
"""The temperature of the geometry over synthetic codes."""

DecodersByPrecision = Mapping[Precision | None, Decoder]
"""Decoders by the network's precision; None is geometry alone."""


@dataclass(frozen=True)
class SystemSpec:
    """One of our systems: its mode, its decoder, and how queries are given to it."""

    mode: Mode
    precision: Precision | None
    """The network's precision; None for geometry alone."""
    batch_size: int = 1
    modality_given: bool = False
    """Whether queries say which modality they want."""

    @property
    def name(self) -> str:
        """As in tables: mode, decoder, Q=batch size, km for a known modality."""
        decoder = "geometry" if self.precision is None else self.precision
        name = self.mode if self.mode == "scan" else f"{self.mode} {decoder}"
        batch = f" Q={self.batch_size}" if self.batch_size > 1 else ""
        return f"{name}{batch}{' km' if self.modality_given else ''}"


SPECS: tuple[SystemSpec, ...] = (
    SystemSpec("paper", "fp32"),
    SystemSpec("exact", "fp32"),
    SystemSpec("safe", "fp32"),
    SystemSpec("fast", "fp32"),
    SystemSpec("paper", "int8"),
    SystemSpec("exact", "int8"),
    SystemSpec("exact", "int8", 8, modality_given=True),
    SystemSpec("safe", "int8"),
    SystemSpec("safe", "int8", 8),
    SystemSpec("safe", "int8", 8, modality_given=True),
    SystemSpec("fast", "int8"),
    SystemSpec("fast", "int8", 8),
    SystemSpec("fast", "int8", 8, modality_given=True),
    SystemSpec("paper", None),
    SystemSpec("exact", None),
    SystemSpec("safe", None, 8),
    SystemSpec("fast", None),
    SystemSpec("fast", None, 8),
    SystemSpec("fast", None, 8, modality_given=True),
)


class StandInDecoder:
    """A decoder that runs an untrained network for its time only, and scores by geometry.

    An untrained network would follow beams at random and end in other cells than a trained one, and the cells
    decide how many items have to be ranked. The time of the geometry is kept in `excluded_seconds`.
    """

    def __init__(self, network: Decoder, geometry: Geometry) -> None:
        self.network, self.geometry = network, geometry
        self.sizes = network.sizes
        self.excluded_seconds = 0.0

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> StandInDecoding:
        """Start both decoders on query vectors [queries, width]."""
        network = self.network.begin(vectors, modality_codes)
        start = time.thread_time()
        geometry = self.geometry.begin(vectors, modality_codes)
        self.excluded_seconds += time.thread_time() - start
        return StandInDecoding(self, network, geometry)


class StandInDecoding:
    """One search by both decoders."""

    def __init__(self, decoder: StandInDecoder, network: DecodingState, geometry: DecodingState) -> None:
        self._decoder, self._network, self._geometry = decoder, network, geometry

    def scores(self) -> np.ndarray:
        """The geometry's scores; those of the network are computed and dropped."""
        self._network.scores()
        start = time.thread_time()
        scores = self._geometry.scores()
        self._decoder.excluded_seconds += time.thread_time() - start
        return scores

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down."""
        self._network.advance(rows, codes)
        start = time.thread_time()
        self._geometry.advance(rows, codes)
        self._decoder.excluded_seconds += time.thread_time() - start


def write_network(folder: Path, vector_width: int, sizes: Sequence[int], *, paper_sizes: bool) -> None:
    """Export an untrained network of T5-small's sizes, or of our own defaults, to a folder."""
    import torch
    from safetensors.numpy import save_file

    from genius.decode.export import head_graphs, in_8_bits, prefix_graph, step_graph
    from genius.decode.onnx_decoder import TABLE, WEIGHTS, graph_file
    from genius.decode.t5 import DecoderSettings, T5Decoder

    t5_small: dict[str, Any] = {
        "layers": 6,
        "width": 512,
        "heads": 8,
        "head_width": 64,
        "feed_forward": 2048,
        "prefix": 30,
    }
    settings = DecoderSettings(start_from_codebooks=False, **(t5_small if paper_sizes else {}))
    torch.manual_seed(0)
    network = T5Decoder(vector_width, sizes, settings).eval()
    save_file({TABLE: network.codes.weight.detach().numpy()}, folder / WEIGHTS)
    graphs = {"prefix": prefix_graph(network), "step": step_graph(network), **head_graphs(network)}
    for name, content in graphs.items():
        (folder / graph_file(name, "fp32")).write_bytes(content)
        (folder / graph_file(name, "int8")).write_bytes(in_8_bits(content))


def open_network(folder: Path, sizes: Sequence[int], precision: Precision) -> OnnxDecoder:
    """A network that `write_network` exported, on one thread."""
    return OnnxDecoder.open(lambda name: folder / name, sizes, precision=precision, threads=1)


def stand_in_decoders(world: World, networks: Path, specs: Sequence[SystemSpec]) -> DecodersByPrecision:
    """The decoders that specs need over synthetic codes: geometry, and stand-ins for the networks."""
    geometry = _warm_geometry(Geometry(world.codebooks, TEMPERATURE))
    decoders: dict[Precision | None, Decoder] = {None: geometry}
    for precision in _precisions(specs):
        decoders[precision] = StandInDecoder(open_network(networks, world.code_sizes, precision), geometry)
    return decoders


def trained_decoders(index: Index, specs: Sequence[SystemSpec]) -> DecodersByPrecision:
    """The decoders of an index that specs need, on one thread."""
    geometry = index.decoder("fast", "geometry").decoder
    assert isinstance(geometry, Geometry)
    decoders: dict[Precision | None, Decoder] = {None: _warm_geometry(geometry)}
    for precision in _precisions(specs):
        decoders[precision] = index.model.learned_decoder(precision, threads=1)
    return decoders


def _warm_geometry(geometry: Geometry) -> Geometry:
    geometry.warm_up()
    return geometry


def _precisions(specs: Sequence[SystemSpec]) -> set[Precision]:
    return {spec.precision for spec in specs if spec.precision is not None}


def engine_systems(
    world: World, decoders: DecodersByPrecision, specs: Sequence[SystemSpec] = SPECS, *, k: int = 10
) -> list[TimedSystem]:
    """A system for each spec; those of one precision share a decoder."""
    return [_engine_system(world, spec, decoders[spec.precision], k) for spec in specs]


def scan_systems(world: World, k: int = 10) -> list[TimedSystem]:
    """Exhaustive scans: of int8 embeddings ("bytes") in one modality and in all, and of codes by tables."""
    geometry = Geometry(world.codebooks, TEMPERATURE)
    engine = Engine(world.segments, geometry, world.codebooks, world.rerank_weight)
    systems = []
    for name, modality_given, by_embeddings in (
        ("scan of bytes km", True, True),
        ("scan of bytes", False, True),
        ("scan of codes km", True, False),
    ):

        def run(
            queries: np.ndarray, modality_given: bool = modality_given, by_embeddings: bool = by_embeddings
        ) -> np.ndarray:
            embeddings = world.query_embeddings[queries] if by_embeddings else None
            modality_codes = world.query_modality_codes[queries] if modality_given else None
            vectors = world.query_vectors[queries]
            return engine.search(vectors, embeddings, modality_code=modality_codes, k=k, mode="scan").rows

        searched = _searched_bytes(world, embeddings=by_embeddings, norms=not by_embeddings)
        systems.append(TimedSystem(name, run, bytes_per_item=searched / len(world), build_s=world.pack_s))
    return systems


def _engine_system(world: World, spec: SystemSpec, decoder: Decoder, k: int) -> TimedSystem:
    engine = Engine(world.segments, decoder, world.codebooks, world.rerank_weight)

    def run(queries: np.ndarray) -> np.ndarray:
        hits = engine.search(
            world.query_vectors[queries],
            world.query_embeddings[queries],
            modality_code=world.query_modality_codes[queries] if spec.modality_given else None,
            k=k,
            beams=BEAMS,
            mode=spec.mode,
            plain=False,
        )
        return hits.rows

    def excluded_seconds() -> float:
        return decoder.excluded_seconds if isinstance(decoder, StandInDecoder) else 0.0

    return TimedSystem(
        spec.name,
        run,
        spec.batch_size,
        excluded_seconds=excluded_seconds,
        bytes_per_item=_searched_bytes(world, embeddings=True, norms=False) / len(world),
        build_s=world.pack_s,
    )


def _searched_bytes(world: World, *, embeddings: bool, norms: bool) -> int:
    """The bytes that a search reads: packed codes, int8 embeddings, half squared norms of codes."""
    total = 0
    for segment in world.segments:
        arrays = [segment.embeddings_int8 if embeddings else None, segment.half_sq_norms if norms else None]
        total += segment.packed.nbytes + sum(array.nbytes for array in arrays if array is not None)
    return total
