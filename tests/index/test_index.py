"""The index with a tiny model: what a user can search for, and what they are told."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from PIL import Image

import genius
from genius import Hit, ImageBytes, ImageFile, Index, Item, Model, Query
from genius.data.instructions import clean
from genius.data.mbeir import Tree
from genius.data.records import MODALITIES
from genius.encode import pipeline
from genius.encode.direct import image_features, text_features
from genius.errors import DamagedError, InputError, MismatchError, MissingError
from genius.index import ingest, item_encoder, writer
from genius.index.catalogue import Catalogue
from genius.index.entries import Entry
from genius.index.query_batch import TEXT_WAS_CUT
from tests.pictures import write_square


@pytest.fixture(scope="module")
def model(coded_model: Path) -> Model:
    return Model.open(coded_model)


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture(scope="module")
def index(model: Model, miniature: Path, coded_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Index:
    index = Index.create(tmp_path_factory.mktemp("index") / "index", model)
    report = index.add(Tree(miniature), cache=coded_home / "cache")
    assert (report.added, report.failures.count) == (99, 3)
    assert str(report.failures.first[0]).startswith("item '9:90': ")
    return index


def embedded(model: Model, items: list[Item]) -> np.ndarray:
    """Embeddings of items, from features in 16 bits as the cache keeps them."""
    image = image_features(model.encoder, [item.image for item in items])
    text = text_features(model.encoder, [clean(item.text) for item in items])
    modality = np.array([MODALITIES.index(item.modality) for item in items])
    return model.embed_item_features((_rounded(image[0]), image[1]), (_rounded(text[0]), text[1]), modality)


def blended(model: Model, query: Query, cosines: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """What items are re-ranked by, from their cosines and codes. How much either counts is chosen on
    validation, so it is not the same on all machines."""
    inputs, quantized = model.fusion_inputs([query]), model.quantizer.reconstruct(codes)
    vector, weight = model.query_vectors(inputs)[0], model.rerank_weights(inputs.kinds)[0]
    code_scores = quantized @ vector - (quantized * quantized).sum(1) / 2
    return np.asarray(weight * cosines + (1 - weight) * code_scores)


def _rounded(rows: np.ndarray) -> np.ndarray:
    return rows.astype(np.float16).astype(np.float32)


def ids_and_codes(hits: list[Hit]) -> list[tuple[str, tuple[int, ...]]]:
    return [(hit.item.id, hit.code) for hit in hits]


def test_a_hit_says_how_it_was_found(index: Index, model: Model) -> None:
    hits = index.search("the red one", only="image", k=5)
    query = Query(text="the red one", instruction="Find a picture that matches this text.")
    assert [hit.rank for hit in hits] == [1, 2, 3, 4, 5]
    scores = blended(
        model, query, np.array([hit.cosine for hit in hits]), np.array([hit.code for hit in hits])
    )
    np.testing.assert_allclose([hit.score for hit in hits], scores, atol=2e-3)
    for hit in hits:
        assert hit.item.modality == "image"
        assert len(hit.code) == len(hit.log_probabilities) == len(hit.prefix_counts) == 4
        assert hit.log_probabilities[0] == 0
        assert all(log_prob < 0 for log_prob in hit.log_probabilities[1:])
        assert list(hit.prefix_counts) == sorted(hit.prefix_counts, reverse=True)
        assert hit.prefix_counts[0] == 39
        embedding = embedded(model, [hit.item])[0]
        assert hit.cosine == pytest.approx(float(model.embed_queries([query])[0] @ embedding), abs=2e-3)
    assert hits.notes == ()


def test_both_rankings_come_from_one_search(index: Index) -> None:
    hits = index.search("the red one", k=7, mode="paper")
    assert hits == hits.plain
    assert [hit.score for hit in hits] == pytest.approx([hit.log_probability for hit in hits], abs=1e-5)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    again = index.search("the red one", k=7, mode="paper", rerank=True)
    assert again == again.reranked == hits.reranked
    assert again.plain == hits.plain


def test_the_plain_ranking_by_geometry_is_by_code_score(index: Index, model: Model) -> None:
    plain = index.search("the red one", k=7, rerank=False)
    assert plain == plain.plain and plain.mode != "paper"
    assert plain == index.search("the red one", k=7).plain
    vector = model.query_vectors(model.fusion_inputs([Query(text="the red one")]))[0]
    codes = np.array([index.code(item.id) for item in index])
    sq_distances = ((vector - model.quantizer.reconstruct(codes)) ** 2).sum(axis=1)
    nearest = np.sort(sq_distances)[:7]
    np.testing.assert_allclose([hit.score for hit in plain], (vector @ vector - nearest) / 2, atol=1e-4)


@pytest.mark.parametrize("want", [None, "image"])
def test_each_mode_has_the_candidates_of_the_one_before_and_says_the_path(
    index: Index, want: str | None
) -> None:
    existing = 99 if want is None else 39 + 24
    candidates = 0
    for mode in ("paper", "exact", "safe", "fast", "scan"):
        hits = index.search("the red one", want=want, k=3, beam=4, mode=mode, decoder="geometry")
        assert (hits.mode, hits.decoder) == (mode, "geometry")
        assert hits.num_candidates >= candidates
        candidates = hits.num_candidates
        for hit in hits:
            assert len(hit.log_probabilities) == len(hit.prefix_counts) == 4
            assert all(log_prob < 0 for log_prob in hit.log_probabilities[want is not None :])
        copy = pickle.loads(pickle.dumps(hits[0]))
        assert (type(copy), copy.log_probabilities) == (Hit, hits[0].log_probabilities)
    assert candidates == existing
    paths = {
        hit.item.id: hit.log_probabilities
        for hit in index.search("the red one", want=want, k=existing, beam=99, mode="paper")
    }
    for hit in index.search("the red one", want=want, mode="scan"):
        assert hit.log_probabilities == pytest.approx(paths[hit.item.id], abs=1e-4)
    small = index.search("the red one", want=want)
    assert (small.mode, small.decoder, small.num_candidates) == ("scan", "geometry", existing)


def test_wide_beams_are_exact_search(index: Index, model: Model) -> None:
    items = [item for item in index if item.modality == "text"]
    query = Query(text="a blue square", instruction="Find a text that matches this text.")
    cosines = embedded(model, items) @ model.embed_queries([query])[0]
    scores = blended(model, query, cosines, np.array([index.code(item.id) for item in items]))
    hits = index.search(query, only="text", k=36, beam=1000)
    assert {hit.item.id for hit in hits} == {item.id for item in items}
    np.testing.assert_allclose([hit.score for hit in hits], np.sort(scores)[::-1], atol=2e-3)


@pytest.mark.parametrize("only", [None, "image", "text", "pair"])
@pytest.mark.parametrize(("k", "beam"), [(1, 1), (10, 1), (50, 3), (1000, 50)])
def test_k_items_of_what_is_wanted(index: Index, only: str | None, k: int, beam: int) -> None:
    pool = {item.id for item in index if only is None or item.modality == only}
    for query in ("a red square", Query(image=next(item.image for item in index if item.image))):
        for rerank in (True, False):
            ids = [hit.item.id for hit in index.search(query, only=only, k=k, beam=beam, rerank=rerank)]
            assert len(ids) == len(set(ids)) == min(k, len(pool))
            assert set(ids) <= pool


def test_an_instruction_decides_the_modality_too(index: Index) -> None:
    for instruction, modalities in (
        ("Find a picture that matches this text.", {"image", "pair"}),
        ("find a text that matches this text", {"text", "pair"}),
        ("Prompt 2 of webqa 2.", {"pair"}),  # from the tree that was indexed
    ):
        hits = index.search("red", instruction=instruction, k=99)
        assert {hit.item.modality for hit in hits} == modalities
        other = index.search("red", instruction=instruction, only="text", k=20)
        assert {hit.item.modality for hit in other} == {"text"}
    assert len({hit.item.modality for hit in index.search("red", instruction="Surprise me.", k=99)}) == 3
    assert len({hit.item.modality for hit in index.search("red", instruction="", k=99)}) == 3


def test_images_may_be_given_in_any_way(index: Index, tmp_path: Path) -> None:
    file = write_square(tmp_path / "red.png")
    pixels = Image.open(file).convert("RGB")
    expected = ids_and_codes(index.search(image=file, k=4))
    for image in (
        str(file),
        file.read_bytes(),
        pixels,
        ImageBytes(file.read_bytes()),
        ImageFile(str(tmp_path), "red.png"),
    ):
        assert ids_and_codes(index.search(image=image, k=4)) == expected
    both = index.search(image=file, text="the same in blue", k=4)
    assert ids_and_codes(both) == ids_and_codes(index.search("the same in blue", image=file, k=4))


def test_results_do_not_depend_on_other_queries(index: Index, miniature: Path) -> None:
    queries = list(Tree(miniature).queries("test"))
    together = index.search_many(queries, k=5)
    for query, hits in zip(queries, together, strict=True):
        alone = index.search(query, k=5)
        assert [hit.score for hit in alone] == pytest.approx([hit.score for hit in hits], abs=1e-5)
        assert {hit.item.id for hit in alone} == {hit.item.id for hit in hits}
    assert index.search_many([]) == []


def test_items_of_a_batch_are_read_by_one_statement(index: Index, monkeypatch: pytest.MonkeyPatch) -> None:
    statements: list[int] = []
    entries = Catalogue.entries

    def counted(catalogue: Catalogue, item_keys: Iterable[int]) -> dict[int, Entry]:
        statements.append(len(keys := list(item_keys)))
        return entries(catalogue, keys)

    monkeypatch.setattr(Catalogue, "entries", counted)
    answers = index.search_many(["a red square", "a blue square", "green"], k=3)
    assert [len(hits) for hits in answers] == [3, 3, 3]
    assert len(statements) == 1


def test_reopened_it_answers_the_same(index: Index, model: Model) -> None:
    with Index.open(index.path) as reopened, Index.open(index.path, model.path) as with_model:
        for query in ("a red square", "the green one"):
            expected = index.search(query, k=30)
            assert reopened.search(query, k=30) == with_model.search(query, k=30) == expected
        assert len(reopened) == 99
        assert "9:1" in reopened
        assert "nobody" not in reopened


def test_blocks_make_no_difference(
    index: Index, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "CHUNK", 7)
    monkeypatch.setattr(writer, "FULL_BLOCK", 21)
    with Index.create(tmp_path / "blocks", model) as in_blocks:
        in_blocks.add(iter(list(index)))
        assert len(list((tmp_path / "blocks/segments").iterdir())) == 4  # of 21, 21, 42 and 15
        for query in ("a red square", "the green one"):
            first, second = index.search(query, k=99), in_blocks.search(query, k=99)
            assert {hit.item.id: hit.code for hit in first} == {hit.item.id: hit.code for hit in second}
            assert [hit.score for hit in first] == pytest.approx([hit.score for hit in second], abs=1e-3)


def test_what_others_add_is_found_at_once(model: Model, tmp_path: Path) -> None:
    reader = Index.create(tmp_path / "index", model)
    assert reader.search("red") == []
    assert reader.search("red").notes == ("the index is empty: add items first",)
    with Index.open(reader.path, model) as writer:
        writer.add([Item("a", "A red square.")])
        assert ids_and_codes(reader.search("red")) == ids_and_codes(writer.search("red")) != []
        writer.add([Item("a", "A blue square."), Item("b", "A red square.")])
    assert {hit.item.text for hit in reader.search("red")} == {"A blue square.", "A red square."}
    assert len(reader) == 2


def test_images_given_as_bytes_are_kept_and_differ(model: Model, tmp_path: Path, miniature: Path) -> None:
    files = [miniature / f"mbeir_images/squares/{number}.jpg" for number in range(4)]
    with Index.create(tmp_path / "index", model) as made:
        made.add(Item(file.stem, None, ImageBytes(file.read_bytes())) for file in files)
        hits = made.search(image=files[2], instruction="", only="image", k=4)
        assert len({hit.item.image.read() for hit in hits if hit.item.image}) == 4
        direct = embedded(
            model, [Item(file.stem, None, ImageFile(str(file.parent), file.name)) for file in files]
        )
        query = Query(image=ImageFile(str(files[2].parent), files[2].name))
        cosines = direct @ model.embed_queries([query])[0]
        scores = blended(model, query, cosines, np.array([made.code(file.stem) for file in files]))
        expected = dict(zip([file.stem for file in files], scores.tolist(), strict=True))
        assert {hit.item.id: hit.score for hit in hits} == pytest.approx(expected, abs=2e-3)


def test_a_text_that_is_too_long_is_cut_with_a_note(index: Index) -> None:
    hits = index.search("red " * 500, k=2)
    assert hits.notes == (TEXT_WAS_CUT,)
    assert ids_and_codes(hits) == ids_and_codes(index.search("red " * 501, k=2))
    assert index.search("red", k=2).notes == ()


def test_what_was_not_understood_is_said(index: Index) -> None:
    assert index.search("собака на пляже", k=2).notes == (
        "nothing of this text was understood: the encoder reads English",
    )
    assert index.search("a 🐱 red square, 日本", k=2).notes == (
        "not understood: 🐱, 日本; the encoder reads English",
    )
    many = index.search("red " + " ".join("абвгдежз"), k=2).notes
    assert many == ("not understood: а, б, в, г, д, …; the encoder reads English",)
    assert index.search("a naive cafe in Zurich", k=2).notes == ()


def test_bad_input_is_refused(index: Index, tmp_path: Path) -> None:
    (tmp_path / "no.jpg").write_bytes(b"no picture")
    for wrong, message in (
        ({}, "an empty query"),
        ({"text": "  "}, "an empty query"),
        ({"query": Query(text='""')}, "an empty query"),
        ({"text": "half \ud800"}, "holds half a character"),
        ({"text": "a", "instruction": "\udfff"}, "holds half a character"),
        ({"text": "a", "k": 0}, "k must be a number from 1 to 10,000, not 0"),
        ({"text": "a", "beam": 0}, "beam must be a number from 1 to 2,048, not 0"),
        ({"text": "a", "mode": "slow"}, "unknown mode 'slow': expected one of paper"),
        ({"text": "a", "decoder": "best"}, "unknown decoder 'best': expected one of geometry, learned"),
        ({"text": "a", "precision": "fp8"}, "unknown precision 'fp8'"),
        ({"text": "a", "want": "video"}, "unknown modality 'video'"),
        ({"image": tmp_path / "no.jpg"}, "no.jpg is none of JPEG"),
        ({"image": b""}, "the file is empty"),
        ({"image": tmp_path / "gone.jpg"}, "there is no such image"),
        ({"query": "a", "text": "b"}, "there are two"),
        ({"query": Query(text="a"), "image": b""}, "give it alone"),
    ):
        with pytest.raises(InputError, match=message):
            index.search(**wrong)
    with pytest.raises(InputError, match="an empty query"):
        index.search_many(["a", ""])
    with pytest.raises(MissingError, match="has no decoder yet"):
        index.search("a", decoder="learned")


def test_another_model_is_refused(index: Index, learned_model: Path) -> None:
    with pytest.raises(MismatchError, match="was made by the model"):
        Index.open(index.path, learned_model)


def test_what_is_wanted_is_found_where_modality_codes_are_learned(
    index: Index, learned_model: Path, tmp_path: Path
) -> None:
    with Index.create(tmp_path / "learned", learned_model) as made:
        made.add(list(index))
        for want, count in (("image", 39), ("text", 36), ("pair", 24)):
            hits = made.search("red", only=want, k=50, beam=2)
            assert len(hits) == count
            assert {hit.item.modality for hit in hits} == {want}


def test_a_model_that_is_gone_is_an_error_that_says_so(model: Model, tmp_path: Path) -> None:
    moved = shutil.copytree(model.path, tmp_path / "model")
    Index.create(tmp_path / "index", moved).close()
    moved.rename(tmp_path / "elsewhere")
    with pytest.raises(MissingError, match="which is gone: say where it is now"):
        Index.open(tmp_path / "index")
    Index.open(tmp_path / "index", tmp_path / "elsewhere").close()
    with pytest.raises(InputError, match="there is nothing here"):
        Index.open(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is no index"):
        Index.open(model.path)


def test_a_damaged_segment_is_refused_on_open(index: Index, model: Model, tmp_path: Path) -> None:
    copy = shutil.copytree(index.path, tmp_path / "copy")
    file = copy / "segments/00000001/embeddings.npy"
    whole = file.read_bytes()
    for wrong in (whole[:-1], whole[:-1] + b"X"):
        file.write_bytes(wrong)
        with pytest.raises(DamagedError, match=r"embeddings\.npy is damaged"):
            Index.open(copy, model)


def test_searching_needs_no_torch(index: Index) -> None:
    code = (
        "import sys, genius\n"
        f"hits = genius.Index.open({str(index.path)!r}).search('a red square', k=3)\n"
        "assert len(hits) == 3\n"
        "assert not {'torch', 'transformers', 'onnx', 'faiss'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_five_lines_of_the_readme(model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_square(tmp_path / "photos/a.jpg")
    (tmp_path / "photos/a.txt").write_text("A red square.")
    made = genius.Index.create("index/", genius.Model.open(model.path))
    made.add(genius.read("photos/"))
    assert [hit.item.id for hit in made.search("a red square", want="pair", k=5)] == ["a.jpg"]
    monkeypatch.chdir("/")
    item = made.search(image=tmp_path / "photos/a.jpg", text="the same")[0].item
    assert item.image is not None
    assert item.image.read() == (tmp_path / "photos/a.jpg").read_bytes()


def test_few_items_are_coded_like_many_without_the_cache(
    index: Index, model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = list(index)[:30]
    with Index.create(tmp_path / "few", model) as few, Index.create(tmp_path / "many", model) as many:
        few.add(items, cache=tmp_path / "unused")
        assert not (tmp_path / "unused").exists()
        monkeypatch.setattr(item_encoder, "FEW", 0)
        many.add(items)
        for query in ("a red square", "the green one"):
            hits, expected = few.search(query, k=30), many.search(query, k=30)
            assert {hit.item.id: hit.code for hit in hits} == {hit.item.id: hit.code for hit in expected}
            assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in expected], abs=1e-3)


def test_items_that_can_not_be_read_are_left_out_also_among_few(model: Model, tmp_path: Path) -> None:
    write_square(tmp_path / "a.png")
    (tmp_path / "b.png").write_bytes(b"no picture")
    with Index.create(tmp_path / "index", model) as made:
        report = made.add(
            [
                Item("a", None, ImageFile(str(tmp_path), "a.png")),
                Item("b", "text", ImageFile(str(tmp_path), "b.png")),
                Item("c", "  "),
                Item("d", "A red square."),
            ]
        )
        assert (report.added, report.failures.count) == (2, 2)
        assert {item.id for item in made} == {"a", "d"}
        made.update([{"id": "d", "image": tmp_path / "a.png"}])
        assert [hit.item.id for hit in made.search("red", want="pair")] == ["d"]
        assert [hit.item.id for hit in made.search(near="d", want="image")] == ["a"]
