"""The pages don't promise what the code doesn't do."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from genius.encode import pipeline
from tests.pictures import write_square

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    page
    for folder in ("", "docs/**/", "examples/", "research/", ".github/")
    for page in ROOT.glob(f"{folder}*.md")
)
RUN_AGAIN = ("README.md", "docs/quickstart.md")
"""Pages that a newcomer copies from, and runs a second time."""


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


def write_collections(folder: Path) -> None:
    """What the pages' snippets read."""
    for name in ("products/a.jpg", "shoe.jpg"):
        write_square(folder / name)
    for number in range(12):
        write_square(folder / f"captioned/{number}.jpg")
        (folder / f"captioned/{number}.txt").write_text(f"A red square, number {number}.")


def test_the_pages_are_found() -> None:
    assert {"README.md", "docs/index.md", "research/log.md"} <= {name_of(page) for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=name_of)
def test_python_in_the_pages_runs(
    page: Path,
    own_miniature: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    request: pytest.FixtureRequest,
) -> None:
    write_collections(tmp_path)
    if any('model/"' in block for block in blocks(page)):
        shutil.copytree(request.getfixturevalue("coded_model"), tmp_path / "model")
        monkeypatch.setattr(pipeline, "default_cache", lambda: tmp_path / "cache")
    monkeypatch.chdir(tmp_path)
    for block in blocks(page) * (2 if name_of(page) in RUN_AGAIN else 1):
        exec(compile(block, page.name, "exec"), {})


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_inside_the_project_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#?([^)]*)\)", page.read_text()):
        file = page.parent / target if target else page
        assert file.exists(), target
        if anchor:
            assert anchor in anchors(file), f"{target}#{anchor}"


def anchors(page: Path) -> set[str]:
    """Of a page's headings, as GitHub and the site make them; only headings of plain words are linked to."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_files_that_internals_names_exist() -> None:
    package = ROOT / "src/genius"
    named = re.findall(r"`([a-z]+)/([a-z_]+)`", (ROOT / "docs/internals.md").read_text())
    inside = {f"{folder}/{file}.py" for folder, file in named if (package / folder).is_dir()}
    assert len(inside) > 10
    assert not [file for file in inside if not (package / file).is_file()]


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    if not (find_spec("mkdocs") and find_spec("material")):
        pytest.skip("the site is built where the extra docs is installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", tmp_path / "site"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for page in ROOT.glob("docs/*.md"):
        built = tmp_path / "site" / ("" if page.stem == "index" else page.stem) / "index.html"
        assert built.is_file(), "every page is in the navigation and on the site"


def test_make_help_names_the_commands_of_the_readme() -> None:
    makefile = (ROOT / "Makefile").read_text()
    text = "".join(
        (ROOT / name).read_text() for name in ("README.md", "CONTRIBUTING.md", "docs/deployment.md")
    )
    for command in re.findall(r"^(?:.*`)?make (?:[A-Z]+=\S+ )?([a-z]+)", text, re.MULTILINE):
        assert re.search(rf"^{command}:.*##", makefile, re.MULTILINE), command


def test_the_version_is_in_one_place() -> None:
    from genius import __version__

    assert f'__version__ = "{__version__}"' in (ROOT / "src/genius/__init__.py").read_text()
    for name in ("pyproject.toml", "CITATION.cff"):
        lines = (ROOT / name).read_text().splitlines()
        assert not [line for line in lines if re.match(r"\s*version\s*[:=]", line)], name
    assert f"\n## {__version__} (" in (ROOT / "CHANGELOG.md").read_text()
