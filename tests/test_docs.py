"""The pages don't promise what the code doesn't do."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

from genius.encode import pipeline
from tests.pictures import write_square

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_in_the_pages_runs(
    page: Path,
    own_miniature: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    for name in ("photos/a.jpg", "shoe.jpg"):
        write_square(tmp_path / name)
    if any("model/" in block for block in blocks(page)):
        shutil.copytree(request.getfixturevalue("coded_model"), tmp_path / "model")
        monkeypatch.setattr(pipeline, "default_cache", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    for block in blocks(page):
        exec(compile(block, page.name, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!https?://)([^)#]+)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_make_help_names_the_commands_of_the_readme() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(
        r"make ([a-z]+)", (ROOT / "README.md").read_text() + (ROOT / "CONTRIBUTING.md").read_text()
    ):
        assert re.search(rf"^{command}:.*##", makefile, re.MULTILINE), command
