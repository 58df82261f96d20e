"""PRO's three ideas together on the miniature benchmark: from a recipe to searches of an index."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("faiss")

from genius import Index, storage
from genius.data.mbeir import Tree
from genius.decode.fused_decoder import FusedDecoder
from genius.errors import MissingError
from genius.evaluate.systems import EngineSearch, EngineSettings
from genius.index.decoders import Decoders
from genius.model import Model
from genius.train.recipe import Recipe, read_recipe
from genius.train.run import plan, train_model
from tests.coded import coded_corpus
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.oracles.beam import beam_search, ranked_items
from tests.oracles.trie import Trie
from tests.recipes import DECODED

pytestmark = pytest.mark.long

SCHEDULE = [4] * 4 + [8] * 8 + [16] * 4
PRO = DECODED.replace("levels = 3\nsize = 16", f"levels = 16\nsizes = {SCHEDULE}") + (
    "[quantizer.distillation]\nweight = 10.0\n[decoder.geometric_fusion]\nweight = 10.0\n"
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pro")
    write_small_towers(folder / "towers")
    (folder / "recipe.toml").write_text(PRO)
    return folder


@pytest.fixture(autouse=True)
def small_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_towers(home, monkeypatch)


def train(home: Path, miniature: Path, recipe: Recipe) -> Model:
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(home, patch)
        cache, work = home / "cache", home / "work"
        return train_model(recipe, Tree(miniature), home / "model", cache=cache, work=work, force=True)


@pytest.fixture(scope="module")
def trained(home: Path, miniature: Path) -> Path:
    return train(home, miniature, read_recipe(home / "recipe.toml")).path


def test_the_model_says_how_its_decoder_is_fused(trained: Path, home: Path, miniature: Path) -> None:
    """By ONNX Runtime and by torch; with a weight of one's own, or none."""
    model = Model.open(trained, threads=1)
    assert model.quantizer.sizes == (3, *SCHEDULE)
    assert model.settings["decoder"]["geometric_fusion"] == {"weight": 10.0}
    by_onnx, by_torch = model.learned, Model.open(trained, threads=1, device="cpu").learned
    assert isinstance(by_onnx, FusedDecoder) and isinstance(by_torch, FusedDecoder)
    assert Decoders(model).choose("paper").name == "learned"
    assert isinstance(Decoders(model).choose("paper").decoder, FusedDecoder)
    coded = coded_corpus(model, miniature, home / "cache", "train")
    vectors = next(iter(coded.queries.values()))
    modality = np.zeros(len(vectors), np.int64)
    expected = by_torch.begin(vectors, modality).scores()
    np.testing.assert_allclose(by_onnx.begin(vectors, modality).scores(), expected, atol=1e-2)
    assert model.learned_decoder("fp32", geometry_weight=0.0).sizes == by_onnx.sizes
    other = model.learned_decoder("int8", geometry_weight=3.0)
    assert isinstance(other, FusedDecoder) and other.weight == 3.0


def test_the_row_genius_is_the_readable_search_by_the_fused_decoder(
    trained: Path, home: Path, miniature: Path
) -> None:
    model = Model.open(trained, threads=1)
    coded = coded_corpus(model, miniature, home / "cache", "test")
    task = next(iter(coded.queries))
    members = np.arange(len(coded.codes))
    settings = EngineSettings("learned", "paper", by_codes=False, beams=200, depth=5)
    rankings = EngineSearch(model, coded).plain(settings)(task, members)
    wanted = model.modality_codes_for(coded.embedded.tasks[task].want, len(coded.queries[task]))
    trie = Trie.build(coded.codes)
    beams = beam_search(model.learned, trie, coded.queries[task], 200, modality_code=wanted)
    log_probs, _ = ranked_items(trie, beams, 5)
    np.testing.assert_allclose(rankings.scores[:, :5], log_probs, atol=1e-3)


def test_an_index_searches_by_it_in_every_mode(
    trained: Path, home: Path, miniature: Path, tmp_path: Path
) -> None:
    with Index.create(tmp_path / "index", Model.open(trained, threads=1)) as index:
        index.add(Tree(miniature), cache=home / "cache")
        for mode in ("paper", "exact", "safe", "fast", "scan", "auto"):
            hits = index.search("the red one", want="image", k=5, mode=mode, decoder="learned")
            assert len(hits) == 5 and hits.decoder == "learned"
            assert all(len(hit.path.log_probabilities) == 17 for hit in hits)


def test_another_weight_is_set_without_training(trained: Path, home: Path, miniature: Path) -> None:
    recipe = read_recipe(home / "recipe.toml")
    assert recipe.decoder is not None
    before = storage.read_manifest(trained)
    other = dataclasses.replace(recipe.decoder.geometric_fusion, weight=2.5)
    changed = dataclasses.replace(recipe, decoder=dataclasses.replace(recipe.decoder, geometric_fusion=other))
    assert plan(changed, trained)[1:] == [
        "  1. set the weight of geometry in the learned decoder's scores to 2.5"
    ]
    model = train(home, miniature, changed)
    assert isinstance(model.learned, FusedDecoder) and model.learned.weight == 2.5
    assert storage.read_manifest(trained).files == before.files
    assert "nothing to do" in plan(changed, trained)[0]
    off = dataclasses.replace(other, weight=0.0)
    plain = train(
        home,
        miniature,
        dataclasses.replace(recipe, decoder=dataclasses.replace(recipe.decoder, geometric_fusion=off)),
    )
    assert not isinstance(plain.learned, FusedDecoder)
    again = train(home, miniature, recipe)
    assert storage.read_manifest(again.path).settings == before.settings


def test_a_model_without_a_learned_decoder_says_so(coded_model: Path) -> None:
    with pytest.raises(MissingError, match="has no decoder yet"):
        Model.open(coded_model).learned_decoder("fp32", geometry_weight=10.0)
