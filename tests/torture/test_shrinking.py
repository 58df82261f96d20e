from __future__ import annotations

import json
import random
import tempfile
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


@pytest.mark.slow
def test_a_failing_trial_leaves_a_short_script_that_fails_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(model, "OPERATIONS", 80)
    monkeypatch.setattr(model, "SHARDED", 1.0)
    whole = model.failure_of(model.series(random.Random(3)), tmp_path)
    assert whole == ""
    monkeypatch.setattr(MadeUpIndex, "remove", lambda index, ids: sum(id in index for id in set(ids)))
    outcome = model.prepare(tmp_path)(3)
    (failure,) = outcome.failures
    script = tmp_path / "torture-model-3.json"
    assert failure.endswith(f"operations of it are in {script}")
    operations = [json.loads(line) for line in script.read_text().splitlines()]
    assert 2 <= len(operations) <= 4
    assert {"add", "remove"} <= {name for name, *_ in operations}
    assert model.main(script) == 1
    assert capsys.readouterr().out.startswith(("operation", "after all operations"))
    monkeypatch.undo()
    assert model.main(script) == 0
