"""Training on a view of a tree."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from genius.errors import InputError


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
