"""Building the demo corpus, from small made-up packages."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from genius.data.mbeir import SPLITS, Tree
from genius.data.tasks import Task
from genius.demo import corpus
from genius.download import Package
from genius.errors import DamagedError
from tests.demo.made_up import Registry
from tests.tarballs import tarball


def test_equal_pools_take_space_on_the_disk_once(built: Path) -> None:
    pools = list((built / "cand_pool").rglob("*"))
    kept = {path.stat().st_ino: path.read_bytes() for path in pools if path.is_file()}
    assert len(set(kept.values())) == len(kept)
    assert all(path.suffix == ".jsonl" for path in pools if path.is_file())


def test_two_builds_are_equal_to_the_byte(built: Path, registry: Registry, tmp_path: Path) -> None:
    again = corpus.demo_tree(tmp_path, fetch=registry.fetch)

    def contents(tree: Path) -> dict[str, bytes]:
        files = (path for path in tree.rglob("*") if path.is_file() and path.name != "manifest.json")
        return {path.relative_to(tree).as_posix(): path.read_bytes() for path in files}

    assert contents(again) == contents(built)
    fingerprints = [
        json.loads((tree / "manifest.json").read_text())["fingerprint"] for tree in (again, built)
    ]
    assert fingerprints[0] == fingerprints[1]


def test_a_second_call_fetches_nothing_and_downloads_are_not_kept(registry: Registry, tmp_path: Path) -> None:
    def unexpected(package: Package, folder: Path) -> Path:
        pytest.fail(f"{package} was fetched")

    tree = corpus.demo_tree(tmp_path, fetch=registry.fetch)
    assert set(registry.requests.values()) == {1}
    assert corpus.demo_tree(tmp_path, fetch=unexpected) == tree
    assert [path.name for path in (tmp_path / "demo").iterdir()] == [tree.name]
    assert "CC-BY 4.0" in (tree / "LICENCES.txt").read_text()


def test_an_interrupted_build_leaves_no_tree_and_resumes_without_downloading_again(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(folder: Path, **_: object) -> None:
        (folder / "query").mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(corpus, "write_tree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            corpus.demo_tree(tmp_path, fetch=registry.fetch)
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["packages"]
    Tree(corpus.demo_tree(tmp_path, fetch=registry.fetch)).check("train")
    assert set(registry.requests.values()) == {1}


def test_a_package_with_another_sha_stops_before_anything_is_built(
    registry: Registry, tmp_path: Path
) -> None:
    registry.contents["@lobehub/fluent-emoji-3d"] = tarball({"package/assets/x.webp": b"x"})
    with pytest.raises(DamagedError, match=r"@lobehub/fluent-emoji-3d@1\.1\.0 is not what it should be"):
        corpus.demo_tree(tmp_path, fetch=registry.fetch)
    assert not list((tmp_path / "demo").glob("emoji-*"))


def test_a_package_without_the_names_is_damaged(tmp_path: Path) -> None:
    empty = tmp_path / "empty.tgz"
    empty.write_bytes(tarball({"package/README.md": b"x"}))
    with pytest.raises(DamagedError, match=r"holds no en/data\.json"):
        corpus.demo_tree(tmp_path / "cache", fetch=lambda package, folder: empty)


def test_the_table_counts_queries_and_items(built: Path) -> None:
    tree = Tree(built)
    lines = corpus.count_table(built).splitlines()
    assert len(lines) == 2 + 8 + 7 + 1
    cells = next(line for line in lines if "emoji_task3" in line).split("|")
    expected = [sum(1 for _ in tree.queries(split, Task("emoji", 3))) for split in SPLITS]
    assert [int(cell.replace(",", "")) for cell in cells[2:5]] == expected
