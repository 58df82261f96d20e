"""The demo corpus, built from small made-up packages."""

import functools
import hashlib
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from genius import download as packages
from genius.data.mbeir import SPLITS, Tree
from genius.data.records import ImageFile, Item, Query
from genius.data.tasks import Task
from genius.demo import corpus as demo
from genius.demo.emoji import Emoji, difference, read_emoji, split_of
from genius.download import Package
from genius.errors import DamagedError
from tests.data.test_emoji import RUNNERS, Everything, row
from tests.data.test_packages import tarball

TRAINED_TASKS = {0, 1, 2, 3, 4, 6, 7, 8}


def made_up_rows() -> list[dict]:
    """Runners, a few more kinds of people in three genders for every split, and things."""
    rows = list(RUNNERS)
    for n in codes_for_every_split("1f9d1-f{:03}", each=2):
        tags = (f"trade{n}", f"tool{n}", "people")
        rows.append(row(f"1F9D1-200D-F{n:03}", f"worker{n}", *tags, tones=True))
        rows.append(row(f"1F469-200D-F{n:03}", f"woman worker{n}", *tags, tones=True))
        rows.append(row(f"1F468-200D-F{n:03}", f"man worker{n}", *tags, tones=True))
    things = codes_for_every_split("e{:03}", each=4)
    return rows + [
        row(f"E{n:03}", f"thing{n}", f"use{n}", f"place{n}", "object", subgroup=70) for n in things
    ]


def codes_for_every_split(family: str, each: int) -> list[int]:
    """Numbers whose families fall into each split so many times."""
    numbers = {split: [n for n in range(200) if split_of(family.format(n)) == split] for split in SPLITS}
    return [n for split in SPLITS for n in numbers[split][:each]]


ROWS = made_up_rows()


def made_up_packages() -> dict[str, bytes]:
    """The four packages' tarballs by the packages' names."""
    codes = [form["hexcode"].lower() for base in ROWS for form in (base, *base["skins"])]

    def drawings(vendor: str, pattern: str) -> bytes:
        pictures = {"package/" + pattern.format(code): f"{vendor} {code}".encode() for code in codes}
        return tarball({"package/LICENSE": b"free", **pictures})

    return {
        "emojibase-data": tarball(
            {"package/en/data.json": orjson.dumps(ROWS), "package/fr/data.json": b"[]"}
        ),
        "emoji-datasource-google": drawings("noto", "img/google/64/{}.png"),
        "emoji-datasource-twitter": drawings("twemoji", "img/twitter/64/{}.png"),
        "@lobehub/fluent-emoji-3d": drawings("fluent", "assets/{}.webp"),
    }


class Registry:
    """A registry that can be asked for the made-up packages, and counts."""

    def __init__(self, contents: dict[str, bytes]) -> None:
        self.contents = contents
        self.asked: Counter[str] = Counter()
        self.fetch = functools.partial(packages.fetch, download=self.download)

    def download(self, package: Package, folder: Path) -> Path:
        self.asked[package.name] += 1
        path = folder / "fresh.tgz"
        path.write_bytes(self.contents[package.name])
        return path


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Registry:
    contents = made_up_packages()

    def pinned(package: Package) -> Package:
        return Package(package.name, package.version, hashlib.sha256(contents[package.name]).hexdigest())

    monkeypatch.setattr(demo, "NAMES", pinned(demo.NAMES))
    monkeypatch.setattr(
        demo, "PICTURES", {vendor: pinned(package) for vendor, package in demo.PICTURES.items()}
    )
    return Registry(contents)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    with pytest.MonkeyPatch.context() as patch:
        return demo.demo_tree(folder, fetch=registry.__wrapped__(patch).fetch)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def emoji() -> dict[str, Emoji]:
    """By picture's key and by name."""
    found = read_emoji(ROWS, Everything())
    return {one.key: one for one in found} | {one.name: one for one in found}


def key_of(image: ImageFile) -> str:
    return Path(image.path).stem


def vendor_of(image: ImageFile) -> str:
    return Path(image.path).parent.name


def families(queries: Iterator[Query], items: dict[str, Item], emoji: dict[str, Emoji]) -> set[str]:
    """Every family that some queries show or name, in what is asked or in what would answer or must not."""
    found = set()
    for query in queries:
        shown = [query.image] if query.image else []
        for did in (*query.positives, *query.negatives):
            if items[did].text:
                found.add(emoji[items[did].text].family)
            if items[did].image:
                shown.append(items[did].image)
        found.update(emoji[key_of(image)].family for image in shown)
    return found


def check_corpus(path: Path, emoji: dict[str, Emoji]) -> None:
    """What must hold of the corpus, made-up or real."""
    tree = Tree(path)
    items = {item.id: item for item in tree}
    of_split = {split: families(tree.queries(split), items, emoji) for split in SPLITS}
    for split in SPLITS:
        tree.check(split)
        assert of_split[split]
        assert all(split_of(family) == split for family in of_split[split])
        assert {task.number for task in tree.tasks(split) if task.dataset == "emoji"} == TRAINED_TASKS
    for split in ("train", "val"):
        assert {task.dataset for task in tree.tasks(split)} == {"emoji"}
        for query in tree.queries(split):
            shown = [query.image, *(items[did].image for did in (*query.positives, *query.negatives))]
            assert "fluent" not in {vendor_of(image) for image in shown if image}


def test_every_family_is_in_one_split_and_fluent_is_for_transfer_only(built, emoji):
    check_corpus(built, emoji)


def test_every_positive_is_in_its_own_pool_and_of_the_tasks_modality(built):
    tree = Tree(built)
    for split in SPLITS:
        for task in tree.tasks(split):
            pool = {item.id: item for item in tree.pool(task, split)}
            judged = tree.judgements(split, task)
            for query in tree.queries(split, task):
                assert query.modality is task.query
                assert query.positives
                assert not set(query.positives) & set(query.negatives)
                assert {pool[did].modality for did in query.positives} == {task.target}
                assert judged[query.id] == list(query.positives)


def test_ids_occur_once_and_carry_the_data_sets_number(built):
    tree = Tree(built)
    queries = [query for split in SPLITS for query in tree.queries(split)]
    assert len({query.id for query in queries}) == len(queries)
    for query in queries:
        assert query.id.startswith({"emoji": "20:", "fluent": "21:"}[query.dataset])
    assert len({(query.task, query.dataset, query.text, query.image) for query in queries}) == len(queries)


def test_a_change_of_a_picture_points_at_the_right_picture(built, emoji):
    tree = Tree(built)
    items = {item.id: item for item in tree}
    kinds: Counter[str] = Counter()
    for dataset, split in (("emoji", "train"), ("emoji", "test"), ("fluent", "test")):
        for query in tree.queries(split, Task(dataset, 7)):
            (target,) = (items[did].image for did in query.positives)
            source, found = emoji[key_of(query.image)], emoji[key_of(target)]
            asked = difference(source, found)
            if vendor_of(query.image) != vendor_of(target):
                assert asked == {}
                assert {"noto": "Noto", "twemoji": "Twemoji"}[vendor_of(target)] in query.text
            else:
                assert asked
                # "default" is put as "the default yellow skin", every other value as itself
                assert all(value in query.text for value in asked.values())
            kinds.update(list(asked) or ["style"])
            assert [key_of(items[did].image) for did in query.negatives] == [source.key]
    assert {"tone", "gender", "style"} <= set(kinds)


def test_pictures_point_at_their_own_name_and_at_other_vendors_drawings(built, emoji):
    tree = Tree(built)
    items = {item.id: item for item in tree}
    for query in tree.queries("test", Task("emoji", 3)):
        assert [items[did].text for did in query.positives] == [emoji[key_of(query.image)].name]
    for dataset, others in (("emoji", 1), ("fluent", 2)):
        for query in tree.queries("test", Task(dataset, 4)):
            found = [items[did].image for did in query.positives]
            assert {key_of(image) for image in found} == {key_of(query.image)}
            assert vendor_of(query.image) not in {vendor_of(image) for image in found}
            assert len(found) == others


def test_no_family_has_more_queries_than_its_share(built, emoji):
    tree = Tree(built)
    items = {item.id: item for item in tree}
    per_family: Counter[str] = Counter()
    for query in tree.queries("test", Task("emoji", 3)):
        per_family.update(families(iter([query]), items, emoji))
    assert max(per_family.values()) <= 6


def test_fluents_mislabelled_skin_tones_are_left_out(built):
    fluent = [vendor_of(item.image) + key_of(item.image) for item in Tree(built).pool("fluent_task0")]
    assert any("1f3fb" in key for key in fluent)
    assert not any("1f3fc" in key or "1f3fd" in key for key in fluent)


def test_equal_pools_are_kept_once_on_the_disk(built):
    pools = list((built / "cand_pool").rglob("*"))
    kept = {path.stat().st_ino: path.read_bytes() for path in pools if path.is_file()}
    assert len(set(kept.values())) == len(kept)
    assert all(path.suffix == ".jsonl" for path in pools if path.is_file())


def test_two_builds_are_equal_to_the_byte(built, registry, tmp_path):
    again = demo.demo_tree(tmp_path, fetch=registry.fetch)

    def contents(tree: Path) -> dict[str, bytes]:
        files = (path for path in tree.rglob("*") if path.is_file() and path.name != "manifest.json")
        return {path.relative_to(tree).as_posix(): path.read_bytes() for path in files}

    assert contents(again) == contents(built)
    fingerprints = [
        json.loads((tree / "manifest.json").read_text())["fingerprint"] for tree in (again, built)
    ]
    assert fingerprints[0] == fingerprints[1]


def test_a_second_call_asks_nobody_and_downloads_are_not_kept(registry, tmp_path):
    tree = demo.demo_tree(tmp_path, fetch=registry.fetch)
    assert set(registry.asked.values()) == {1}
    assert demo.demo_tree(tmp_path, fetch=None) == tree  # nothing is fetched, or this would fail
    assert [path.name for path in (tmp_path / "demo").iterdir()] == [tree.name]
    assert "CC-BY 4.0" in (tree / "LICENCES.txt").read_text()


def test_an_interrupted_build_leaves_no_tree_and_goes_on_without_downloading_again(
    registry, tmp_path, monkeypatch
):
    def interrupted(folder, **_):
        (folder / "query").mkdir()
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(demo, "write_tree", interrupted)
        with pytest.raises(KeyboardInterrupt):
            demo.demo_tree(tmp_path, fetch=registry.fetch)
    assert [path.name for path in (tmp_path / "demo").iterdir()] == ["packages"]
    Tree(demo.demo_tree(tmp_path, fetch=registry.fetch)).check("train")
    assert set(registry.asked.values()) == {1}


def test_a_package_with_another_sha_stops_before_anything_is_built(registry, tmp_path):
    registry.contents["@lobehub/fluent-emoji-3d"] = tarball({"package/assets/x.webp": b"x"})
    with pytest.raises(DamagedError, match=r"@lobehub/fluent-emoji-3d@1\.1\.0 is not what it should be"):
        demo.demo_tree(tmp_path, fetch=registry.fetch)
    assert not list((tmp_path / "demo").glob("emoji-*"))


def test_a_package_without_the_names_is_damaged(tmp_path):
    empty = tmp_path / "empty.tgz"
    empty.write_bytes(tarball({"package/README.md": b"x"}))
    with pytest.raises(DamagedError, match=r"holds no en/data\.json"):
        demo.demo_tree(tmp_path / "cache", fetch=lambda package, folder: empty)


def test_the_table_counts_what_is_there(built):
    tree = Tree(built)
    lines = demo.count_table(built).splitlines()
    assert len(lines) == 2 + 8 + 7 + 1
    cells = next(line for line in lines if "emoji_task3" in line).split("|")
    expected = [sum(1 for _ in tree.queries(split, Task("emoji", 3))) for split in SPLITS]
    assert [int(cell.replace(",", "")) for cell in cells[2:5]] == expected
