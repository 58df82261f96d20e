"""Fitting by given vectors: from vectors to a searchable index, and what is too little to fit."""

from __future__ import annotations

import inspect
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from genius.cli import app
from genius.cli import fit as command
from genius.data.records import MODALITIES, Item, Query, Vectors
from genius.errors import InputError
from genius.fit import codebooks
from genius.fit.codebooks import codes_per_level, fit_quantizer
from genius.fit.run import fit_model
from genius.fit.tuning import SCALES, Tuning, tune
from genius.index.index import Index
from genius.model import DEFAULT, Model
from genius.quantize.quantizer import Quantizer

WIDTH = 32


def clustered(count: int, seed: int = 0) -> np.ndarray:
    """Vectors around some centres, as embeddings are."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(99).normal(size=(30, WIDTH))
    rows = centres[random.integers(0, 30, count)] + 0.4 * random.normal(size=(count, WIDTH))
    return np.asarray(rows, np.float32)


def given_items(vectors: np.ndarray) -> list[Item]:
    return [Item(str(row), f"text {row}", vector=vector) for row, vector in enumerate(vectors)]


VECTORS = clustered(1500)


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Model:
    out = tmp_path_factory.mktemp("fit") / "model"
    return Model.fit(given_items(VECTORS), encoder="precomputed", out=out)


@pytest.fixture(scope="module")
def index(fitted: Model, tmp_path_factory: pytest.TempPathFactory) -> Index:
    index = Index.create(tmp_path_factory.mktemp("index") / "index", fitted)
    assert index.add(given_items(VECTORS)).added == len(VECTORS)
    return index


def exact(queries: np.ndarray, count: int) -> np.ndarray:
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    return np.asarray(np.argsort(-(queries @ units.T), axis=1)[:, :count])


def overlap(index: Index, queries: np.ndarray, *, rerank: bool) -> float:
    results = index.search_many([Query(vector=query) for query in queries], k=10, rerank=rerank)
    kept = [
        len({int(hit.item.id) for hit in hits} & set(wanted))
        for hits, wanted in zip(results, exact(queries, 10).tolist(), strict=True)
    ]
    return float(np.mean(kept)) / 10


def test_a_search_finds_what_exact_search_over_the_vectors_finds(index: Index) -> None:
    queries = clustered(100, seed=5)
    assert overlap(index, queries, rerank=True) > 0.98
    assert overlap(index, queries, rerank=False) > 0.5


def test_the_length_of_queries_suits_queries_that_were_never_seen(fitted: Model) -> None:
    quantizer = fitted.quantizer
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    quantized = quantizer.reconstruct(quantizer.codes(units, np.ones(len(units), np.int64)))
    half_sq_norms = 0.5 * np.square(quantized).sum(1)
    queries = clustered(200, seed=6)
    queries /= np.linalg.norm(queries, axis=1, keepdims=True)

    def kept(scale: float) -> float:
        best = np.argsort(-(scale * queries @ quantized.T - half_sq_norms), axis=1)[:, :10]
        return float(np.mean([np.isin(*pair).mean() for pair in zip(best, exact(queries, 10), strict=True)]))

    assert kept(fitted.settings["quantizer"]["query_scale"]) > max(map(kept, SCALES)) - 0.03


def test_a_longer_query_is_chosen_where_lengths_mislead() -> None:
    """Quantized vectors of very different lengths in the right directions: only directions should count."""
    random = np.random.default_rng(0)
    units = random.normal(size=(400, 128)).astype(np.float32)
    units /= np.linalg.norm(units, axis=1, keepdims=True)
    modality = np.ones(400, np.int64)

    def tuned(lengths: np.ndarray) -> Tuning:
        quantizer = Quantizer([np.zeros((3, 128)), units * lengths])
        own = quantizer.codes(units, modality)[:, 1]
        assert (own == np.arange(400)).all()  # each item has a code of its own
        return tune(quantizer, units, modality, random=random)

    assert tuned(random.uniform(0.8, 1, (400, 1))).query_scale >= 3
    assert tuned(np.ones((400, 1))).query_scale == 1
    assert tuned(np.ones((400, 1))).codes_overlap == {"text": 1.0}


def test_the_fitted_codes_keep_more_than_plain_residual_kmeans() -> None:
    random = np.random.default_rng(0)
    modality = np.full(len(VECTORS), MODALITIES.index(Item("1", "a").modality))
    plain = fit_quantizer(VECTORS, modality, random=random, rounds=0, beams=1)
    refined = fit_quantizer(VECTORS, modality, random=np.random.default_rng(0))
    errors = [
        np.square(VECTORS - quantizer.reconstruct(quantizer.codes(VECTORS, modality))).sum(1).mean()
        for quantizer in (plain, refined)
    ]
    assert errors[1] < 0.85 * errors[0]


def test_shrunk_codebooks_are_nearer_to_items_that_came_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """Than by plain means, of which those of few items say much about these and little about others."""
    modality, later = np.ones(len(VECTORS), np.int64), clustered(1500, seed=7)

    def error() -> float:
        quantizer = fit_quantizer(VECTORS, modality, random=np.random.default_rng(0))
        return float(np.square(later - quantizer.reconstruct(quantizer.codes(later, modality))).sum(1).mean())

    shrunk = error()
    monkeypatch.setattr(codebooks, "SHRINKAGE", 1e-6)
    assert shrunk < 0.9 * error()


def test_adding_again_changes_nothing_and_another_vector_replaces(index: Index) -> None:
    items = given_items(VECTORS)
    again = index.add(items[:5])
    assert (again.added, again.replaced, again.known) == (0, 0, 5)
    moved = Item("0", "text 0", vector=-VECTORS[0])
    assert index.add([moved]).replaced == 1
    assert index.search(vector=-VECTORS[0], k=1)[0].item.id == "0"
    assert index.add(items[:1]).replaced == 1


def test_a_text_can_not_be_searched_and_an_item_needs_its_vector(index: Index) -> None:
    with pytest.raises(
        InputError, match=r"can't embed a text: give a vector of the same encoder, 32 numbers"
    ):
        index.search("a text")
    with pytest.raises(InputError, match="a vector has 3 numbers, and this model takes 32"):
        index.search(vector=[1.0, 2.0, 3.0])
    report = index.add([Item("new", "no vector"), Item("narrow", "x", vector=[1.0, 2.0])])
    assert report.added == 0
    assert "has no vector" in str(report.failures.first[0]) + str(report.failures.first[1])
    assert "a vector has 2 numbers" in str(report.failures.first[0]) + str(report.failures.first[1])


def test_the_same_seed_gives_the_same_model(tmp_path: Path) -> None:
    items = given_items(VECTORS[:300])
    models = [Model.fit(items, encoder="precomputed", out=tmp_path / name) for name in ("a", "b")]
    assert models[0].fingerprint == models[1].fingerprint
    assert (
        Model.fit(items, encoder="precomputed", out=tmp_path / "c", seed=1).fingerprint
        != models[0].fingerprint
    )


@pytest.mark.parametrize(
    "vectors",
    [VECTORS[:1], VECTORS[:2], VECTORS[:10], np.ones((40, WIDTH), np.float32)],
    ids=["one item", "two items", "ten items", "all equal"],
)
def test_few_items_and_equal_ones_can_be_searched(tmp_path: Path, vectors: np.ndarray) -> None:
    model = Model.fit(given_items(vectors), encoder="precomputed", out=tmp_path / "model")
    with Index.create(tmp_path / "index", model) as index:
        index.add(given_items(vectors))
        hits = index.search(vector=vectors[-1], k=len(vectors))
    assert len(hits) == len(vectors)
    assert np.isclose(hits[0].cosine, 1, atol=1e-3)


def test_parts_apart_close_the_gap(tmp_path: Path) -> None:
    """A text's vector finds the image of the same content among texts and images, though they lie apart."""
    random = np.random.default_rng(1)
    images, texts = VECTORS[:200] + 5, VECTORS[:200] - 5
    items = [Item(f"image {row}", vector=Vectors(image=images[row])) for row in range(200)]
    items += [Item(f"text {row}", vector=Vectors(text=texts[row])) for row in range(100)]
    model = Model.fit(items, encoder="precomputed", out=tmp_path / "model")
    with Index.create(tmp_path / "index", model) as index:
        index.add(items)
        noisy = texts[100:] + 0.05 * random.normal(size=(100, WIDTH))
        firsts = [index.search(vector=Vectors(text=query), k=1)[0].item.id for query in noisy]
    assert np.mean([id == f"image {row}" for row, id in enumerate(firsts, 100)]) > 0.9


def test_a_sample_is_fitted_to_and_failures_are_reported(tmp_path: Path) -> None:
    items = [*given_items(VECTORS), Item("bad", "no vector")]
    result = fit_model(items, "precomputed", tmp_path / "model", most=200)
    assert (result.items <= 200, result.total) == (True, len(VECTORS) + 1)
    everything = fit_model(items, "precomputed", tmp_path / "model", most=2000)
    assert everything.failures.count == 1 and "'bad'" in str(everything.failures.first[0])


def test_what_is_no_encoder_is_said(tmp_path: Path) -> None:
    items = given_items(VECTORS[:20])
    (tmp_path / "empty").mkdir()
    for encoder, message in (
        ("nonsense", "there is no encoder 'nonsense': give photo"),
        ("lite", "two spaces"),
        (tmp_path / "empty", "is no encoder that genius knows"),
    ):
        with pytest.raises(InputError, match=message):
            Model.fit(items, encoder=encoder, out=tmp_path / "model")
    assert not (tmp_path / "model").exists()
    with pytest.raises(InputError, match="there is no item to fit"):
        Model.fit([], encoder="precomputed", out=tmp_path / "model")
    with pytest.raises(InputError, match="no item has a vector: name their file with --vectors"):
        Model.fit([Item("1", "a")], encoder="precomputed", out=tmp_path / "model")
    assert [path.name for path in tmp_path.iterdir()] == ["empty"]


def test_the_command_fits_over_the_model_that_ships() -> None:
    assert inspect.signature(command.fit).parameters["encoder"].default == DEFAULT


def test_sizes_grow_with_the_collection() -> None:
    sizes = [codes_per_level(items) for items in range(1, 40_000, 7)]
    assert sizes == sorted(sizes)
    assert all(size <= items for items, size in zip(range(1, 40_000, 7), sizes, strict=True))


def test_the_command_leads_from_vectors_to_a_search(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS[:300])
    (tmp_path / "v.txt").write_text("\n".join(f"item {row}" for row in range(300)))
    np.save(tmp_path / "q.npy", VECTORS[17])
    run = CliRunner()
    source, model, index = (str(tmp_path / name) for name in ("v.npy", "model", "index"))
    fitting = run.invoke(
        app, ["fit", source, "--encoder", "precomputed", "-o", model], catch_exceptions=False
    )
    assert "a model fitted to 300 items" in fitting.stdout
    assert "codes alone keep: text" in fitting.stdout and f"next: genius index {source}" in fitting.stdout
    run.invoke(app, ["index", source, "-m", model, "-o", index], catch_exceptions=False)
    query = str(tmp_path / "q.npy")
    searching = run.invoke(app, ["search", index, "--vector", query, "-k", "1"], catch_exceptions=False)
    assert "item 17" in searching.stdout
