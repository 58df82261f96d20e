"""Views of a tree: some of its data sets, and nothing of the others."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from genius.data.mbeir import SPLITS, UNION, Tree
from genius.data.tasks import Task
from genius.errors import InputError


def _first(ids: set[str]) -> set[str]:
    return {id.partition(":")[0] for id in ids}


def test_a_view_shows_its_data_sets_alone(miniature: Path) -> None:
    whole, view = Tree(miniature), Tree(miniature).only("oven")
    assert view.datasets == ("oven",)
    for split in SPLITS:
        assert view.tasks(split) == [task for task in whole.tasks(split) if task.dataset == "oven"]
        asked = [query for query in whole.queries(split) if query.dataset == "oven"]
        assert [q.id for q in view.queries(split)] == [q.id for q in asked]
        assert [q.instruction for q in view.queries(split)] == [q.instruction for q in asked]
    local = {item.id for name in view.pools if name != UNION for item in view.pool(name)}
    assert view.pools == ["oven_task6", "oven_task7", "oven_task8", UNION]
    assert {item.id for item in view.pool(UNION, "val")} == {item.id for item in view} == local
    assert {item.id for item in view.items("train")} == local
    assert _first(local) == {"5"}
    view.check("test")  # one positive is a twin's, which the whole tree has
    with pytest.raises(InputError, match="has no pool 'webqa_task1'"):
        view.pool("webqa_task1")
    with pytest.raises(InputError, match="has no test queries for webqa_task1"):
        list(view.queries("test", Task("webqa", 1)))


def test_the_upsampled_mix_of_a_view_is_what_of_it_is_its_own(miniature: Path) -> None:
    whole, view = Tree(miniature), Tree(miniature).without("oven")
    mine = {query.id for query in view.queries("train")}
    expected = [q.id for q in whole.queries("train", upsampled=True) if q.id in mine]
    assert [q.id for q in view.queries("train", upsampled=True)] == expected
    assert 0 < len(expected) < len(list(whole.queries("train", upsampled=True)))


def test_a_view_and_the_view_without_it_make_the_whole(miniature: Path) -> None:
    whole = Tree(miniature)
    some, rest = whole.only("webqa", "mscoco"), whole.without("webqa", "mscoco")
    assert rest.datasets == ("oven",)
    assert {item.id for item in some} | {item.id for item in rest} == {item.id for item in whole}
    assert not {item.id for item in some} & {item.id for item in rest}
    assert some.only().datasets == ()
    assert some.without("oven").datasets == some.datasets  # a view of a view is one of the whole


def test_unknown_names_are_said(miniature: Path) -> None:
    with pytest.raises(InputError, match="has no data set 'ovn'; there are: mscoco, oven, webqa"):
        Tree(miniature).only("ovn")
    with pytest.raises(InputError, match="has no data set 'ovn'"):
        Tree(miniature).without("ovn")
    with pytest.raises(InputError, match="has no data set besides mscoco, oven, webqa"):
        Tree(miniature).without("mscoco", "oven", "webqa")


def test_a_recipe_says_what_it_is_trained_on(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from genius.train.plan import plan, work_folder
    from genius.train.recipe import description, read_recipe

    (tmp_path / "r.toml").write_text('name = "r"\nwithout = ["grocery"]\n')
    recipe = read_recipe(tmp_path / "r.toml")
    assert description(recipe)["without"] == ["grocery"]
    assert plan(recipe, tmp_path / "m")[0] == f"Recipe r, seed 0, without grocery, to {tmp_path / 'm'}:"
    whole = dataclasses.replace(recipe, without=())
    assert plan(whole, tmp_path / "m")[0] == f"Recipe r, seed 0, to {tmp_path / 'm'}:"
    assert not {"without", "datasets"} & set(description(whole))
    assert work_folder(tmp_path, recipe, "encoder") != work_folder(tmp_path, whole, "encoder")
    with pytest.raises(InputError, match="not both"):
        dataclasses.replace(recipe, datasets=("fashion",))
