"""Our own systems: the engine in its modes, by a network of given sizes or by geometry alone."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from genius.bench.timing import System
from genius.bench.world import World
from genius.decode.decoder import Decoder, DecodingState
from genius.decode.geometry import Geometry
from genius.decode.onnx_decoder import OnnxDecoder, Precision
from genius.model import Model
from genius.search.beam import BEAMS
from genius.search.engine import Engine
from genius.search.hits import Mode

TEMPERATURE = 0.05
"""Of the geometry over codes that are made up."""

Decoders = Mapping[Precision | None, Decoder]
"""By the network's precision; None is geometry alone."""


@dataclass(frozen=True)
class Row:
    """One of our systems: a mode, by which decoder, and how it is asked."""

    mode: Mode
    decoder: Precision | None
    """The network's precision; None for geometry alone."""
    batch: int = 1
    known: bool = False
    """Whether queries say which modality they want."""

    @property
    def name(self) -> str:
        """As in tables: mode, decoder, queries at a time, km for a known modality."""
        decoder = "geometry" if self.decoder is None else self.decoder
        named = self.mode if self.mode == "scan" else f"{self.mode} {decoder}"
        return f"{named}{f' Q={self.batch}' if self.batch > 1 else ''}{' km' if self.known else ''}"


ROWS: tuple[Row, ...] = (
    Row("paper", "fp32"),
    Row("exact", "fp32"),
    Row("safe", "fp32"),
    Row("fast", "fp32"),
    Row("paper", "int8"),
    Row("exact", "int8"),
    Row("exact", "int8", 8, known=True),
    Row("safe", "int8"),
    Row("safe", "int8", 8),
    Row("safe", "int8", 8, known=True),
    Row("fast", "int8"),
    Row("fast", "int8", 8),
    Row("fast", "int8", 8, known=True),
    Row("paper", None),
    Row("exact", None),
    Row("safe", None, 8),
    Row("fast", None),
    Row("fast", None, 8),
    Row("fast", None, 8, known=True),
)


class StandIn:
    """A decoder that runs a network for its time, and scores by geometry, whose time is taken apart.

    A network that was never trained would follow beams at random, and come to other places than a trained
    one: where they lead decides how much is below them.
    """

    def __init__(self, network: Decoder, geometry: Geometry) -> None:
        self.network, self.geometry = network, geometry
        self.sizes = network.sizes
        self.apart = 0.0

    def begin(self, vectors: np.ndarray, modality_codes: np.ndarray | None = None) -> StandInDecoding:
        """Start both."""
        network = self.network.begin(vectors, modality_codes)
        start = time.thread_time()
        geometry = self.geometry.begin(vectors, modality_codes)
        self.apart += time.thread_time() - start
        return StandInDecoding(self, network, geometry)


class StandInDecoding:
    """One search by both."""

    def __init__(self, decoder: StandIn, network: DecodingState, geometry: DecodingState) -> None:
        self._decoder, self._network, self._geometry = decoder, network, geometry

    def scores(self) -> np.ndarray:
        """The geometry's; the network works for nothing."""
        self._network.scores()
        start = time.thread_time()
        scores = self._geometry.scores()
        self._decoder.apart += time.thread_time() - start
        return scores

    def advance(self, rows: np.ndarray, codes: np.ndarray) -> None:
        """Go one level down."""
        self._network.advance(rows, codes)
        start = time.thread_time()
        self._geometry.advance(rows, codes)
        self._decoder.apart += time.thread_time() - start


def write_network(folder: Path, vector_width: int, sizes: Sequence[int], *, like_paper: bool) -> None:
    """Export a network that was never trained, of T5-small's sizes or of our own defaults."""
    import torch
    from safetensors.numpy import save_file

    from genius.decode.export import head_graphs, in_8_bits, prefix_graph, step_graph
    from genius.decode.onnx_decoder import TABLE, WEIGHTS, graph_file
    from genius.decode.t5 import DecoderSettings, T5Decoder

    t5_small = {"layers": 6, "width": 512, "heads": 8, "head_width": 64, "feed_forward": 2048, "prefix": 30}
    settings = DecoderSettings(start_from_codebooks=False, **(t5_small if like_paper else {}))
    torch.manual_seed(0)
    network = T5Decoder(vector_width, sizes, settings).eval()
    save_file({TABLE: network.codes.weight.detach().numpy()}, folder / WEIGHTS)
    graphs = {"prefix": prefix_graph(network), "step": step_graph(network), **head_graphs(network)}
    for name, content in graphs.items():
        (folder / graph_file(name, "fp32")).write_bytes(content)
        (folder / graph_file(name, "int8")).write_bytes(in_8_bits(content))


def open_network(folder: Path, sizes: Sequence[int], precision: Precision) -> OnnxDecoder:
    """One of the networks that were written to a folder, on one thread."""
    return OnnxDecoder.open(lambda name: folder / name, sizes, precision=precision, threads=1)


def stand_ins(world: World, networks: Path, rows: Sequence[Row]) -> Decoders:
    """What scores made-up codes: geometry, and the networks in a folder for their time."""
    sizes = [len(book) for book in world.codebooks]
    geometry = Geometry(world.codebooks, TEMPERATURE)
    geometry.warm_up()
    made: dict[Precision | None, Decoder] = {None: geometry}
    for name in {row.decoder for row in rows if row.decoder is not None}:
        made[name] = StandIn(open_network(networks, sizes, name), geometry)
    return made


def trained(model: Model, rows: Sequence[Row]) -> Decoders:
    """A model's own decoders, on one thread."""
    geometry = model.geometry
    geometry.warm_up()
    made: dict[Precision | None, Decoder] = {None: geometry}
    for name in {row.decoder for row in rows if row.decoder is not None}:
        made[name] = model.learned_decoder(name, threads=1)
    return made


def systems(world: World, decoders: Decoders, rows: Sequence[Row] = ROWS, *, k: int = 10) -> list[System]:
    """Our systems over a world; those of one precision share a network."""
    return [_system(world, row, decoders[row.decoder], k) for row in rows]


def exhaustive(world: World, k: int = 10) -> list[System]:
    """Looking at everything: bytes of one modality and of all, and codes alone by tables."""
    geometry = Geometry(world.codebooks, TEMPERATURE)
    engine = Engine(world.parts, geometry, world.codebooks, world.weight)
    made = []
    for name, known, bytes_ in (
        ("scan of bytes km", True, True),
        ("scan of bytes", False, True),
        ("scan of codes km", True, False),
    ):

        def run(queries: np.ndarray, known: bool = known, bytes_: bool = bytes_) -> np.ndarray:
            query_embeddings = world.query_embeddings[queries] if bytes_ else None
            first = world.first[queries] if known else None
            return engine.search(world.vectors[queries], query_embeddings, first=first, k=k, mode="scan").rows

        kept = _bytes(world, coarse=bytes_, lengths=not bytes_)
        made.append(System(name, run, bytes_per_item=kept / len(world), build_s=world.pack_s))
    return made


def _system(world: World, row: Row, decoder: Decoder, k: int) -> System:
    engine = Engine(world.parts, decoder, world.codebooks, world.weight)

    def run(queries: np.ndarray) -> np.ndarray:
        first = world.first[queries] if row.known else None
        vectors, query_embeddings = world.vectors[queries], world.query_embeddings[queries]
        hits = engine.search(vectors, query_embeddings, first=first, k=k, beams=BEAMS, mode=row.mode, plain=False)
        return hits.rows

    def left_out() -> float:
        return decoder.apart if isinstance(decoder, StandIn) else 0.0

    kept = _bytes(world, coarse=True, lengths=False)
    return System(
        row.name, run, row.batch, left_out=left_out, bytes_per_item=kept / len(world), build_s=world.pack_s
    )


def _bytes(world: World, *, coarse: bool, lengths: bool) -> int:
    """What a search reads: packed codes, embeddings in bytes, lengths of codes."""
    total = 0
    for part in world.parts:
        arrays = [part.coarse if coarse else None, part.halves if lengths else None]
        total += part.packed.nbytes + sum(array.nbytes for array in arrays if array is not None)
    return total
