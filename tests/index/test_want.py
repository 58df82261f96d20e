"""What `want` and `only` find, against scoring every item by a query whose modality does not count."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from genius import Hits, Index, Item, Model, Query
from genius.data.instructions import generic
from genius.data.mbeir import Tree
from genius.data.records import MODALITIES, ImageFile, Modality
from genius.encode import pipeline
from genius.quantize.fusion_inputs import FusionInputs
from genius.search.engine import MODES, Mode
from tests.pictures import write_square

HAS = {"image": {"image", "pair"}, "text": {"text", "pair"}, "pair": {"pair"}}


@pytest.fixture(scope="module")
def model(coded_model: Path) -> Model:
    return Model.open(coded_model)


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


@pytest.fixture(scope="module", params=["coded_model", "learned_model"])
def index(
    request: pytest.FixtureRequest,
    miniature: Path,
    coded_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Index:
    """With modality codes that are given, and with learned ones: 39 images, 36 texts, 24 pairs."""
    index = Index.create(tmp_path_factory.mktemp("want") / "index", request.getfixturevalue(request.param))
    index.add(Tree(miniature), cache=coded_home / "cache")
    return index


def content_scores(index: Index, query: Query, modality: Modality) -> dict[str, float]:
    """The score of every item of a modality: contents compared, and codes as if the query asked for it.

    The last three numbers of an embedding are its modality: of equal length in all queries, and in all items.
    """
    model, number = index.model, MODALITIES.index(modality)
    inputs = model.fusion_inputs([query])[:]
    for name in ("embeddings", "image", "text"):
        inputs[name][:, -3:] = np.eye(3)[number] * np.linalg.norm(inputs[name][:, -3:])
    aimed = FusionInputs.from_parts(
        inputs["embeddings"],
        (inputs["image"], inputs["has_image"]),
        (inputs["text"], inputs["has_text"]),
    )
    vector, embedding = model.query_vectors(aimed)[0], inputs["embeddings"][0]
    items = [item for item in index if item.modality == modality]
    codes = np.array([index.code(item.id) for item in items])
    quantized = model.quantizer.reconstruct(codes)
    code_scores = quantized @ vector - (quantized * quantized).sum(1) / 2
    contents = model.embed_items(items)[:, :-3] @ embedding[:-3]
    of_modality = np.linalg.norm(embedding[-3:]) * np.linalg.norm(model.embed_items(items)[:, -3:], axis=1)
    weight = model.rerank_weights(aimed.kinds)[0]
    scores = weight * (contents + of_modality) + (1 - weight) * code_scores
    return dict(zip([item.id for item in items], scores.tolist(), strict=True))


@pytest.mark.parametrize("want", ["image", "text"])
def test_what_is_wanted_alone_or_with_more_in_one_ranking_by_content(index: Index, want: str) -> None:
    query = Query(text="the red one", instruction=generic(Modality.TEXT, Modality(want)))
    expected = {
        id: score
        for modality in HAS[want]
        for id, score in content_scores(index, query, Modality(modality)).items()
    }
    hits = index.search("the red one", want=want, k=99)
    assert {hit.item.id for hit in hits} == set(expected)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)
    assert {hit.item.id: hit.score for hit in hits} == pytest.approx(expected, abs=3e-3)
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert hits.num_candidates == len(hits)
    for part in (hits.plain, hits.reranked):
        assert len(part) == len(hits)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("want", ["image", "text", "pair"])
def test_k_of_what_is_wanted_in_every_mode(index: Index, want: str, mode: Mode) -> None:
    pool = {item.id for item in index if item.modality in HAS[want]}
    for k in (1, 7, 99):
        instruction = generic(Modality.TEXT, Modality(want))
        for hits in (
            index.search("a red square", k=k, beam=3, mode=mode, want=want),
            index.search("a red square", k=k, beam=3, mode=mode, instruction=instruction),
            index.search(Query(text="a red square", want=Modality(want)), k=k, beam=3, mode=mode),
        ):
            ids = [hit.item.id for hit in hits]
            assert len(ids) == len(set(ids)) == min(k, len(pool))
            assert set(ids) <= pool


def test_only_is_strict(index: Index) -> None:
    for only in ("image", "text", "pair"):
        hits = index.search("a red square", only=only, k=99)
        assert {hit.item.id for hit in hits} == {item.id for item in index if item.modality == only}
    several = index.search("a red square", only=["image", "text"], k=99)
    assert {hit.item.modality.value for hit in several} == {"image", "text"}
    assert len(several) == 75


def test_several_wants_are_alternatives_and_all_of_them_are_no_want(index: Index) -> None:
    assert index.search("red", want=["image", "pair"], k=99) == index.search("red", want="image", k=99)
    assert index.search("red", want=["image", "text"], k=99) == index.search("red", k=99)
    assert index.search("red", want="image,text", k=99) == index.search("red", want="pair", k=99)


def test_more_like_an_item_of_any_wanted_modality(index: Index) -> None:
    """An item's own modality does not count: what is nearest by content comes first."""
    item = next(item for item in index if item.modality == "image")
    hits = index.search(near=item.id, want="image", k=99)
    assert {hit.item.id for hit in hits} == {
        one.id for one in index if one.modality in HAS["image"] and one.id != item.id
    }
    own = index.model.embed_items([item])[0]
    others = index.model.embed_items([hit.item for hit in hits])
    cosines = others[:, :-3] @ own[:-3] + np.linalg.norm(own[-3:]) * np.linalg.norm(others[:, -3:], axis=1)
    np.testing.assert_allclose([hit.cosine for hit in hits], cosines, atol=3e-3)


def test_a_photo_and_the_same_photo_with_a_caption_rank_near_one_another(
    model: Model, tmp_path: Path
) -> None:
    """Were the modality part of the score, all photos of one kind would come before all of the other."""
    colours = ["red", "blue", "green", "yellow", "black", "white", "orange", "purple"]
    items = []
    for colour in colours:
        file = write_square(tmp_path / f"{colour}.png", colour)
        image = ImageFile(str(file.parent), file.name)
        items += [Item(colour, None, image), Item(f"{colour} captioned", f"My {colour} square.", image)]
    with Index.create(tmp_path / "index", model) as made:
        made.add(items)
        queries: list[str | Query] = [f"a {colour} square" for colour in colours]
        queries += [Query(image=ImageFile(str(tmp_path), f"{colour}.png")) for colour in colours]
        rankings = [
            [hit.item.modality.value for hit in made.search(query, want="image", k=16)] for query in queries
        ]
    assert {len(kinds) for kinds in rankings} == {16}
    # What a tiny model finds differs from processor to processor: some queries may have one kind first.
    mixed = [kinds for kinds in rankings if kinds not in (sorted(kinds), sorted(kinds, reverse=True))]
    assert mixed


def notes(hits: Hits) -> str:
    (note,) = hits.notes
    return note


def test_a_note_says_when_want_or_only_leave_nothing(model: Model, tmp_path: Path) -> None:
    file = write_square(tmp_path / "red.png")
    image = ImageFile(str(file.parent), file.name)
    with Index.create(tmp_path / "index", model) as made:
        made.add([Item(f"{n}", f"Square {n}", image, {"n": n}) for n in range(3)])
        for hits in (made.search("red", only="image"), made.browse(only="image")):
            assert list(hits) == []
            assert notes(hits) == (
                "the index holds 3 with image and text, none with an image alone; "
                "want instead of only finds these too"
            )
        assert len(made.search("red", want="image")) == len(made.browse(want="image")) == 3
        made.remove(["0", "1", "2"])
        made.add([Item("t", "A text.", None, {"n": 7})])
        assert notes(made.search("red", want="image")) == (
            "the index holds 1 with a text alone, none with an image"
        )
        assert notes(made.search(near="t", want="image")) == notes(made.search("red", want="image"))
        filtered = made.search("red", want=["image", "pair"], filter={"n": 7})
        assert (
            notes(filtered) == "this filter leaves 1 with a text alone, none with an image or image and text"
        )
        prompted = made.search("red", instruction=generic(Modality.TEXT, Modality.IMAGE))
        assert notes(prompted) == "the index holds 1 with a text alone, none with an image"
