"""What is refused says why at once, and what to do instead."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from genius import Index, Item
from genius.cli import app
from genius.demo.corpus import demo_tree
from genius.errors import GeniusError, InputError, MissingError
from tests.commands import run


def test_without_a_query_items_are_browsed(coded_model: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", coded_model) as index:
        index.add([Item("a", "red"), Item("b", "blue")])
    printed = run("search", tmp_path / "index").output
    assert [line.split("\t")[3] for line in printed.splitlines()] == ["a", "b"]
    for query in ((), ("red",)):
        beyond = run("search", tmp_path / "index", *query, "--offset", 7)
        assert beyond.stdout == ""
        assert "no hits beyond the first 7" in beyond.stderr


def test_lines_for_other_programs_have_what_they_are_sorted_by(coded_model: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", coded_model) as index:
        index.add([Item("a", "red", metadata={"price": 3}), Item("b", "blue", metadata={"price": 2})])
    printed = run("search", tmp_path / "index", "--sort", "price").output
    assert [line.split("\t")[3::2] for line in printed.splitlines()] == [["b", "2"], ["a", "3"]]


def test_a_collection_without_anything_to_index_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"no image")
    shown = run("show", tmp_path, code=1)
    assert "0 items (nothing to index)" in shown.output


def test_the_model_that_ships_is_shown_by_its_name(shipped: Path) -> None:
    shown = run("show", "photo").output
    assert f"{shipped}:model" in "".join(shown.split())  # a long path is folded


def test_vectors_of_one_s_own_need_the_encoder_that_takes_them(tmp_path: Path) -> None:
    np.savez(tmp_path / "own.npz", vectors=np.eye(3), id=["a", "b", "c"])
    table = tmp_path / "items.csv"
    table.write_text("id,text\na,red\nb,blue\nc,green\n")
    for arguments in ((table, "--vectors", tmp_path / "own.npz"), (tmp_path / "own.npz",)):
        with pytest.raises(InputError, match="own are for --encoder precomputed"):
            run("fit", *arguments, "-o", tmp_path / "model")


def test_vectors_are_refused_before_an_index_is_made_for_a_model_that_takes_none(
    coded_model: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "own.npz", vectors=np.eye(2), id=["a", "b"])
    table, made = tmp_path / "items.csv", tmp_path / "index"
    table.write_text("id,text\na,red\nb,blue\n")
    vectors = ("--vectors", tmp_path / "own.npz")
    with pytest.raises(InputError, match="these are vectors"):
        run("index", table, "-m", coded_model, "-o", made, *vectors)
    assert not made.exists()
    run("index", table, "-m", coded_model, "-o", made)
    with pytest.raises(InputError, match="these are vectors"):
        run("add", made, table, *vectors)


def test_offline_the_hub_is_left_alone(tmp_path: Path) -> None:
    table = tmp_path / "items.csv"
    table.write_text("id,text\na,red\nb,blue\n")
    with pytest.raises(InputError, match="nothing may be fetched: give its folder"):
        run("fit", table, "--encoder", "clip:some/name", "--offline", "-o", tmp_path / "model")


def test_offline_the_demo_fetches_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENIUS_OFFLINE", "1")
    with pytest.raises(MissingError, match=r"copy the folder .*emoji"):
        demo_tree(tmp_path, fetch=lambda *_: pytest.fail("fetched"))


class TestTraining:
    """`genius train` looks at everything that it was given before it begins."""

    @pytest.fixture(autouse=True)
    def needs_torch(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pytest.importorskip("torch")
        monkeypatch.chdir(tmp_path)

    def test_a_folder_that_has_the_name_of_a_recipe_is_none(self, tmp_path: Path) -> None:
        from genius.train.recipe import read_recipe

        (tmp_path / "demo").mkdir()
        assert read_recipe("demo").name == "demo"
        with pytest.raises(InputError, match="is a folder: a recipe is a TOML file"):
            read_recipe(tmp_path / "demo")

    def test_an_unknown_recipe_names_those_that_ship(self) -> None:
        from genius.train.recipe import read_recipe

        with pytest.raises(InputError, match=r"give a TOML file, or one that ships: .*demo.*photo"):
            read_recipe("nope")

    def test_what_is_in_the_way_is_seen_before_training(self, tmp_path: Path) -> None:
        (tmp_path / "taken").mkdir()
        (tmp_path / "taken" / "thesis.doc").write_text("do not lose")
        (tmp_path / "pairs.csv").write_text("query,item\nred,a red square\n")
        with pytest.raises(InputError, match="choose another place for the model"):
            run("train", "--pairs", "pairs.csv", "-o", "taken")
        with pytest.raises(InputError, match="there is no such folder"):
            run("train", "demo", "--tree", "nowhere", "-o", "model")
        with pytest.raises(InputError, match="say where to write the model"):
            run("train", "--pairs", "pairs.csv")

    def test_a_start_that_is_none_leaves_nothing_behind(self, tmp_path: Path) -> None:
        (tmp_path / "pairs.csv").write_text("query,item\nred,a red square\n")
        with pytest.raises(GeniusError, match="nope"):
            run("train", "--pairs", "pairs.csv", "--start", "nope", "-o", "model")
        assert [path.name for path in tmp_path.iterdir()] == ["pairs.csv"]

    @pytest.mark.parametrize(
        ("header", "offered"),
        [
            ("qury,itm_image", "is 'qury' meant to be 'query'"),
            ("query,itm_image", "is 'itm_image' meant to be 'item_image'"),
            ("colour,weight", "it has 'colour', 'weight'"),
        ],
    )
    def test_columns_that_are_no_pairs(self, tmp_path: Path, header: str, offered: str) -> None:
        from genius.data.pair_table import read_pairs

        (tmp_path / "pairs.csv").write_text(f"{header}\na,b\n")
        with pytest.raises(InputError, match=offered):
            list(read_pairs(tmp_path / "pairs.csv", lambda _: None))

    def test_a_table_of_a_header_alone(self, tmp_path: Path) -> None:
        from genius.data.pair_table import read_pairs

        (tmp_path / "pairs.csv").write_text("query,item\n")
        with pytest.raises(InputError, match="nor images with captions: it is empty"):
            list(read_pairs(tmp_path / "pairs.csv", lambda _: None))

    def test_why_no_pair_is_left_is_said(self, shipped: Path, tmp_path: Path) -> None:
        (tmp_path / "pairs.csv").write_text("query,item,split\nred,a red square,sometimes\n")
        printed = CliRunner().invoke(app, ["train", "--pairs", "pairs.csv", "-o", "model"])
        assert isinstance(printed.exception, InputError)
        assert "split 'sometimes' is none of train, val and test" in printed.output
        assert not (tmp_path / "model-training").exists()
