from __future__ import annotations

import dataclasses
import tomllib
from pathlib import Path
from typing import Any

import pytest

from genius.errors import InputError
from genius.train.plan import plan
from genius.train.quantizer import QuantizerSettings
from genius.train.recipe import description, read_recipe, shipped_recipes
from tools.recipe_reference import recipe_page

ROOT = Path(__file__).parents[2]


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    return path


def test_a_recipe_is_its_settings(tmp_path: Path) -> None:
    text = """
        name = "mine"
        [encoder]
        temperature = 1
        [encoder.heads]
        image_parts = ["mean:3"]
        [encoder.loop]
        steps = 7
    """
    recipe = read_recipe(write(tmp_path, text))
    assert recipe.encoder is not None
    assert (recipe.name, recipe.seed, recipe.encoder.temperature) == ("mine", 0, 1.0)
    assert (recipe.encoder.heads.image_parts, recipe.encoder.loop.steps) == (("mean:3",), 7)
    assert description(recipe)["encoder"]["heads"]["image_parts"] == ["mean:3"]


def test_a_table_is_a_stage(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, 'name = "x"'))
    assert recipe.towers is None
    assert recipe.encoder is not None
    assert not any("towers" in line for line in plan(recipe, tmp_path / "model"))
    recipe = read_recipe(write(tmp_path, 'name = "x"\n[towers]\nsource = "a/b"\n[towers.loop]\nsteps = 9'))
    assert recipe.encoder is None
    assert recipe.towers is not None
    assert (recipe.towers.loop.steps, recipe.towers.loop.learning_rate) == (9, 1e-5)
    assert plan(recipe, tmp_path / "model")[1:] == [
        "  1. stage towers: 9 steps of 64 queries, validated every 250"
    ]


def test_a_decoder_has_its_own_defaults(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, 'name = "x"\n[quantizer]\n[decoder.loop]\nsteps = 9'))
    assert recipe.decoder is not None
    assert (recipe.decoder.loop.steps, recipe.decoder.loop.weight_decay) == (9, 1e-4)
    assert plan(recipe, tmp_path / "model")[-1].endswith(
        "stage decoder: 9 steps of 256 rows, validated every 250"
    )


BAD = {
    'nam = "x"': "unknown key nam: did you mean name?",
    'name = "x"\n[encoder]\nbatchsize = 3': "unknown key encoder.batchsize: did you mean batch?",
    'name = "x"\n[encoder.loop]\nlearning_rat = 0.1': "learning_rat: did you mean learning_rate?",
    'name = "x"\nzzz = 1': "unknown key zzz; known are name, seed, datasets, without, pools, held_out",
    "seed = 3": "lacks name",
    'name = "x"\nseed = "one"': "seed should be a whole number, but is 'one'",
    'name = "x"\nseed = true': "seed should be a whole number, but is True",
    'name = "x"\n[encoder]\ntowers = "bert"': "encoder.towers should be one of lite, clip, but is 'bert'",
    'name = "x"\nencoder = 3': "encoder should be a table, but is 3",
    'name = "x"\n[encoder.heads]\ntext_parts = "mean"': "text_parts should be a list, but is 'mean'",
    'name = "x"\nheld_out = 1': "held_out is a share of the answers, at least 0 and below 1, not 1.0",
    'name = "x"\nheld_out = 0.2\n[towers]\nsource = "a/b"': "nothing is held out of them: frozen = true",
    'name = "x"\n[encoder]\nbatch = 1': "in [encoder]: batch should be at least 2",
    "name = ": "is no TOML",
    'name = "x"\n[towers]\nbatch = 8': "lacks towers.source",
    'name = "x"\n[towers]\nsource = ""': "in [towers]: source should be the folder or the hub name of a CLIP",
    'name = "x"\n[towers]\nsource = "a/b"\nbatch = 1': "in [towers]: batch should be at least 2",
    'name = "x"\n[towers]\nsource = "a/b"\nfusion_kind = "sum"': "fusion_kind should be one of score, tokens",
    'name = "x"\n[towers]\nsource = "a/b"\nfusion_learning_rate = 0': "learning rates should be above 0",
    'name = "x"\n[towers]\nsource = "a/b"\nvalidated_items = 0': "validated_items should be at least 1",
    'name = "x"\n[towers]\nsource = "a/b"\n[towers.fusion]\nheads = 0': "in [towers.fusion]: layers, heads",
    'name = "x"\n[towers]\nsource = "a/b"\n[towers.fusion]\nheads = 2': 'what fusion_kind = "tokens" trains',
    'name = "x"\n[towers]\nsource = "a/b"\n[encoder]\nbatch = 8': "heads stand on the fine-tuned towers",
    'name = "x"\n[towers]\nsource = "a/b"\nfusion_kind = "tokens"\n[encoder]': "no features for heads",
    'name = "x"\n[decoder]\nbatch = 8': "a decoder learns the codes of a quantizer: add a table [quantizer]",
    'name = "x"\nidentifiers = "numerc"': "but is 'numerc': did you mean 'numeric'?",
    'name = "x"\nidentifiers = "zzz"': "should be one of codes, numeric, string, semantic, structured, irgen",
    'name = "x"\nidentifiers = "dsi"\n[quantizer]': "dsi identifiers take the place of codes",
    'name = "x"\nidentifiers = "irgen"\n[decoder]': "say start_from_codebooks = false in [decoder.network]",
    'name = "x"\nidentifiers = "dsi"\n[decoder.network]\nstart_from_codebooks = false\n'
    "[decoder.geometric_fusion]\nweight = 10": "no code vectors that geometry could score",
    'name = "x"\n[quantizer]\n[decoder]\nmix = "cubic"': "decoder.mix should be one of linear, sqrt, off",
    'name = "x"\n[decoder.geometric_fusion]\nweight = 10': "add a table [quantizer]",
    'name = "x"\n[quantizer]\n[decoder.geometric_fusion]\nweight = -1': "fusion should be at least 0",
    'name = "x"\n[quantizer.distillation]\ntop = 1': "a ranking needs at least 2 items",
    'name = "x"\n[quantizer.codebooks]\nlevels = 17\nsize = 65536': "codes of 272 bits can't be searched",
    'name = "x"\n[quantizer]\n[decoder.network]\nlayers = 0': "in [decoder.network]: layers, width, heads",
}


@pytest.mark.parametrize(("text", "message"), BAD.items())
def test_bad_recipes(tmp_path: Path, text: str, message: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        read_recipe(path)
    assert str(caught.value).startswith(f"{path}: ")
    assert message in str(caught.value)


def test_a_missing_recipe_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no such recipe"):
        read_recipe(tmp_path / "none.toml")


@pytest.mark.parametrize(
    ("name", "message"),
    {
        "rivals/prp": "did you mean rivals/pro?",
        "pro": "did you mean rivals/pro?",
        "grace-structred": "did you mean rivals/grace-structured?",
        "minibier": "did you mean minibeir?",
        "zzz": "give a TOML file, or one that ships: demo, ",
    }.items(),
)
def test_the_nearest_recipe_is_offered(name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        read_recipe(name)
    assert message in str(caught.value)


def test_recipes_are_read_by_their_names() -> None:
    files = sorted((ROOT / "recipes").rglob("*.toml"))
    assert shipped_recipes() == sorted(
        file.relative_to(ROOT / "recipes").with_suffix("").as_posix() for file in files
    )
    for name in shipped_recipes():
        assert read_recipe(name) == read_recipe(ROOT / "recipes" / f"{name}.toml")


def test_changes_replace_single_values(tmp_path: Path) -> None:
    path = write(tmp_path, 'name = "x"\n[quantizer]\nbatch = 8\n[quantizer.loop]\nsteps = 9\nwarm_up = 3')
    changes = {"seed": 4, "quantizer": {"loop": {"steps": 5}}, "decoder": {"batch": 6}}
    changed, plain = read_recipe(path, changes), read_recipe(path)
    assert changed.quantizer is not None and plain.quantizer is not None and changed.decoder is not None
    assert (changed.seed, changed.decoder.batch, changed.encoder) == (4, 6, plain.encoder)
    loop = dataclasses.replace(plain.quantizer.loop, steps=5)
    assert changed.quantizer == dataclasses.replace(plain.quantizer, loop=loop)
    with pytest.raises(InputError, match=r"unknown key quantizer.loop.step: did you mean steps\?"):
        read_recipe(path, {"quantizer": {"loop": {"step": 5}}})
    with pytest.raises(InputError, match="quantizer should be a table, but is 3"):
        read_recipe(path, {"quantizer": 3})


@pytest.mark.parametrize("path", sorted(ROOT.glob("recipes/**/*.toml")), ids=lambda path: path.name)
def test_the_recipes_that_ship_can_be_read(path: Path) -> None:
    assert read_recipe(path).name == path.stem


def test_a_stage_keeps_its_own_defaults_where_a_recipe_changes_some(tmp_path: Path) -> None:
    recipe = read_recipe(write(tmp_path, 'name = "x"\n[quantizer.loop]\nsteps = 9'))
    assert recipe.quantizer is not None
    assert recipe.quantizer.loop == dataclasses.replace(QuantizerSettings().loop, steps=9)


def test_the_page_of_keys_is_what_the_settings_say() -> None:
    assert (ROOT / "docs" / "recipes.md").read_text() == recipe_page(), "run `make docs`"


def test_every_key_of_a_shipped_recipe_is_on_the_page() -> None:
    sections = {
        title: body for title, _, body in (part.partition("\n") for part in recipe_page().split("\n## "))
    }
    for path in sorted((ROOT / "recipes").rglob("*.toml")):
        for table, keys in _tables(tomllib.loads(path.read_text())):
            known = sections[f"`[{table}]`" if table else "At the top"]
            assert all(f"| `{key}` |" in known for key in keys), (path.name, table)


def _tables(values: dict[str, Any], path: str = "") -> list[tuple[str, list[str]]]:
    """The tables of a recipe, with their own keys."""
    inner = {key: value for key, value in values.items() if isinstance(value, dict)}
    tables = [(path, [key for key in values if key not in inner])]
    for key, value in inner.items():
        tables += _tables(value, f"{path}.{key}" if path else key)
    return tables
