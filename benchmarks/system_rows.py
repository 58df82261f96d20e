"""The rows of `systems.toml`: a recipe with changes, seeds, and what is measured; not a script itself."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from genius.corpus.source import training_view
from genius.data.mbeir import Split, Tree
from genius.errors import InputError
from genius.evaluate.protocol import PoolName
from genius.identifiers.scheme import row_name
from genius.search.beam import BEAMS
from genius.train.recipe import Recipe, description, read_recipe

ROWS = Path(__file__).with_suffix("").with_name("systems.toml")
POOLS: tuple[PoolName, ...] = ("local", "union", "unseen")
DENSE_BASELINE = "dense-fair"


@dataclass(frozen=True)
class Row:
    """A row of the table: what is trained, and by what it is measured."""

    name: str
    recipe: str
    """A recipe that ships, by its name, or a file."""
    seeds: tuple[int, ...] = (0,)
    epochs: float = 0.0
    """Passes of the decoder over the training queries; 0 is as many steps as the recipe says."""
    beams: int = BEAMS
    dataset: str = ""
    """Only the tasks of this data set are measured."""
    task: str = ""
    """Only this task is measured."""
    queries: int = 0
    """So many of each task are measured, at most; 0 is all."""
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Values that replace the recipe's, nested as in TOML."""
    decoder: Mapping[str, Any] = field(default_factory=dict)
    """The same for its learned decoder, if it has one; the file has them for all rows."""

    @cached_property
    def base(self) -> Recipe:
        """The recipe with its changes, for the first seed and its own number of steps."""
        recipe = read_recipe(self.recipe, self.changes)
        if recipe.decoder is None or not self.decoder:
            return recipe
        own = dict(self.decoder) | self.changes.get("decoder", {})
        return read_recipe(self.recipe, {**self.changes, "decoder": own})

    @property
    def is_whole(self) -> bool:
        """Whether all tasks are measured: such rows can be compared with each other."""
        return not (self.dataset or self.task)

    @property
    def main_system(self) -> str:
        """The system that the row is about: a rival's, the learned decoder, or what an index does."""
        if self.base.identifiers != "codes":
            return row_name(self.base.identifiers)
        return "genius" if self.base.decoder is not None else "default"

    @property
    def systems(self) -> list[str]:
        """The systems that are measured: dense search, codes alone, geometry over the same codes, its own."""
        plain = [self.main_system]
        if self.base.identifiers == "codes" and self.beams == BEAMS:
            plain.insert(0, "geometry")
        more = ["codes"] if self.base.identifiers == "codes" and self.beams == BEAMS else []
        return [DENSE_BASELINE, *more, *plain, *(f"{name}+rerank" for name in plain)]

    def tasks(self, tree: Tree, split: Split) -> list[str] | None:
        """The tasks that are measured, by name; None is all."""
        if self.task:
            return [self.task]
        if not self.dataset:
            return None
        return [str(task) for task in tree.tasks(split) if task.dataset == self.dataset]


def read_rows(path: Path) -> list[Row]:
    """The rows of a file. Raises InputError for a key or a row that it can't be."""
    known = {field.name for field in dataclasses.fields(Row)}
    rows, content = [], tomllib.loads(path.read_text("utf-8"))
    shared = {"decoder": content.get("decoder", {})}
    for values in content.get("row", []):
        if unknown := set(values) - known:
            raise InputError(
                f"a row has no {sorted(unknown)[0]!r}, but {', '.join(sorted(known))}", path=path
            )
        rows.append(Row(**shared | values | {"seeds": tuple(values.get("seeds", (0,)))}))
    names = [row.name for row in rows]
    if doubled := {name for name in names if names.count(name) > 1}:
        raise InputError(f"has two rows called {sorted(doubled)[0]!r}", path=path)
    return rows


class RowRecipes:
    """The recipes of rows, with as many steps as their epochs take on a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._queries: dict[str, int] = {}

    def __call__(self, row: Row, seed: int) -> Recipe:
        """How a row is trained with a seed."""
        recipe = dataclasses.replace(row.base, seed=seed)
        if not row.epochs or recipe.decoder is None:
            return recipe
        rows = row.epochs * self.queries(recipe) / (1 - recipe.decoder.own)
        loop = dataclasses.replace(recipe.decoder.loop, steps=math.ceil(rows / recipe.decoder.batch))
        return dataclasses.replace(recipe, decoder=dataclasses.replace(recipe.decoder, loop=loop))

    def queries(self, recipe: Recipe) -> int:
        """How many training queries a recipe has."""
        described = description(recipe)
        key = repr([described.get("datasets"), described.get("without")])
        if key not in self._queries:
            view = training_view(self._tree, described)
            self._queries[key] = sum(1 for _ in view.queries("train"))
        return self._queries[key]

    def epochs(self, recipe: Recipe) -> float | None:
        """How often the decoder sees each training query; None without a decoder."""
        if recipe.decoder is None:
            return None
        drawn = recipe.decoder.loop.steps * recipe.decoder.batch * (1 - recipe.decoder.own)
        return drawn / self.queries(recipe)
