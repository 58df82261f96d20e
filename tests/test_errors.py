from __future__ import annotations

import sys
from pathlib import Path

import pytest

from genius.errors import DamagedError, GeniusError, InputError, MismatchError, MissingError, require


def test_a_place_is_named_once() -> None:
    error = InputError("wrong").at("pool.jsonl", 17)
    assert str(error) == "pool.jsonl, line 17: wrong"
    assert error.at("other.jsonl", 3) is error
    assert str(InputError("wrong", path=Path("x"))) == "x: wrong"


def test_exit_codes() -> None:
    assert [
        kind.exit_code for kind in (InputError, MismatchError, DamagedError, MissingError, GeniusError)
    ] == [2, 1, 1, 1, 1]


def test_a_missing_extra_names_the_command_that_installs_it() -> None:
    with pytest.raises(
        MissingError, match=r"training needs no_such; install it with: pip install 'genius-search\[train\]'"
    ):
        require("no_such.part", "train", "training")
    assert require("json", "train", "training").__name__ == "json"


def test_a_broken_import_inside_a_library_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed.py").write_text("import its_own_missing_part\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "half_installed", raising=False)
    with pytest.raises(ModuleNotFoundError, match="its_own_missing_part"):
        require("half_installed", "train", "training")
