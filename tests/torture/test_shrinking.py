from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from torture import model

from tests.index.made_up_index import MadeUpIndex


def test_a_series_is_shrunk_to_what_makes_it_fail() -> None:
    dice = random.Random(1)
    operations: list[model.Operation] = [["number", dice.randrange(50)] for _ in range(400)]
    operations += [["number", 77], *operations[:100], ["number", 78]]
    short = model.shrunk(operations, lambda given: ["number", 77] in given and ["number", 78] in given)
    assert short == [["number", 77], ["number", 78]]


def test_an_index_that_forgets_a_removal_is_found_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    item: dict[str, Any] = {"id": "id 1", "text": "a dog", "image": None, "metadata": {}}
    script: list[model.Operation] = [["add", [item]], ["look", "id 1"], ["remove", ["id 1"]]]
    script.append(["search", "reader", ["a dog"], {"k": 3, "filter": None, "mode": "auto"}])
    assert model.failure_of(script, tmp_path) == ""
    monkeypatch.setattr(MadeUpIndex, "remove", lambda index, ids: len(ids))
    assert model.failure_of(script, tmp_path).startswith("operation 3, search: AssertionError: 1 hits of 0")
