"""Models of sentence-transformers, compared with the library's own `encode` on a tiny CLIP in a folder."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.data.records import ImageBytes, Item, Query
from genius.encode.encoder import PairEncoder, QueryEncoder
from genius.encode.sentence_transformers import SentencePairEncoder, open_model
from genius.errors import InputError, MissingError
from genius.index.index import Index
from genius.model import Model
from tests.encode.small_clip import IMAGES, noise, write_clip
from tests.pictures import encoded

library = pytest.importorskip("sentence_transformers")
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")

TEXTS = ["a dog on the beach", "old red house", "cat", "the green dog"]
PROMPTS = {"query": "the old ", "document": "a red "}
BOTH = {"method": "forward", "method_output_name": "image_embeds"}


def close(rows: Any, expected: Any) -> None:
    np.testing.assert_allclose(rows, np.asarray(expected), rtol=0, atol=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random CLIP as sentence-transformers saves it, with prompts."""
    clip = tmp_path_factory.mktemp("clip")
    write_clip(clip)
    out = clip.parent / "sentence-clip"
    library.SentenceTransformer(str(clip), device="cpu", prompts=PROMPTS).save_pretrained(str(out))
    return out


@pytest.fixture(scope="module")
def pair_folder(folder: Path) -> Path:
    """The same, and image and text together in one call."""
    out = folder.parent / "sentence-pairs"
    shutil.copytree(folder, out)
    path = out / "sentence_bert_config.json"
    config = json.loads(path.read_text())
    config["modality_config"]["image+text"] = BOTH
    path.write_text(json.dumps(config))
    return out


@pytest.fixture(scope="module")
def own(folder: Path) -> Any:
    return library.SentenceTransformer(str(folder), device="cpu")


def test_items_are_documents(folder: Path, own: Any) -> None:
    encoder = open_model(folder)
    close(encoder.encode_texts(TEXTS), own.encode_document(TEXTS))
    close(encoder.encode_texts(TEXTS), own.encode([f"a red {text}" for text in TEXTS]))
    close(encoder.encode_images(IMAGES), own.encode(IMAGES))
    assert encoder.text_width == encoder.image_width == 32
    assert isinstance(encoder, QueryEncoder) and not isinstance(encoder, PairEncoder)


def test_queries_have_their_prompt_and_an_instruction_takes_its_place(folder: Path, own: Any) -> None:
    encoder = open_model(folder)
    nothing: list[Any] = [None] * len(TEXTS)
    close(encoder.encode_queries(nothing, TEXTS, [""] * len(TEXTS)), own.encode_query(TEXTS))
    said = ["", "cat on", "", "cat on"]
    expected = own.encode(
        [f"{instruction or 'the old'} {text}" for text, instruction in zip(TEXTS, said, strict=True)]
    )
    close(encoder.encode_queries(nothing, TEXTS, said), expected)
    close(encoder.encode_queries(IMAGES, [""] * 5, [""] * 5), own.encode_query(IMAGES))


def test_an_instruct_prompt_keeps_its_form(folder: Path) -> None:
    encoder = open_model(folder)
    encoder._model.prompts["query"] = "Instruct: Given a search query, find it\nQuery: "
    assert encoder._prompt("Find a dog.") == "Instruct: Find a dog.\nQuery: "
    assert encoder._prompt("") is None


def test_image_and_text_in_one_call(pair_folder: Path) -> None:
    encoder = open_model(pair_folder)
    assert isinstance(encoder, SentencePairEncoder)
    own = library.SentenceTransformer(str(pair_folder), device="cpu")
    inputs = [{"image": image, "text": text} for image, text in zip(IMAGES, TEXTS, strict=False)]
    close(encoder.encode_pairs(IMAGES[:4], TEXTS), own.encode_document(inputs))
    mixed = encoder.encode_queries([IMAGES[0], None, IMAGES[1]], [TEXTS[0], TEXTS[1], ""], [""] * 3)
    close(mixed[0], own.encode_query([inputs[0]])[0])
    close(mixed[1], own.encode_query([TEXTS[1]])[0])
    close(mixed[2], own.encode_query([IMAGES[1]])[0])


def test_opening_a_model_prints_nothing(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    open_model(folder)
    assert capfd.readouterr() == ("", "")


def test_which_texts_are_cut(folder: Path) -> None:
    assert open_model(folder).too_long(["cat", "dog " * 30, ""]) == [False, True, False]


def test_a_model_that_brings_code_is_refused_before_it_is_loaded(folder: Path, tmp_path: Path) -> None:
    for name, change in (
        ("modules.json", [{"idx": 0, "name": "0", "path": "", "type": "mine.Module"}]),
        ("config.json", {"model_type": "mine", "auto_map": {"AutoModel": "mine.Model"}}),
    ):
        model = tmp_path / name.partition(".")[0]
        shutil.copytree(folder, model)
        (model / name).write_text(json.dumps(change))
        (model / "mine.py").write_text("raise SystemExit('this must never run')")
        with pytest.raises(InputError, match=r"wants to run Python code .+ say --trust-remote-code"):
            open_model(model)


def test_what_is_no_model_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "modules.json").write_text("[]")
    with pytest.raises(InputError, match="is no model of sentence-transformers"):
        open_model(tmp_path)
    (tmp_path / "modules.json").write_text("{")
    with pytest.raises(InputError, match=r"modules\.json is damaged"):
        open_model(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)  # what the variable sets on import
    with pytest.raises(MissingError, match="download it and give its folder"):
        open_model("nobody/nothing-of-this-name")


def test_a_fingerprint_changes_with_prompts(folder: Path, tmp_path: Path) -> None:
    model = tmp_path / "other"
    shutil.copytree(folder, model)
    assert open_model(model).fingerprint == open_model(folder).fingerprint
    path = model / "config_sentence_transformers.json"
    path.write_text(path.read_text().replace("the old", "the new"))
    assert open_model(model).fingerprint != open_model(folder).fingerprint


@pytest.mark.parametrize("pairs", [False, True], ids=["parts", "pairs in one call"])
def test_a_fitted_model_searches_as_exact_search_would(
    folder: Path, pair_folder: Path, tmp_path: Path, pairs: bool
) -> None:
    """Items with image and text, by the library's own vectors, brute force; prompts differ by role."""
    model_folder = pair_folder if pairs else folder
    images = [noise(20, 20, seed) for seed in range(12)]
    items = [
        Item(str(n), TEXTS[n % 4] + " cat" * (n // 4), ImageBytes(encoded(image)))
        for n, image in enumerate(images)
    ]
    model = Model.fit(items, encoder=model_folder, out=tmp_path / "model", cache=tmp_path / "cache")
    own = library.SentenceTransformer(str(model_folder), device="cpu")

    def unit(rows: Any) -> np.ndarray:
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    texts = [str(item.text) for item in items]
    queries = [*TEXTS, "red cat"]
    query_rows = unit(own.encode_query(queries))
    if pairs:
        inputs = [{"image": image, "text": text} for image, text in zip(images, texts, strict=True)]
        wanted = query_rows @ unit(own.encode_document(inputs)).T  # one kind of item: nothing is centred
    else:
        image_rows, text_rows = unit(own.encode_document(images)), unit(own.encode_document(texts))
        centres = image_rows.mean(0), text_rows.mean(0)
        both = unit(unit(image_rows - centres[0]) + unit(text_rows - centres[1]))
        wanted = unit(query_rows - centres[1]) @ both.T
    with Index.create(tmp_path / "index", model) as index:
        index.add(items, cache=tmp_path / "cache")
        for query, scores in zip(queries, wanted, strict=True):
            hits = index.search(Query(text=query), k=3)
            np.testing.assert_allclose([hit.cosine for hit in hits], np.sort(scores)[::-1][:3], atol=5e-3)
