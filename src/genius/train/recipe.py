"""Recipes: TOML files that say how a model is trained, read strictly.

A recipe has exactly the fields of `Recipe` and of the settings classes inside it: an unknown key is an error
that suggests the nearest known one, and a value of the wrong type is an error too.
"""

from __future__ import annotations

import dataclasses
import difflib
import tomllib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

from genius.errors import InputError
from genius.identifiers.scheme import IdentifierName, RivalName
from genius.train.decoder import DecoderTraining
from genius.train.heads import EncoderSettings
from genius.train.quantizer import QuantizerSettings
from genius.train.towers import TowerSettings

_PACKAGE = Path(__file__).parents[1]
_RECIPE_FOLDERS = (_PACKAGE / "recipes", _PACKAGE.parents[1] / "recipes")
"""Inside an installed package, or beside the sources."""

T = TypeVar("T")


@dataclass(frozen=True)
class Recipe:
    """How a model is trained: a name, a seed, and the settings of each stage."""

    name: str
    seed: int = 0
    datasets: tuple[str, ...] = ()
    """The data sets of the tree to train on; by default all."""
    without: tuple[str, ...] = ()
    """Data sets to leave out of training, as in the paper's zero-shot experiment."""
    pools: Literal["all", "training"] = "all"
    """The items that training sees: all of the tree, or those of its pools for training and validation alone
    (M-BEIR's test pool has five million)."""
    held_out: float = 0.0
    """The share of answers, chosen by their ids, whose queries the heads and the quantizer don't learn from:
    what is trained after them (the decoder learns from all queries) then sees answers that are as new to
    them as a user's."""
    towers: TowerSettings | None = None
    """Fine-tuning of a CLIP before stage 0; by default its towers stay as they are."""
    identifiers: IdentifierName = "codes"
    """What items are known by: codes of the quantizer, or the identifiers of a rival method, which need no
    [quantizer] and are learned by [decoder]: GRACE's `numeric`, `string`, `semantic` and `structured`,
    `irgen`, `tiger`, `dsi`."""
    encoder: EncoderSettings | None = None
    """Heads over the towers: trained unless the recipe has [towers] and no [encoder]."""
    quantizer: QuantizerSettings | None = None
    """Fusion and codebooks; without them a model is limited to dense search."""
    decoder: DecoderTraining | None = None
    """The learned decoder; without it a model searches by geometry."""

    def __post_init__(self) -> None:
        if self.datasets and self.without:
            raise InputError("say which data sets to train on, or which to train without, not both")
        if not 0 <= self.held_out < 1:
            raise InputError(
                f"held_out is a share of the answers, at least 0 and below 1, not {self.held_out}"
            )
        if self.held_out and self.towers is not None and not self.towers.frozen:
            raise InputError(
                "towers are tuned on all pairs, so that nothing is held out of them: frozen = true"
            )
        if self.identifiers != "codes":
            _check_rival(self.identifiers, self.quantizer, self.decoder)
        elif self.decoder is not None and self.quantizer is None:
            raise InputError("a decoder learns the codes of a quantizer: add a table [quantizer]")
        if self.towers is None:
            if self.encoder is None:
                object.__setattr__(self, "encoder", EncoderSettings())
        elif self.encoder is not None:
            _check_towers_and_heads(self.towers, self.encoder)


def _check_rival(
    identifiers: RivalName, quantizer: QuantizerSettings | None, decoder: DecoderTraining | None
) -> None:
    """Raise InputError for stages that can't stand beside identifiers of a rival."""
    if quantizer is not None:
        raise InputError(f"{identifiers} identifiers take the place of codes: leave [quantizer] out")
    if decoder is not None and decoder.network.start_from_codebooks:
        raise InputError(
            f"{identifiers} identifiers have no codebooks that embeddings could start from: "
            "say start_from_codebooks = false in [decoder.network]"
        )
    if decoder is not None and decoder.geometric_fusion.weight:
        raise InputError(
            f"{identifiers} identifiers have no code vectors that geometry could score: "
            "leave [decoder.geometric_fusion] out"
        )


def _check_towers_and_heads(towers: TowerSettings, encoder: EncoderSettings) -> None:
    """Raise InputError unless heads can be trained over the features of the fine-tuned towers."""
    if towers.fusion_kind == "tokens":
        raise InputError(
            'with towers.fusion_kind = "tokens" there are no features for heads: leave [encoder] out, '
            'or use "score"'
        )
    if encoder.towers != "clip" or encoder.source:
        raise InputError(
            'heads stand on the fine-tuned towers: say towers = "clip" in [encoder], and no source'
        )


def read_recipe(path: Path | str, changes: Mapping[str, Any] | None = None) -> Recipe:
    """Read a recipe from a TOML file, or one that ships with genius by its name (`demo`, `rivals/pro`).

    `changes` are tables and values that replace the recipe's own, nested as in TOML. Raises InputError, with
    the key, for a file that is no recipe.
    """
    file = Path(path)
    if not file.is_file() and file.suffix == "" and not file.is_absolute():
        shipped = [folder / f"{path}.toml" for folder in _RECIPE_FOLDERS]
        file = next((candidate for candidate in shipped if candidate.is_file()), file)
    return _parse_table(Recipe, _changed(_read_toml(file), changes or {}), path=file)


def shipped_recipes() -> list[str]:
    """The names of the recipes that ship with genius."""
    files = {file.relative_to(folder) for folder in _RECIPE_FOLDERS for file in folder.rglob("*.toml")}
    return sorted(file.with_suffix("").as_posix() for file in files)


def _changed(values: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """A table with other values, table by table."""
    changed = dict(values)
    for key, value in changes.items():
        is_table = isinstance(value, Mapping) and isinstance(values.get(key, {}), Mapping)
        changed[key] = _changed(values.get(key, {}), value) if is_table else value
    return changed


def description(recipe: Recipe) -> dict[str, Any]:
    """The recipe as JSON stores it: lists instead of tuples, without data sets, pools, identifiers and what
    is held out if these are the usual ones, and without settings of what is off: older models have none."""
    values = dataclasses.asdict(recipe)
    for stage, name in (("quantizer", "distillation"), ("decoder", "geometric_fusion")):
        if values[stage] is not None and not values[stage][name]["weight"]:
            del values[stage][name]
    for name in ("datasets", "without"):
        if not values[name]:
            del values[name]
    for name, usual in (("pools", "all"), ("identifiers", "codes"), ("held_out", 0.0)):
        if values[name] == usual:
            del values[name]
    return _lists_for_tuples(values)  # type: ignore[no-any-return]


def _lists_for_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _lists_for_tuples(inner) for key, inner in value.items()}
    return [_lists_for_tuples(inner) for inner in value] if isinstance(value, list | tuple) else value


# --- strict reading


def _read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file. Raises InputError, with the line, for a file that is no TOML."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise InputError(f"there is no such recipe{_nearest_recipe(path)}", path=path) from None
    except IsADirectoryError:
        raise InputError("is a folder: a recipe is a TOML file", path=path) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"is no TOML: {error}", path=path) from error


def _nearest_recipe(path: Path) -> str:
    """Which of the recipes that ship may have been meant, or which there are."""
    names = shipped_recipes()
    by_stem = {name.rpartition("/")[2]: name for name in names}
    # A name without its folder counts, too: pro is rivals/pro.
    for wanted, known in ((path.with_suffix("").as_posix(), names), (path.stem, list(by_stem))):
        if close := difflib.get_close_matches(wanted, known, n=1, cutoff=0.6):
            return f": did you mean {by_stem.get(close[0], close[0])}?"
    return f": give a TOML file, or one that ships: {', '.join(names)}"


def _parse_table(settings: type[T], values: dict[str, Any], *, path: Path, prefix: str = "") -> T:
    """An instance of a settings class from a TOML table; nested tables become nested settings."""
    hints = typing.get_type_hints(settings)
    fields = dataclasses.fields(settings)  # type: ignore[arg-type]
    names = [field.name for field in fields]
    for key in values:
        if key not in names:
            raise InputError(f"unknown key {prefix}{key}{_suggestion(key, names)}", path=path)
    parsed = {key: _parse_value(hints[key], value, path, f"{prefix}{key}") for key, value in values.items()}
    try:
        return settings(**parsed)
    except InputError as error:
        raise InputError(
            f"in [{prefix.rstrip('.')}]: {error.reason}" if prefix else error.reason, path=path
        ) from None
    except TypeError:
        required = [f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING]
        missing = ", ".join(prefix + name for name in required if name not in parsed)
        raise InputError(f"lacks {missing}", path=path) from None


def _suggestion(key: str, names: list[str]) -> str:
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f": did you mean {close[0]}?" if close else f"; known are {', '.join(names)}"


def _parse_value(hint: Any, value: Any, path: Path, name: str) -> Any:
    """A TOML value as the type of a field. Raises InputError if it has another type."""
    if dataclasses.is_dataclass(hint):
        if not isinstance(value, dict):
            raise InputError(f"{name} should be a table, but is {value!r}", path=path)
        return _parse_table(typing.cast(type[Any], hint), value, path=path, prefix=f"{name}.")
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        if value not in arguments:
            known = [str(argument) for argument in arguments]
            close = difflib.get_close_matches(str(value), known, n=1, cutoff=0.5)
            hint = f": did you mean {close[0]!r}?" if close else ""
            raise InputError(f"{name} should be one of {', '.join(known)}, but is {value!r}{hint}", path=path)
        return value
    if origin in (typing.Union, types.UnionType):
        inner = next(argument for argument in arguments if argument is not type(None))
        return _parse_value(inner, value, path, name)
    if origin is tuple:
        if not isinstance(value, list):
            raise InputError(f"{name} should be a list, but is {value!r}", path=path)
        return tuple(_parse_value(arguments[0], entry, path, name) for entry in value)
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, hint) or (isinstance(value, bool) and hint is not bool):
        raise InputError(
            f"{name} should be a {_TYPE_NAMES.get(hint, hint.__name__)}, but is {value!r}", path=path
        )
    return value


_TYPE_NAMES = {int: "whole number", float: "number", str: "text", bool: "true or false"}
