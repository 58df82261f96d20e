from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.supply_chain import (
    HASHED,
    PINNED,
    Package,
    closure,
    files_of,
    licence_table,
    packages,
    pinned,
    read_hashes,
    sbom,
    suitable,
)

ROOT = Path(__file__).parents[2]


def test_what_is_pinned_is_hashed() -> None:
    text = HASHED.read_text("utf-8")
    versions = {name: version.rstrip(" \\") for name, version in pinned(text).items()}
    assert versions == pinned(PINNED.read_text("utf-8")), "run: python -m tools.supply_chain lock"
    hashes = read_hashes(text)
    assert all(hashes[canonicalize_name(name)] for name in versions)
    assert all(len(digest) == 64 for digests in hashes.values() for digest in digests)
    assert "://" not in text


@pytest.mark.parametrize(
    ("file", "fits"),
    [
        ("ab_c-1.2-py3-none-any.whl", True),
        ("ab_c-1.2-cp311-cp311-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", True),
        ("ab_c-1.2-cp311-cp311-macosx_11_0_arm64.whl", True),
        ("ab_c-1.2-cp311-cp311-win_amd64.whl", False),
        ("ab_c-1.2-cp311-cp311-musllinux_1_2_x86_64.whl", False),
        ("ab_c-1.20-py3-none-any.whl", False),
        ("other-1.2-py3-none-any.whl", False),
        ("ab_c-1.2.tar.gz", True),
        ("ab-c-1.2.exe", False),
    ],
)
def test_files_for_linux_and_macos(file: str, fits: bool) -> None:
    assert suitable(file, "ab-c", "1.2") is fits


def test_pages_of_an_index() -> None:
    digest = "a" * 64
    page = {
        "files": [{"filename": "a-1.tar.gz", "hashes": {"sha256": digest}}, {"filename": "b", "hashes": {}}]
    }
    assert list(files_of(json.dumps(page).encode())) == [("a-1.tar.gz", digest)]
    html = f'<a href="../../x/a-1.tar.gz#sha256={digest}">a</a> <a href="b-1.tar.gz">b</a>'
    assert list(files_of(html.encode())) == [("a-1.tar.gz", digest)]


def test_the_bill_names_what_searching_needs() -> None:
    listed = packages(())
    described = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    direct = {canonicalize_name(Requirement(line).name) for line in described["dependencies"]}
    assert direct <= {package.name for package in listed} == closure("genius-search", "")
    assert not {"torch", "pytest"} & {package.name for package in listed}
    bill = sbom(listed, "1.0", {"numpy": ["f" * 64]})
    assert bill == sbom(listed, "1.0", {"numpy": ["f" * 64]})
    references = {component["bom-ref"] for component in bill["components"]}
    assert references == set(bill["dependencies"][0]["dependsOn"])
    (numpy,) = [component for component in bill["components"] if component["name"] == "numpy"]
    assert numpy["properties"] == [{"name": "file:sha256", "value": "f" * 64}]


def test_licences_are_listed() -> None:
    table = licence_table(
        [Package("a", "1", "MIT", ("search",)), Package("b", "2", "not said", ("dev", "docs"))]
    )
    assert table.splitlines()[2:] == ["| a | 1 | MIT | search |", "| b | 2 | not said | dev, docs |"]
    numpy = next(package for package in packages(()) if package.name == "numpy")
    assert "BSD" in numpy.licence
