from __future__ import annotations

import json
import sys
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

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


CLONE = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("direct_url", "command"),
    [
        (None, "pip install 'genius-search[train]'"),  # from a package index
        ({"url": CLONE.as_uri(), "dir_info": {}}, f"pip install '{CLONE}[train]'"),
        ({"url": CLONE.as_uri(), "dir_info": {"editable": True}}, f"pip install -e '{CLONE}[train]'"),
        (
            {"url": "file:///gone/genius.whl", "archive_info": {}},
            "pip install 'genius-search[train] @ file:///gone/genius.whl'",
        ),
        (
            {"url": "https://example.org/genius", "vcs_info": {"vcs": "git", "commit_id": "0"}},
            "pip install 'genius-search[train] @ git+https://example.org/genius'",
        ),
    ],
)
def test_a_missing_extra_is_installed_as_the_package_was(
    direct_url: object, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = None if direct_url is None else json.dumps(direct_url)
    installed = SimpleNamespace(read_text=lambda name: text if name == "direct_url.json" else "")
    monkeypatch.setattr(metadata, "distribution", lambda name: installed)
    with pytest.raises(MissingError) as error:
        require("no_such.part", "train", "training")
    assert str(error.value) == f"training needs no_such; install it with: {command}"
    assert require("json", "train", "training").__name__ == "json"


def test_a_package_that_is_not_installed_is_installed_from_its_clone(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "distribution", missing)
    with pytest.raises(MissingError, match=r"pip install '\.\[train\]', in a clone of genius"):
        require("no_such.part", "train", "training")


def test_a_broken_import_inside_a_library_is_not_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "half_installed.py").write_text("import its_own_missing_part\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "half_installed", raising=False)
    with pytest.raises(ModuleNotFoundError, match="its_own_missing_part"):
        require("half_installed", "train", "training")
