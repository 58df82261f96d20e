"""The script that trains the demo with several seeds: what it changes in the recipe, and its table."""

from __future__ import annotations

from genius.train.recipe import read_recipe
from tests.benchmarks.scripts import load


def test_changes_of_the_recipe_are_named_by_dotted_keys() -> None:
    changes = load("demo_seeds").changes_of(
        ["quantizer.loop.steps=600", "quantizer.refit=3.0", "encoder.batch=128"]
    )
    assert changes == {"quantizer": {"loop": {"steps": 600}, "refit": 3.0}, "encoder": {"batch": 128}}
    recipe = read_recipe("demo", changes)
    assert recipe.quantizer is not None
    assert (recipe.quantizer.loop.steps, recipe.quantizer.refit) == (600, 3.0)
    assert recipe.quantizer.codebooks == read_recipe("demo").quantizer.codebooks  # type: ignore[union-attr]


def test_the_table_has_shares_of_dense_search_and_the_least_of_them() -> None:
    rows = [
        {"dense-fair": 0.5, "codes": 0.45, "default": 0.40, "default+rerank": 0.55},
        {"dense-fair": 0.4, "codes": 0.40, "default": 0.38, "default+rerank": 0.40},
    ]
    lines = load("demo_seeds").seeds_table([3, 4], rows).markdown().splitlines()
    assert lines[2] == "| 3 | 50.0 | 45.0 | 40.0 | 55.0 | 0.900 | 0.800 | 1.100 |"
    assert [cell.strip() for cell in lines[-2].split("|")][-4:-1] == ["0.900", "0.800", "1.000"]
    assert [cell.strip() for cell in lines[-1].split("|")][-4:-1] == ["0.950", "0.875", "1.050"]
