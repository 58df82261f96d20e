"""Merged and split indexes against indexes built at once: codes, hits and scores, search by search."""

from __future__ import annotations

import datetime
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import genius
from genius.data.records import Item
from genius.errors import InputError, MismatchError
from genius.index import assembly, catalogue, stored_items
from genius.index.catalogue import Catalogue
from genius.index.entries import ReadValues
from genius.index.inspect import describe
from genius.index.item_encoder import EncodedItems, EncodeItems
from genius.index.merge import merge
from genius.index.segments import KeptEmbeddings
from genius.index.snapshot import create_index_folder
from genius.index.stored_items import open_stored_items
from genius.model import Model
from tests.index.index_answers import answers
from tests.index.made_up import GIVEN, made_up_items
from tests.index.made_up_index import MadeUpIndex, MadeUpModel, encode, made, open_made_up
from tests.index.older_catalogue import make_older


@pytest.fixture(scope="module", autouse=True)
def _small_chunks() -> Iterator[None]:
    """So that items come in several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_items, "CHUNK", 4)
        yield


def answers_at(path: Path) -> list[Any]:
    assert describe(path, verify=True)["tombstones"] == 0
    with open_made_up(path) as index:
        return answers(index)


def compacted(path: Path) -> list[Any]:
    with open_made_up(path) as index:
        index.compact()
        return answers(index)


def fingerprints(path: Path) -> list[str]:
    """Of the segments, and so of every byte of codes and embeddings."""
    with open_stored_items(path) as stored:
        return [segment.fingerprint for segment in stored.segments]


ITEMS = made_up_items(24)


@pytest.mark.parametrize("embeddings", ["int8", "fp16", "none"])
@pytest.mark.parametrize("sizes", [(8, 16), (0, 24), (1, 23), (5, 0, 9, 10)])
def test_a_merged_index_equals_one_built_at_once(
    tmp_path: Path, sizes: Sequence[int], embeddings: KeptEmbeddings
) -> None:
    starts = np.cumsum([0, *sizes])
    parts = [
        made(tmp_path / str(number), ITEMS[start : start + size], embeddings)
        for number, (start, size) in enumerate(zip(starts, sizes, strict=False))
    ]
    report = merge(parts, tmp_path / "merged")
    assert report.items == 24 and report.from_each == tuple(sizes) and not report.collisions
    at_once = made(tmp_path / "at once", ITEMS, embeddings)
    assert answers_at(tmp_path / "merged") == compacted(at_once)
    assert fingerprints(tmp_path / "merged") == fingerprints(at_once)  # the same bytes, too


def test_removed_and_changed_items_are_merged_as_they_are(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", ITEMS[:12]), made(tmp_path / "b", ITEMS[12:])
    changed = Item("item-13", "another text", None, {"number": 99, "even": False})
    with open_made_up(first) as index:
        index.remove(["item-3", "item-11"])
    with open_made_up(second) as index:
        index.add([changed])
        index.update([{"id": "item-20", "metadata": {"number": 7}}])
    merge([first, second], tmp_path / "merged")
    with open_made_up(first) as index:
        kept = list(index)
    with open_made_up(second) as index:
        kept += list(index)
    assert answers_at(tmp_path / "merged") == answers_at(made(tmp_path / "at once", kept))
    with open_made_up(tmp_path / "merged") as index:  # it lives on
        index.add(made_up_items(26)[24:])
        index.remove(["item-0"])
        assert len(index) == 23 and index.code("item-25") and "item-0" not in index


def test_empty_indexes_are_merged(tmp_path: Path) -> None:
    report = merge([made(tmp_path / "a"), made(tmp_path / "b")], tmp_path / "merged")
    assert report.items == 0
    with open_made_up(tmp_path / "merged") as index:
        index.add(ITEMS[:3])
        assert len(index) == 3


def test_ids_that_collide_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may = [datetime.datetime(2024, 5, day, tzinfo=datetime.UTC) for day in range(1, 10)]
    times = iter(may)
    monkeypatch.setattr(catalogue, "now", lambda: next(times))
    old, new = tmp_path / "old", tmp_path / "new"
    with open_made_up(old) as index:
        index.add([Item("a", "old a"), Item("b", "old b"), Item("c", "old c")])  # May 1st
    with open_made_up(new) as index:
        index.add([Item("a", "new a"), Item("b", "new b"), Item("d", "new d")])  # 2nd
    with open_made_up(old) as index:
        index.add([Item("b", "newest b")])  # 3rd
    monkeypatch.setattr(assembly, "now", lambda: datetime.datetime(2024, 6, 1, tzinfo=datetime.UTC))
    with pytest.raises(InputError, match=r"2 ids are in both .*old and .*new: 'a', 'b'; take the newer item"):
        merge([old, new], tmp_path / "out")
    with open_made_up(tmp_path / "third") as index:
        index.add([Item("b", "third b")])
    with pytest.raises(
        InputError, match=r"in more than one index: 'a' \(in .*old and .*new\), 'b' \(in .* and .*third\);"
    ):
        merge([old, new, tmp_path / "third"], tmp_path / "out")
    shutil.rmtree(tmp_path / "third")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["new", "old"]

    def texts(out: str, prefer: Any, *paths: Path) -> dict[str, str | None]:
        report = genius.merge(paths, tmp_path / out, prefer=prefer)
        assert report.collisions == ("a", "b") and report.items == 4
        with open_made_up(tmp_path / out) as index:
            assert {item.id: index.code(item.id) for item in index} == {
                item.id: at.code(item.id)
                for item in index
                for at in (open_made_up(old), open_made_up(new))
                if at.get(item.id) == item
            }
            return {item.id: item.text for item in index}

    others = {"c": "old c", "d": "new d"}
    assert texts("first", "first", old, new) == {"a": "old a", "b": "newest b"} | others
    assert texts("first 2", "first", new, old) == {"a": "new a", "b": "new b"} | others
    for out, paths in (("newer", (old, new)), ("newer 2", (new, old))):
        assert texts(out, "newer", *paths) == {"a": "new a", "b": "newest b"} | others
    with open_stored_items(tmp_path / "newer") as stored:  # and it still knows when
        when = {
            entry.id: stored.time_of(key)
            for keys, entries in stored.entries(stored.keys)
            for key, entry in zip(keys.tolist(), entries, strict=True)
        }
    assert when == {"a": may[1], "b": may[2], "c": may[0], "d": may[1]}


def test_without_recorded_times_the_index_made_later_is_newer(tmp_path: Path) -> None:
    paths = []
    for name, day in (("late", 2), ("early", 1)):
        paths.append(tmp_path / name)
        options = {
            "model": {"path": "", "fingerprint": ""},
            "codes": asdict(GIVEN),
            "made_at": f"2024-01-0{day}T00:00:00+00:00",
        }
        create_index_folder(paths[-1], options)
        with open_made_up(paths[-1]) as index:
            index.add([Item("a", name)])
        make_older(paths[-1])
    merge(paths, tmp_path / "out", prefer="newer")
    with open_made_up(tmp_path / "out") as index:
        assert [item.text for item in index] == ["late"]
    with open_made_up(paths[0]) as index:
        index.add([Item("b", "more")])  # it is recorded from now on
        assert [key for key, _ in index._catalogue.additions()] == [2]


def test_what_cannot_be_merged(tmp_path: Path) -> None:
    first, second = made(tmp_path / "a", ITEMS[:2]), made(tmp_path / "b", ITEMS[2:4], "none")
    settings = {"model": {"path": "other/", "fingerprint": "0123456789abcdef"}, "codes": asdict(GIVEN)}
    create_index_folder(tmp_path / "c", settings)
    out = tmp_path / "out"
    with pytest.raises(
        MismatchError, match=r"a was made by the model .*c by other/ \(0123456789ab\).*recode"
    ):
        merge([first, tmp_path / "c"], out)
    with pytest.raises(
        MismatchError,
        match=r"keeps embeddings in int8, and .* keeps no embeddings: make the",
    ):
        merge([first, second], out)
    with pytest.raises(InputError, match="two indexes or more"):
        merge([first], out)
    with pytest.raises(InputError, match="is named twice"):
        merge([first, second, first], out)
    with pytest.raises(InputError, match="there is nothing here"):
        merge([first, tmp_path / "nowhere"], out)
    with pytest.raises(InputError, match="unknown preference 'last'"):
        merge([first, first], out, prefer=cast(Any, "last"))
    assert not out.exists()
    out.mkdir()
    with pytest.raises(InputError, match="exists already"):
        merge([first, first], out, prefer="first")
    assert not list(out.iterdir())


def test_identifiers_that_each_index_numbers_are_not_mixed_up(tmp_path: Path) -> None:
    items = [Item(f"id {number}", "red") for number in range(40)]
    codes = [tuple(code) for code in encode(items).codes.tolist()]
    twin = next(place for place in range(1, 40) if codes[place] == codes[0])
    other = next(place for place in range(1, 40) if codes[place] != codes[0])
    paths = {}
    for place in (0, twin, other):
        paths[place] = tmp_path / str(place)
        model = {"path": "", "fingerprint": "", "identifiers": "numeric"}
        create_index_folder(paths[place], {"model": model, "codes": asdict(GIVEN)})
        with open_made_up(paths[place]) as index:
            index.add([items[place]])
    assert merge([paths[0], paths[other]], tmp_path / "differ").items == 2
    with pytest.raises(MismatchError, match="share numeric identifiers"):
        merge([paths[0], paths[twin]], tmp_path / "share")


# --- splitting


@pytest.mark.parametrize("embeddings", ["int8", "none"])
def test_a_part_and_the_rest(tmp_path: Path, embeddings: KeptEmbeddings) -> None:
    path = made(tmp_path / "all", ITEMS, embeddings)
    with open_made_up(path) as index:
        index.remove(["item-4", "item-5"])
        kept = list(index)
        report = index.split({"number": {"$gte": 9}}, tmp_path / "late", rest=tmp_path / "early")
        assert len(index) == 22
    assert (report.items, report.rest) == (15, 7)
    late = [item for item in kept if cast(int, item.metadata["number"]) >= 9]
    early = [item for item in kept if item not in late]
    for name, items in (("late", late), ("early", early)):
        assert answers_at(tmp_path / name) == answers_at(
            made(tmp_path / f"{name} at once", items, embeddings)
        )
    with open_made_up(tmp_path / "early") as index:
        index.add(made_up_items(26)[24:])
        assert [item.id for item in index][-1] == "item-25"


@settings(max_examples=6)
@given(st.lists(st.sampled_from("xyz"), min_size=1, max_size=14), st.sampled_from(["x", "y", "z"]))
def test_split_and_merged_again_it_is_the_same(kinds: list[str], wanted: str) -> None:
    """With items of equal contents, too, whose order is that in which they were added."""
    with TemporaryDirectory() as folder:
        home = Path(folder)
        items = [
            Item(f"{number:02}", "red", None, {"kind": kind, "even": number % 2 == 0, "number": number})
            for number, kind in enumerate(kinds)
        ]
        path = made(home / "all")
        with SameCodes(path, Catalogue(path), cast(Model, MadeUpModel())) as index:
            for item in items:
                index.add([item])
            before = answers(index)
            if wanted not in kinds:
                with pytest.raises(InputError, match="no item fulfils this filter"):
                    index.split({"kind": wanted}, home / "part", rest=home / "rest")
                return
            index.split({"kind": wanted}, home / "part", rest=home / "rest")
            index.compact()
        for number, order in enumerate((("part", "rest"), ("rest", "part"))):
            merge([home / name for name in order], home / str(number))
            assert answers_at(home / str(number)) == before
            assert fingerprints(home / str(number)) == fingerprints(path)


class SameCodes(MadeUpIndex):
    """An index in which all items have one code and one embedding."""

    @contextmanager
    def _item_encoder(self, cache: Path | None, workers: int) -> Iterator[EncodeItems]:
        def encode_alike(items: Sequence[Item]) -> EncodedItems:
            encoded = encode(items)
            alike = encode([Item("same", "same")])
            count = np.zeros(len(items), np.int64)
            return replace(
                encoded,
                codes=alike.codes[count],
                embeddings=alike.embeddings[count],
                half_sq_norms=alike.half_sq_norms[count],
            )

        yield encode_alike


def test_parts_that_grew_apart_are_merged_like_others(tmp_path: Path) -> None:
    path = made(tmp_path / "all", ITEMS)
    with open_made_up(path) as index:
        index.split({"even": True}, tmp_path / "even", rest=tmp_path / "odd")
    for name in ("even", "odd"):
        with open_made_up(tmp_path / name) as index:
            index.add([Item(name, f"only in {name}", None, {"even": True, "number": 50})])
    merge([tmp_path / "even", tmp_path / "odd"], tmp_path / "merged")
    kept = [*ITEMS[::2], Item("even", "only in even", None, {"even": True, "number": 50}), *ITEMS[1::2]]
    kept.append(Item("odd", "only in odd", None, {"even": True, "number": 50}))
    assert answers_at(tmp_path / "merged") == answers_at(made(tmp_path / "at once", kept))


def test_what_cannot_be_split(tmp_path: Path) -> None:
    path, empty = made(tmp_path / "all", ITEMS[:1]), made(tmp_path / "empty")
    with open_made_up(path) as index, open_made_up(empty) as nothing:
        with pytest.raises(InputError, match="exists already"):
            index.split({"even": True}, path)
        with pytest.raises(InputError, match="exists already"):
            index.split({"even": True}, tmp_path / "out", rest=empty)
        with pytest.raises(InputError, match="a place of its own"):
            index.split({"even": True}, tmp_path / "out", rest=tmp_path / "out")
        with pytest.raises(InputError, match="no item fulfils this filter"):
            index.split({"even": "no"}, tmp_path / "out")
        with pytest.raises(InputError, match="the index is empty"):
            nothing.split({"even": True}, tmp_path / "out")
        with pytest.raises(InputError, match="a filter is a mapping"):
            index.split(cast(Any, "even"), tmp_path / "out")
        assert sorted(place.name for place in tmp_path.iterdir()) == ["all", "empty"]
        assert index.split({"even": True}, tmp_path / "out", rest=tmp_path / "rest").rest == 0
    with open_made_up(tmp_path / "out") as index, open_made_up(tmp_path / "rest") as rest:
        assert len(index) == 1 and not len(rest)
    merge([tmp_path / "rest", tmp_path / "out"], tmp_path / "back")
    assert answers_at(tmp_path / "back") == answers_at(path)


# --- listing


def test_items_that_fulfil_a_filter_are_listed(tmp_path: Path) -> None:
    with open_made_up(made(tmp_path / "all", ITEMS)) as index:
        assert [item.id for item in index.items()] == [item.id for item in ITEMS]
        wanted = [item.id for item in ITEMS if item.metadata["even"]]
        assert [item.id for item in index.items({"even": True})] == wanted
        with index.reading():
            assert [item.id for item in index.items({"even": True})] == wanted
        listed = index.items({"number": {"$gt": 20}})
        first = next(listed)
        index.remove(["item-22"])  # a loop sees the version at its start
        assert [first.id, *(item.id for item in listed)] == ["item-21", "item-22", "item-23"]
        assert not list(index.items({"number": "none"}))
        with pytest.raises(InputError, match="a filter is a mapping"):
            index.items(cast(Any, "even"))


# --- kills


def test_a_kill_leaves_a_whole_index_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [made(tmp_path / "a", ITEMS[:9]), made(tmp_path / "b", ITEMS[9:])]
    expected = answers_at(made(tmp_path / "at once", ITEMS))
    out = tmp_path / "out"
    steps = ("write_index", "_copy_entries", "_write_segment", "_additions")
    for step in steps:
        work = getattr(assembly, step)

        def stopped(*arguments: Any, work: Any = work, **more: Any) -> None:
            work(*arguments, **more)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(assembly, step, stopped)
            patch.setattr("genius.index.merge.write_index", assembly.write_index)
            # As after a kill, nothing cleans up.
            patch.setattr("shutil.rmtree", lambda *_, **__: None)
            with pytest.raises(KeyboardInterrupt):
                merge(parts, out)
        assert not out.exists() and list(tmp_path.glob(".out.part-*"))
    merge(parts, out)
    assert answers_at(out) == expected and not list(tmp_path.glob(".out.part-*"))


def test_where_items_are_from_is_taken_over(tmp_path: Path) -> None:
    """So that a merged index stays in step with the folders of both."""
    for name in "ab":
        with open_made_up(made(tmp_path / name)) as index:
            for item in made_up_items(6):
                index.add([replace(item, id=f"{name}{item.id}")])
            ids = [item.id for item in index]
            index._catalogue.keep_text_files(f"/{name}", ids)
            with index._catalogue._transaction("BEGIN IMMEDIATE"):
                keys = sorted(index._catalogue.keys_of(ids).values())
                index._catalogue._add_read_values({keys[2]: ReadValues(f"as read in {name}", "{}")})
    merge([tmp_path / "a", tmp_path / "b"], tmp_path / "both")
    with open_made_up(tmp_path / "both") as both:
        catalogue = both._catalogue
        names = {key: entry.id for key, entry in catalogue.walk()}
        textual = {item.id for item in both if item.image is None}
        folders = {names[key]: folder for key, folder in catalogue.text_folders(names).items()}
        assert folders == {id: f"/{id[0]}" for id in textual} and len(folders) > 1
        assert sorted(read.text or "" for read in catalogue.read_values(names).values()) == [
            "as read in a",
            "as read in b",
        ]
        for name in "ab":
            with open_made_up(tmp_path / name) as index:
                own = {names[key]: at for key, at in catalogue.additions()}
                times = dict(index._catalogue.additions())
                for key, entry in index._catalogue.walk():
                    assert own[entry.id] == times[key]
