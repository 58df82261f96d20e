"""Files that the authors' own code trained and saved, imported: what it computes, and what it finds.

Nothing here knows a size: all follow from the files.
"""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.golden import published_folder

pytest.importorskip("torch")
pytest.importorskip("onnx")
import torch

from genius.data.records import Item, Vectors
from genius.decode.decoder import Decoder
from genius.decode.t5 import T5Decoder
from genius.decode.torch_decoder import TorchDecoder
from genius.index.index import Index
from genius.model import Model
from genius.published.decoder_file import QUANTIZER, SPECIAL_TOKENS, read_decoder
from genius.published.files import PublishedFile
from genius.published.quantizer_file import read_quantizer
from genius.published.run import ImportedFiles, import_model
from genius.quantize.fusion_inputs import FusionInputs
from genius.search.codes import PackedCodes
from genius.search.engine import Engine
from genius.search.segment_view import SegmentView

BEAMS = (1, 3, 10, 50)


class Golden:
    """The authors' files, what their code made of them, and what we make of them."""

    def __init__(self, folder: Path, home: Path) -> None:
        self.arrays: dict[str, np.ndarray] = dict(np.load(folder / "golden.npz"))
        self.config = json.loads((folder / "config.json").read_text())
        self.rq, self.t5 = folder / "rq.pth", folder / "t5.pth"
        self.model = import_model(ImportedFiles(None, self.rq, self.t5), home / "model")
        self.home = home

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def vectors(self, kind: str) -> list[Vectors]:
        """The given features of candidates (`cand`) or queries, of what each has."""
        parts = {name: self[f"{kind}_{short}"] for name, short in (("image", "img"), ("text", "txt"))}
        masks = {name: self[f"{kind}_{short}_mask"] for name, short in (("image", "img"), ("text", "txt"))}
        return [
            Vectors(**{name: parts[name][row] for name in parts if masks[name][row]})
            for row in range(len(masks["image"]))
        ]

    def inputs(self, kind: str) -> FusionInputs:
        image, text = (self[f"{kind}_{short}_mask"] > 0 for short in ("img", "txt"))
        modality = np.where(image & text, 2, np.where(image, 0, 1))
        return self.model.vector_inputs(self.vectors(kind), modality)

    @cached_property
    def index(self) -> Index:
        index = Index.create(self.home / "index", self.model)
        index.add([Item(str(row), vector=vector) for row, vector in enumerate(self.vectors("cand"))])
        return index

    def network(self, normalisation: Any) -> T5Decoder:
        file, quantizer = PublishedFile.open(self.t5, "decoder"), self.model.quantizer
        return read_decoder(file.without(QUANTIZER), quantizer.width, quantizer.sizes, normalisation)

    def search(self, beams: int, *, rerank: bool, **options: Any) -> list[list[int]]:
        """The items that a search of an index finds for each query, by number."""
        return searched(self.index, self.vectors("query"), k=10, beam=beams, rerank=rerank, **options)

    def expected(self, beams: int, name: str) -> list[list[int]]:
        """What the authors' code finds, `plain` or `reranked`."""
        rows = self[f"beam{beams}_{name}_items"].tolist()
        return [[number for number in items if number >= 0] for items in rows]


def searched(index: Index, queries: list[Vectors], **options: Any) -> list[list[int]]:
    """The numbers of the items that are found for each query, by one search each."""
    return [[int(hit.item.id) for hit in index.search(vector=query, **options)] for query in queries]


@pytest.fixture(scope="module")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    return Golden(published_folder(), tmp_path_factory.mktemp("published"))


def test_sizes_follow_from_the_files(golden: Golden) -> None:
    config, network = golden.config, golden.model.settings["decoder"]["network"]
    assert golden.model.stages == ["encoder", "quantizer", "decoder"]
    assert golden.model.quantizer.sizes == tuple(config["sizes"])
    assert golden.model.width == config["width"]
    fusion = golden.model.settings["quantizer"]["fusion"]
    assert (fusion["hidden"], fusion["share_hidden"]) == (config["projection"], config["hidden"])
    t5 = config["t5"]
    ours = [network[name] for name in ("width", "head_width", "heads", "feed_forward", "layers", "buckets")]
    assert ours == [t5[name] for name in ("d_model", "d_kv", "heads", "d_ff", "layers", "buckets")]
    assert network["prefix"] == config["prefix"]


@pytest.mark.parametrize("kind", ["cand", "query"])
def test_fused_vectors_and_codes(golden: Golden, kind: str) -> None:
    vectors = golden.model.vectors(golden.inputs(kind))
    assert np.abs(vectors - golden[f"{kind}_fused"]).max() < 1e-6
    codes = golden.model.quantizer.codes(vectors)
    np.testing.assert_array_equal(codes, golden[f"{kind}_codes"])
    quantized = golden.model.quantizer.reconstruct(codes)
    np.testing.assert_allclose(quantized, golden[f"{kind}_quantized"], atol=1e-5)


@pytest.mark.parametrize("kind", ["cand", "query"])
def test_fused_vectors_by_torch(golden: Golden, kind: str) -> None:
    published = read_quantizer(PublishedFile.open(golden.rq, "quantizer"))
    inputs = {name: torch.from_numpy(value) for name, value in golden.inputs(kind)[:].items()}
    with torch.no_grad():
        vectors = published.fusion(**inputs).numpy()
    assert np.abs(vectors - golden[f"{kind}_fused"]).max() < 1e-6


def test_embeddings_are_the_sum_of_features(golden: Golden) -> None:
    for kind in ("cand", "query"):
        np.testing.assert_allclose(golden.inputs(kind).embeddings, golden[f"{kind}_rerank"], atol=1e-6)


def test_logits(golden: Golden) -> None:
    network, codes = golden.network("vocabulary"), torch.from_numpy(golden["target_codes"].astype(np.int64))
    with torch.no_grad():
        logits = torch.stack(network(torch.from_numpy(golden["query_fused"]), codes), 1).numpy()
        loss = torch.nn.functional.cross_entropy(
            torch.from_numpy(logits).flatten(0, 1), network.targets(codes).flatten()
        )
    specials = range(1, SPECIAL_TOKENS)
    order = [0, *range(SPECIAL_TOKENS, golden["logits"].shape[2]), *specials]
    assert np.abs(logits - golden["logits"][:, :, order]).max() < 2e-5
    assert loss.item() == pytest.approx(float(golden["loss"]), abs=1e-5)


def along(decoder: Decoder, vectors: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """The log-probability of each of the codes [n, levels], given those before."""
    state, rows, scores = decoder.begin(vectors), np.arange(len(codes)), []
    for level in range(codes.shape[1]):
        scores.append(state.scores()[rows, codes[:, level]])
        if level + 1 < codes.shape[1]:
            state.advance(rows, codes[:, level])
    return np.stack(scores, axis=1)


@pytest.mark.parametrize("normalisation", ["vocabulary", "level"])
@pytest.mark.parametrize("runner", ["torch", "onnx"])
def test_log_probabilities_and_beams(golden: Golden, runner: str, normalisation: str) -> None:
    """By the engine over the codes of the candidates, in both normalisations, by torch and ONNX Runtime."""
    decoder: Decoder = TorchDecoder(golden.network(normalisation))
    if runner == "onnx":
        model = golden.model
        if normalisation == "level":
            files = ImportedFiles(None, golden.rq, golden.t5)
            model = import_model(files, golden.home / "by level", normalisation="level")
        decoder = model.learned
    vectors = golden.model.query_vectors(golden.inputs("query"))
    targets = golden["target_codes"].astype(np.int64)
    expected = golden[f"target_logprob_{normalisation}"]
    np.testing.assert_allclose(along(decoder, vectors, targets), expected, atol=2e-5)
    codes = golden["cand_codes"]
    packed, order = PackedCodes.build(codes, golden.model.quantizer.sizes, semantic=1)
    engine = Engine([SegmentView(packed, item_keys=order)], decoder, golden.model.quantizer.codebooks)
    part = "level_" if normalisation == "level" else ""
    for beams in BEAMS:
        result = engine.find(vectors, k=0, beams=beams, mode="paper").beams
        wanted, sums = golden[f"beam{beams}_{part}codes"], golden[f"beam{beams}_{part}sum_logprob"]
        for query in range(len(vectors)):
            places = slice(result.bounds[query], result.bounds[query + 1])
            ours = packed.codes(result.starts[0, places])
            np.testing.assert_array_equal(ours, wanted[query], err_msg=f"{beams} beams, query {query}")
            if np.isfinite(sums[query]).all():
                np.testing.assert_allclose(result.log_probs[places], sums[query], atol=5e-5)


@pytest.mark.parametrize("beams", BEAMS)
def test_the_index_finds_what_the_authors_code_finds(golden: Golden, beams: int) -> None:
    """Through `Index.search` in the mode `paper`, by ONNX Runtime, plainly and re-ranked."""
    assert golden.search(beams, rerank=False, mode="paper") == golden.expected(beams, "plain")
    assert golden.search(beams, rerank=True, mode="paper") == golden.expected(beams, "reranked")


@pytest.mark.long
def test_the_index_finds_the_same_by_torch(golden: Golden) -> None:
    by_torch = Index.open(golden.index.path, Model.open(golden.model.path, device="cpu"))
    queries = golden.vectors("query")
    for rerank, name in ((False, "plain"), (True, "reranked")):
        hits = searched(by_torch, queries, k=10, beam=10, rerank=rerank, mode="paper")
        assert hits == golden.expected(10, name)


def test_a_pool_of_fewer_codes_than_beams(golden: Golden) -> None:
    """The authors' code fills up with duplicates at -1e9; ours returns the codes that exist."""
    packed, order = PackedCodes.build(golden["few_codes"], golden.model.quantizer.sizes, semantic=1)
    engine = Engine([SegmentView(packed, item_keys=order)], golden.model.learned)
    vectors = golden.model.query_vectors(golden.inputs("query"))
    result = engine.find(vectors, k=0, beams=10, mode="paper").beams
    count = len(golden["few_codes"])
    for query in range(len(vectors)):
        places = slice(result.bounds[query], result.bounds[query + 1])
        ours = packed.codes(result.starts[0, places])
        np.testing.assert_array_equal(ours, golden["few_beam10_codes"][query][:count])


def test_other_modes_find_the_targets_too(golden: Golden) -> None:
    """Geometry gets its temperature from the pool; with all items below, re-ranking is dense search."""
    dense = golden["query_rerank"] @ golden["cand_rerank"].T
    best = dense.argmax(1)
    first = [hits[0] for hits in golden.search(50, rerank=True, mode="fast")]
    assert np.mean(np.array(first) == best) > 0.9
    assert golden.index.decoder("fast").name == "geometry"
    first = [hits[0] for hits in golden.search(50, rerank=True, decoder="learned", precision="int8")]
    assert np.mean(np.array(first) == best) > 0.9
