from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import pytest

from genius.data.records import Item
from genius.demo.index import open_index
from genius.errors import MismatchError
from genius.index.catalogue import Catalogue
from genius.model import Model


@pytest.fixture
def model(coded_model: Path, tmp_path: Path) -> Model:
    shutil.copytree(coded_model, tmp_path / "model")
    return Model.open(tmp_path / "model")


def write_model(index: Path, **entries: str) -> None:
    """Change what an index knows of its model."""
    query = "UPDATE settings SET value = json_set(value, ?, ?) WHERE name = 'model'"
    with contextlib.closing(Catalogue(index)) as catalogue, catalogue._changing():
        for name, value in entries.items():
            catalogue._query(query, f"$.{name}", value)


def test_an_index_of_the_same_model_is_kept_and_one_of_an_earlier_model_replaced(
    model: Model, tmp_path: Path
) -> None:
    path = tmp_path / "index"
    with open_index(path, model) as index:
        index.add([Item("a", "A red square.")], cache=tmp_path / "cache", workers=1)
    with open_index(path, model) as index:
        assert len(index) == 1
    write_model(path, fingerprint="earlier")
    with open_index(path, model) as index:
        assert len(index) == 0


def test_an_index_of_a_model_elsewhere_is_left_alone(model: Model, tmp_path: Path) -> None:
    path = tmp_path / "index"
    open_index(path, model).close()
    write_model(path, fingerprint="another", path="elsewhere")
    with pytest.raises(MismatchError):
        open_index(path, model)
