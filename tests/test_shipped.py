"""The model that ships with genius: small, without towers, and what everyone gets who names none."""

from __future__ import annotations

import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest

import genius
from genius import Index, Item, storage
from genius.data.records import Query
from genius.encode import lite, lite_weights
from genius.errors import InputError, MissingError
from genius.model import Model
from tests.encode.small_towers import write_small_towers
from tools.ship_model import with_int8_towers

ITEMS = [Item("1", "a red square"), Item("2", "a blue square"), Item("3", "green")]


def test_it_is_small_and_searches_like_the_one_it_was_made_from(
    shipped: Path, coded_model: Path, tmp_path: Path
) -> None:
    assert not (shipped / "towers").exists()
    small, whole = Model.open(), Model.open(coded_model)
    assert small.name == "photo"
    np.testing.assert_allclose(small.embed_items(ITEMS), whole.embed_items(ITEMS), atol=0.04)
    query = [Query("red", id="q", instruction="Find a text.")]
    np.testing.assert_allclose(small.embed_queries(query), whole.embed_queries(query), atol=0.04)
    with Index.create(tmp_path / "index") as index:
        index.add(ITEMS)
    with Index.open(tmp_path / "index") as index:  # it is found again by its name, wherever genius moves
        assert index.search("a red square", k=1)[0].item.id == "1"
        assert index.model.path == shipped


def test_a_folder_of_that_name_comes_first(
    shipped: Path, coded_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(coded_model, tmp_path / "photo")
    assert Model.open("photo").fingerprint == Model.open(coded_model).fingerprint


def test_a_folder_of_photos_that_has_its_name_is_no_model(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photo").mkdir()
    assert Model.open("photo").path == shipped
    with Index.create(tmp_path / "index") as index:
        index.add(ITEMS)
        assert index.model.path == shipped


def test_vectors_are_not_taken_for_texts(shipped: Path, tmp_path: Path) -> None:
    """A model that embeds texts itself can do nothing with a vector alone."""
    with (
        Index.create(tmp_path / "index") as index,
        pytest.raises(InputError, match="make one that takes them with genius fit --encoder precomputed"),
    ):
        index.add([Item("1", vector=[1.0, 2.0])])


def test_searching_never_fetches(shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Index.create(tmp_path / "index") as index:
        index.add(ITEMS)
    shutil.rmtree(lite.home())
    monkeypatch.setattr(lite_weights, "home", lambda: tmp_path / "weights")
    monkeypatch.setattr(lite_weights, "fetch", _refuse)
    with (
        Index.open(tmp_path / "index") as index,
        pytest.raises(MissingError, match="get it with genius fetch"),
    ):
        index.search("red")


@pytest.mark.parametrize("by_variable", [False, True])
def test_offline_nothing_is_fetched(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_variable: bool
) -> None:
    shutil.rmtree(lite.home())
    monkeypatch.setattr(lite_weights, "home", lambda: tmp_path / "weights")
    monkeypatch.setattr(lite_weights, "fetch", _refuse)
    if by_variable:
        monkeypatch.setenv("GENIUS_OFFLINE", "1")
    with pytest.raises(MissingError, match="nothing may be fetched: run genius fetch where"):
        Index.create(tmp_path / "index", offline=not by_variable)
    assert not (tmp_path / "index").exists()


def test_the_first_index_fetches_and_says_so(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "kept"
    shutil.move(lite.home(), kept)
    monkeypatch.setattr(lite_weights, "home", lambda: tmp_path / "weights")
    fetched: list[object] = []
    monkeypatch.setattr(lite_weights, "fetch", lambda: fetched.append("everything"))
    monkeypatch.setattr(lite, "build", lambda **_: shutil.move(kept, lite.home()))
    Index.create(tmp_path / "index").close()
    assert fetched == ["everything"]
    assert "Fetching the built-in encoder, once: 126 MB" in capsys.readouterr().err
    Index.create(tmp_path / "second").close()
    assert len(fetched) == 1


def _refuse(*_: object) -> None:
    raise AssertionError("nothing should be fetched")


def test_the_one_that_ships_leaves_the_wheel_small() -> None:
    """Below 12 MB with the code, which is half a megabyte, as zip compresses it."""
    files = (Path(genius.__file__).parent / "shipped" / "photo").iterdir()
    assert sum(len(zlib.compress(file.read_bytes())) for file in files) < 11.4e6


def test_an_index_of_before_is_searched_by_the_towers_that_it_was_made_with(
    shipped: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`photo` over towers in 8 bits is known as what it was over those in single precision."""
    with Index.create(tmp_path / "old") as index:
        index.add(ITEMS)
        fingerprint, scores = index.model.fingerprint, _scores(index)
    single = lite.home()
    towers = {"fp32": single, "int8": write_small_towers(tmp_path / "cache" / "lite-int8", "int8")}
    monkeypatch.setattr(lite, "home", lambda precision="fp32": towers[precision])
    small = tmp_path / "small"
    shutil.move(shipped, small)
    with_int8_towers(small, shipped)
    with Index.create(tmp_path / "new") as index:
        index.add(ITEMS)
        assert index.model.fingerprint != fingerprint
        assert index.model.encoder.fingerprint == storage.read_manifest(towers["int8"]).fingerprint
        assert _scores(index) != scores
        np.testing.assert_allclose(_scores(index), scores, atol=0.05)
    with Index.open(tmp_path / "old") as index:
        assert index.model.encoder.fingerprint == storage.read_manifest(single).fingerprint
        assert _scores(index) == scores
        index.add([Item("4", "the red square")])
    with Index.open(tmp_path / "old") as index:
        assert index.model.fingerprint == fingerprint
        assert len(index) == 4


def _scores(index: Index) -> list[float]:
    return [hit.score for hit in index.search("a red square", k=3)]
