"""From a tree to a model that generates codes: all three stages, on the miniature benchmark."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("faiss")

from safetensors.torch import load_file
from typer.testing import CliRunner

from genius import Index, storage
from genius.cli import app
from genius.corpus.coded import CodedCorpus
from genius.data.mbeir import Tree
from genius.decode.onnx_decoder import Precision
from genius.decode.t5 import DecoderSettings, T5Decoder
from genius.decode.torch_decoder import TorchDecoder
from genius.doctor.examine import examine
from genius.errors import InputError, MissingError
from genius.evaluate.protocol import DEPTH
from genius.evaluate.run import evaluate_model
from genius.model import Model
from genius.quantize.codebooks import CodebookSettings
from genius.train.gate import verdict_on
from genius.train.loop import LoopSettings
from genius.train.run import Recipe, duration, plan, read_recipe, train_model
from tests.coded import coded_corpus, replace_codebooks
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.end_to_end.rankings import assert_same_rankings, make_index, rankings, readable
from tests.oracles.beam import beam_search, ranked_items
from tests.oracles.trie import Trie
from tests.recipes import DECODED

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("decoded")
    write_small_towers(folder / "towers")
    (folder / "recipe.toml").write_text(DECODED)
    return folder


@pytest.fixture(autouse=True)
def small_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_towers(home, monkeypatch)


def _train(home: Path, miniature: Path, out: str, recipe: Recipe, *, force: bool = True) -> Model:
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(home, patch)
        # They share what training keeps, so that stages which they have in common are trained once.
        cache, work = home / "cache", home / "work"
        return train_model(recipe, Tree(miniature), home / out, cache=cache, work=work, force=force)


@pytest.fixture(scope="module")
def trained(home: Path, miniature: Path) -> Path:
    return _train(home, miniature, "model", read_recipe(home / "recipe.toml")).path


def _hit_rate(model: Model, coded: CodedCorpus, precision: Precision = "fp32") -> float:
    """@5, among all items, with the wanted modality known."""
    decoder, trie = model.learned_decoder(precision), Trie.build(coded.codes)
    hits = []
    for task, queries in coded.embedded.tasks.items():
        wanted = model.modality_codes_for(queries.want, len(queries))
        beams = beam_search(decoder, trie, coded.queries[task], 10, modality_code=wanted)
        _, items = ranked_items(trie, beams, 5)
        hits += [np.isin(items[row], queries.positives(row)).any() for row in range(len(queries))]
    return float(np.mean(hits))


def test_a_model_after_this_stage_generates_codes(trained: Path, miniature: Path, home: Path) -> None:
    model = Model.open(trained, threads=1)
    assert model.stages == ["encoder", "quantizer", "decoder"]
    assert model.learned.sizes == (3, 16, 16, 16)
    coded = coded_corpus(model, miniature, home / "cache", "train")
    assert _hit_rate(model, coded) > 0.8
    assert _hit_rate(model, coded, "int8") > 0.7
    described = model.settings["decoder"]
    assert described["difference_from_torch"]["largest"]["fp32"] < 1e-3
    assert set(model.settings["validation"]) == {"encoder", "quantizer", "decoder"}
    # The graphs say what the weights beside them say.
    network = T5Decoder(
        model.vector_width,
        model.quantizer.sizes,
        DecoderSettings(**described["network"]),
        model.quantizer.codebooks,
    )
    network.load_state_dict(load_file(trained / "decoder.safetensors"))
    vectors = next(iter(coded.queries.values()))
    expected = TorchDecoder(network).begin(vectors, np.zeros(len(vectors), np.int64)).scores()
    scores = model.learned.begin(vectors, np.zeros(len(vectors), np.int64)).scores()
    np.testing.assert_allclose(scores, expected, atol=1e-3)


def test_an_index_is_searched_by_the_learned_decoder(
    trained: Path, miniature: Path, home: Path, tmp_path: Path
) -> None:
    query, want = "the red one", "image"
    with Index.create(tmp_path / "index", Model.open(trained, threads=1)) as index:
        index.add(Tree(miniature), cache=home / "cache")
        paper = index.search(query, want=want, k=5, mode="paper")
        assert (paper.mode, paper.decoder, paper) == ("paper", "learned", paper.plain)
        assert index.search(query, want=want, mode="exact").decoder == "geometry"
        assert index.search(query, want=want, mode="paper", decoder="geometry").decoder == "geometry"
        exact = index.search(query, want=want, k=5, mode="exact", decoder="learned", beam=7)
        published = index.search(query, want=want, k=5, mode="paper", beam=7)
        assert {hit.item.id for hit in exact.reranked} == {hit.item.id for hit in published.reranked}
        for hit in index.search(query, want=want, k=5, mode="scan", decoder="learned"):
            assert hit.log_probabilities[0] == 0
            assert all(-50 < log_prob < 0 for log_prob in hit.log_probabilities[1:])
        rounded = index.search(query, want=want, k=5, mode="paper", precision="int8")
        assert rounded[0].log_probability == pytest.approx(paper[0].log_probability, abs=1)
    # By torch on a device it finds the same.
    with Index.open(tmp_path / "index", Model.open(trained, device="cpu")) as index:
        again = index.search(query, want=want, k=5, mode="paper")
        assert again.decoder == "learned"
        assert [hit.item.id for hit in again] == [hit.item.id for hit in paper]
        assert [hit.score for hit in again] == pytest.approx([hit.score for hit in paper], abs=1e-3)
    with (
        Index.open(tmp_path / "index", Model.open(trained, device="cuda:99")) as index,
        pytest.raises(MissingError, match="torch can't use the device 'cuda:99' here"),
    ):
        index.search(query, mode="paper")


def test_the_published_method_in_an_evaluation_is_the_mode_paper_of_an_index(
    trained: Path, miniature: Path, home: Path, tmp_path: Path
) -> None:
    tree, cache = Tree(miniature), home / "cache"
    evaluation = evaluate_model(
        miniature, trained, split="test", cache=cache, pools=("union",), systems=("genius", "genius+rerank")
    ).evaluation
    with make_index(tmp_path / "index", Model.open(trained), tree, cache) as index:
        for run in evaluation.runs:
            reranked = run.system == "genius+rerank"
            results = rankings(index, tree, run.task, k=DEPTH, mode="paper", rerank=reranked)
            # A network rounds differently with the number of beams, and an item without its image has one.
            assert_same_rankings(results, readable(run.results, index), tolerance=1e-5)


@pytest.mark.long
def test_done_is_done_and_a_changed_quantizer_takes_the_decoder_with_it(
    trained: Path, miniature: Path, home: Path
) -> None:
    recipe, before = read_recipe(home / "recipe.toml"), storage.read_manifest(trained)
    assert "nothing to do" in plan(recipe, trained)[0]
    assert duration(recipe, trained) == ""
    train_model(recipe, Tree(miniature), trained, cache=home / "cache")
    assert storage.read_manifest(trained) == before
    _train(home, miniature, "copy", recipe)
    assert recipe.quantizer is not None and recipe.decoder is not None
    longer = dataclasses.replace(recipe, decoder=dataclasses.replace(recipe.decoder, batch=16))
    assert [line.split(":")[0] for line in plan(longer, home / "copy")[1:]] == ["  1. stage decoder"]
    assert duration(longer, home / "copy").startswith("About 1 minute on this machine's processor if")
    other = dataclasses.replace(recipe.quantizer, gamma=6.0)
    changed = dataclasses.replace(recipe, quantizer=other, decoder=None)
    model = _train(home, miniature, "copy", changed)
    assert model.stages == ["encoder", "quantizer"]
    assert not [name for name in storage.read_manifest(model.path).files if name.startswith("decoder")]
    assert "decoder" not in model.settings and "decoder" not in model.settings["validation"]
    with pytest.raises(MissingError, match="has no decoder yet"):
        model.learned  # noqa: B018


@pytest.mark.long
def test_the_same_seed_gives_the_same_decoder(trained: Path, miniature: Path, home: Path) -> None:
    recipe = read_recipe(home / "recipe.toml")
    again = train_model(
        recipe, Tree(miniature), home / "again", cache=home / "cache", work=home / "other", force=True
    )
    assert again.fingerprint == Model.open(trained).fingerprint


def test_a_broken_quantizer_needs_force(miniature: Path, home: Path) -> None:
    recipe = read_recipe(home / "recipe.toml")
    assert recipe.decoder is not None
    model = _train(home, miniature, "sound", dataclasses.replace(recipe, decoder=None))
    random = np.random.default_rng(0)
    noise = [random.normal(size=book.shape).astype(np.float32) for book in model.quantizer.codebooks]
    replace_codebooks(model.path, noise, home / "broken")
    with pytest.raises(InputError, match=r"the quantizer is broken.*to train all the same, say --force"):
        _train(home, miniature, "broken", recipe, force=False)
    broken = Model.open(home / "broken")
    assert broken.stages == ["encoder", "quantizer"]
    # It is the doctor's own verdict.
    examined = examine(Tree(miniature), broken, cache=home / "cache").verdict
    coded = coded_corpus(broken, miniature, home / "cache", "val")
    assert verdict_on(broken, coded).state == examined.state == "broken"
    loop = dataclasses.replace(recipe.decoder.loop, steps=2, validate_every=2)
    brief = dataclasses.replace(recipe, decoder=dataclasses.replace(recipe.decoder, loop=loop))
    assert _train(home, miniature, "broken", brief, force=True).stages[-1] == "decoder"


@pytest.mark.long
def test_the_command_says_what_it_will_do_and_how_long_that_takes(miniature: Path, home: Path) -> None:
    short = DECODED.replace("steps = 80", "steps = 2")
    (home / "short.toml").write_text(short)
    arguments = ["train", str(home / "short.toml"), "--tree", str(miniature), "-o", str(home / "short")]
    shown = CliRunner().invoke(app, [*arguments, "--force"], catch_exceptions=False)
    assert shown.exit_code == 0
    assert "4. stage decoder: 2 steps of 32 rows, validated every 40" in shown.stdout
    assert "About 1 minute on this machine's processor" in shown.stdout
    assert "a model with the stages encoder, quantizer, decoder" in shown.stdout


# --- the recipes that ship


Loop = TypeVar("Loop", bound=LoopSettings)


def _few_steps(loop: Loop) -> Loop:
    return dataclasses.replace(loop, steps=6, validate_every=3, save_every=3, warm_up=1)


def _tiny(recipe: Recipe, small: Recipe) -> Recipe:
    """A recipe with its own choices, but with the sizes and steps of a small one."""
    assert recipe.quantizer and recipe.decoder and small.quantizer and small.decoder
    books = dataclasses.replace(recipe.quantizer.codebooks, levels=3, size=8, iterations=5)
    network = dataclasses.asdict(small.decoder.network)
    for name in ("start_from_codebooks", "start_scale"):
        network[name] = getattr(recipe.decoder.network, name)
    network["prefix_hidden"] = min(recipe.decoder.network.prefix_hidden, 8)
    quantizer = dataclasses.replace(
        recipe.quantizer,
        batch=16,
        validated=4,
        codebooks=books,
        fusion=dataclasses.replace(recipe.quantizer.fusion, hidden=16),
        loop=_few_steps(recipe.quantizer.loop),
    )
    decoder = dataclasses.replace(
        recipe.decoder,
        batch=16,
        validated=4,
        device="cpu",
        network=DecoderSettings(**network),
        loop=_few_steps(recipe.decoder.loop),
    )
    return dataclasses.replace(
        recipe, towers=None, encoder=small.encoder, quantizer=quantizer, decoder=decoder
    )


@pytest.mark.long
@pytest.mark.parametrize("name", ["paper", "reference"])
def test_published_recipes_train_all_stages(name: str, miniature: Path, home: Path) -> None:
    published = read_recipe(ROOT / f"recipes/{name}.toml")
    assert published.quantizer is not None and published.decoder is not None
    size = CodebookSettings(levels=8, size=1024).all_sizes
    assert published.quantizer.codebooks.all_sizes == size
    network = published.decoder.network  # what two cores can train
    assert (network.layers, network.width, network.prefix) == (3, 256, 30)
    model = _train(home, miniature, name, _tiny(published, read_recipe(home / "recipe.toml")))
    assert model.stages == ["encoder", "quantizer", "decoder"]
    vectors = next(iter(coded_corpus(model, miniature, home / "cache", "val").queries.values()))
    scores = model.learned.begin(vectors).scores()
    assert scores.shape == (len(vectors), model.quantizer.sizes[0])
    np.testing.assert_allclose(np.exp(scores).sum(axis=1), 1, atol=1e-4)
