"""An index that is changed while it is open, against items in a dict whose scores are all computed."""

from __future__ import annotations

import shutil
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from genius.data.records import ImageBytes, ImageFile, Item
from genius.errors import GeniusError, InputError
from genius.index import writer
from genius.index.hits import Hit
from genius.index.inspect import describe
from genius.index.locks import opening_segments
from genius.index.near_misses import NO_MATCH
from genius.search.engine import MAX_BEAMS
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, encode, open_made_up, scores_for, scores_for_text
from tests.oracles.filters import fulfils

IDS = st.sampled_from([f"id {n}" for n in range(12)])
TEXTS = st.sampled_from(["a dog", "a cat", "red", "blue", "the sea"])
IMAGES = st.sampled_from([ImageBytes(b"one", "1.png"), ImageBytes(b"two", "2.png")])
METADATA = st.dictionaries(
    st.sampled_from(["price", "brand"]), st.sampled_from([1, 2.5, 7, "acme", "b"]), max_size=2
)
ITEMS = st.builds(Item, IDS, TEXTS, st.none() | IMAGES, METADATA)
FILTERS: list[dict[str, Any] | None] = [
    None,
    {"price": {"$lt": 3}},
    {"brand": "acme"},
    {"$or": [{"brand": {"$exists": False}}, {"price": {"$in": [7, "b"]}}]},
    {"price": "nothing"},
]


def fields(item: Item) -> tuple[Any, ...]:
    return item.id, item.text, item.image and item.image.read(), dict(item.metadata)


def check_order(hits: list[Hit], scores: dict[str, float], k: int) -> None:
    """Whether these are the k best by their scores."""
    best = sorted(scores.values(), reverse=True)[:k]
    assert [hit.score for hit in hits] == pytest.approx(best, abs=1e-4)
    for hit in hits:
        assert hit.score == pytest.approx(scores[hit.item.id], abs=1e-4)
    assert len({hit.item.id for hit in hits}) == len(hits)


class ChangedIndex(RuleBasedStateMachine):
    """Any series of changes, searches and openings."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.index = open_made_up(self.folder / "index")
        self.reader = open_made_up(self.folder / "index")
        self.items: dict[str, Item] = {}

    def teardown(self) -> None:
        self.index.close()
        self.reader.close()
        shutil.rmtree(self.folder)

    @rule(items=st.lists(ITEMS, min_size=1, max_size=5))
    def add(self, items: list[Item]) -> None:
        report = self.index.add(items)
        assert report.added == len({item.id for item in items} - set(self.items))
        self.items |= {item.id: item for item in items}

    @rule(item=ITEMS)
    def update_by_an_item(self, item: Item) -> None:
        old = self.items.get(item.id)
        report = self.index.update([item])
        assert report.failures.count == (old is None)
        if old is not None:
            metadata = {**old.metadata, **item.metadata}
            self.items[item.id] = Item(item.id, item.text or old.text, item.image or old.image, metadata)

    @precondition(lambda self: self.items)
    @rule(data=st.data(), metadata=METADATA | st.none())
    def update_metadata(self, data: st.DataObject, metadata: dict[str, Any] | None) -> None:
        old = self.items[data.draw(st.sampled_from(sorted(self.items)))]
        before = describe(self.index.path)["segments"]
        self.index.update([{"id": old.id, "metadata": metadata}])
        assert describe(self.index.path)["segments"] == before
        new = {} if metadata is None else {**old.metadata, **metadata}
        self.items[old.id] = Item(old.id, old.text, old.image, new)

    @rule(ids=st.lists(IDS, max_size=4))
    def remove(self, ids: list[str]) -> None:
        known = set(ids) & set(self.items)
        assert self.index.remove(ids) == len(known)
        for id in known:
            del self.items[id]

    @rule()
    def compact(self) -> None:
        self.index.compact()
        about = describe(self.index.path, verify=True)
        assert (about["segments"], about["tombstones"]) == (min(1, len(self.items)), 0)
        assert len(list((self.index.path / "segments").iterdir())) == about["segments"]

    @rule()
    def reopen(self) -> None:
        self.index.close()
        self.index = open_made_up(self.folder / "index")

    @rule(
        text=TEXTS,
        k=st.integers(1, 13),
        filter=st.sampled_from(FILTERS),
        exclude=st.lists(IDS, max_size=2),
        mode=st.sampled_from(["auto", "scan"]),
    )
    def search(self, text: str, k: int, filter: dict[str, Any] | None, exclude: list[str], mode: Any) -> None:
        left = {
            id: item
            for id, item in self.items.items()
            if id not in exclude and fulfils(dict(item.metadata), filter or {})
        }
        for index in (self.index, self.reader):
            hits = index.search(text, k=k, filter=filter, exclude=exclude, mode=mode)
            check_order(hits, scores_for_text(left, text), k)
            for hit in hits:
                assert fields(hit.item) == fields(left[hit.item.id])

    @precondition(lambda self: self.items)
    @rule(data=st.data(), k=st.integers(1, 13), filter=st.sampled_from(FILTERS))
    def near(self, data: st.DataObject, k: int, filter: dict[str, Any] | None) -> None:
        item = self.items[data.draw(st.sampled_from(sorted(self.items)))]
        encoded = encode([item])
        vector = self.index.model.quantizer.reconstruct(encoded.codes)[0]
        left = {id: other for id, other in self.items.items() if fulfils(dict(other.metadata), filter or {})}
        left.pop(item.id, None)
        hits = self.reader.search(near=item.id, k=k, filter=filter, mode="scan")
        check_order(hits, scores_for(left, encoded.embeddings[0].astype(np.float32), vector), k)

    @invariant()
    def all_items_are_stored(self) -> None:
        assert {item.id: fields(item) for item in self.index} == {
            id: fields(item) for id, item in self.items.items()
        }
        assert len(self.index) == len(self.reader) == len(self.items)


TestChangedIndex = ChangedIndex.TestCase
TestChangedIndex.settings = settings(max_examples=15, stateful_step_count=20, deadline=None)


@pytest.fixture
def index(tmp_path: Path) -> MadeUpIndex:
    return open_made_up(tmp_path / "index")


def answers(index: MadeUpIndex) -> list[list[tuple[Any, ...]]]:
    return [
        [(hit.item.id, hit.score, hit.code, hit.log_probabilities, hit.prefix_counts) for hit in hits]
        for mode in ("auto", "scan", "paper", "fast", "exact")
        for hits in index.search_many(["a dog", "a cat", "red", "blue"], k=20, mode=mode)
    ]


def test_a_fifth_added_live_is_found_as_in_a_rebuilt_index_and_compacted_it_is_one(
    index: MadeUpIndex, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "QUICK_MERGE", 8)  # so that both ways of merging are taken
    items = made_up_items(100)
    index.add(items[:80])
    for start in [*range(80, 90), 90, 95]:
        index.add(items[start : start + (1 if start < 90 else 5)])
    rebuilt = open_made_up(tmp_path / "rebuilt")
    rebuilt.add(items)
    assert 1 < describe(index.path)["segments"] <= 5
    assert answers(index) == answers(rebuilt)
    index.compact()
    assert answers(index) == answers(rebuilt)
    (segment,), (expected,) = index._catalogue.segments(), rebuilt._catalogue.segments()
    assert segment.fingerprint == expected.fingerprint
    for checked in (index, rebuilt):
        describe(checked.path, verify=True)
        checked.close()


def test_text_and_image_change_apart(index: MadeUpIndex, tmp_path: Path) -> None:
    image = ImageBytes(b"picture", "p.png")
    index.add([Item("a", "A text", image, {"price": 3, "brand": "acme"}), Item("b", "Another")])
    index.update([Item("a", "A new text", None, {"price": 4})])
    (item,) = [item for item in index if item.id == "a"]
    assert fields(item) == ("a", "A new text", b"picture", {"price": 4, "brand": "acme"})
    report = index.update([{"id": "a", "image": None}, {"id": "b", "image": b"new"}])
    assert (report.replaced, report.failures.count) == (2, 0)
    assert [item.modality for item in sorted(index, key=lambda item: item.id)] == ["text", "pair"]
    report = index.update(
        [
            {"id": "a", "text": None},
            {"id": "nobody", "text": "x"},
            {"id": "a", "title": "x"},
            {"id": "b", "text": 5},
            {"id": "b", "metadata": [1]},
            {"id": "b", "image": tmp_path / "gone.png"},
            Item("\ud800", "x"),
        ]
    )
    for error, message in zip(
        report.failures.first,
        (
            "has neither text nor image",
            "is not in the index: add it",
            "unknown field 'title'",
            "a text should be",
            "metadata should",
            "no such image",
            "is not in the index",
        ),
        strict=True,
    ):
        assert message in str(error)
    with pytest.raises(InputError, match="item 'nobody': is not in the index"):
        index.update([Item("nobody", "x")], strict=True)
    with pytest.raises(InputError, match="needs the id of an item"):
        index.update([{"text": "x"}])
    with pytest.raises(InputError, match="give it to update"):
        index.add([{"id": "a", "text": "x"}])  # type: ignore[list-item]
    index.close()


def test_metadata_change_though_the_image_is_gone(index: MadeUpIndex, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"picture")
    index.add([Item("a", "A text", ImageFile(str(tmp_path), "a.png"), {"price": 3})])
    (tmp_path / "a.png").unlink()
    assert index.update([{"id": "a", "metadata": {"price": 4}}], strict=True).replaced == 1
    assert index.update([{"id": "a", "metadata": {"price": 4}}], strict=True).known == 1
    assert [hit.item.id for hit in index.search("text", filter={"price": 4})] == ["a"]
    assert index.update([{"id": "a", "metadata": {"half": "\ud800"}}]).failures.count == 1
    index.close()


def test_what_is_changed_twice_at_once_is_changed_twice(index: MadeUpIndex) -> None:
    index.add([Item("a", "one", None, {"n": 1})])
    report = index.update([{"id": "a", "metadata": {"n": 2}}, {"id": "a", "text": "two"}, Item("a", "three")])
    assert report.replaced == 3
    assert [fields(item) for item in index] == [("a", "three", None, {"n": 2})]
    assert index.remove("a") == 1
    assert index.search("three") == []
    assert index.search("three").notes == ("the index is empty: add items first",)
    index.close()


def test_bad_searches_are_refused(index: MadeUpIndex) -> None:
    index.add(made_up_items(4))
    with pytest.raises(InputError, match="'nobody' is not in the index"):
        index.search(near="nobody")
    with pytest.raises(InputError, match="near an item, or by a query"):
        index.search("text", near="item-1")
    with pytest.raises(InputError, match="unknown operator"):
        index.search("text", filter={"a": {"$lo": 1}})
    with pytest.raises(InputError, match="whole Unicode"):
        index.remove(["\ud800"])
    hits = index.search("text", filter={"number": 99})
    assert (list(hits), hits.notes) == ([], (NO_MATCH,))
    assert index.search("text", filter={"number": 1}, want="image") == []
    index.close()


def test_segments_stay_while_a_reader_may_open_them(index: MadeUpIndex) -> None:
    index.add(made_up_items(9))
    reader = open_made_up(index.path)
    with reader._reading() as old:
        index.add([Item("new", "new")])
        with opening_segments(index.path):
            assert index.compact().after == 1
            assert len(list((index.path / "segments").iterdir())) > 1
        index.compact()
        assert len(list((index.path / "segments").iterdir())) == 1
        # The version that is being read is whole, though its files have no names any more.
        assert len(old.searcher) == len(reader) == 9
        assert len({entry.id for _, entry in reader._catalogue.walk()}) == 9
        assert sorted(old.segments[1].embeddings[:, 0].tolist()) == sorted(
            encode(made_up_items(9)).embeddings[:, 0].tolist()
        )
    assert len(reader.search("new", k=99)) == 10
    reader.close()
    index.close()


def test_threads_of_a_process_take_turns(index: MadeUpIndex) -> None:
    errors: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for n in range(3):
                index.add([Item(f"{number} {n}", "text")])
                index.search("text", filter={"a": None})
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
    assert len(index) == 12
    describe(index.path, verify=True)
    index.close()


def test_compacting_frees_the_space_of_removed_images(index: MadeUpIndex) -> None:
    items = [Item(f"{n}", None, ImageBytes(bytes([n]) * 20_000, f"{n}.png")) for n in range(50)]
    index.add([*items, Item("text", "text")])
    index.remove([item.id for item in items[1:]])
    before = describe(index.path)["bytes"]
    index.compact()
    assert describe(index.path)["bytes"] < before - 49 * 20_000
    (kept,) = [item.image for item in index if item.image is not None]
    assert kept.read() == bytes([0]) * 20_000
    assert index.compact() == writer.Compacted(1, 1, 0)
    index.remove(item.id for item in index)
    assert index.compact() == writer.Compacted(1, 0, 2)
    assert len(index) == 0
    assert describe(index.path, verify=True)["segments"] == 0
    index.close()


def test_an_id_with_a_zero_byte_is_nobodys(tmp_path: Path) -> None:
    """SQLite's JSON ends a text there: it would be taken for the item whose id is what stands before."""
    with open_made_up(tmp_path / "index") as index:
        index.add([Item("b", "a dog"), Item("c", "a cat")])
        assert index.remove("b\0zz") == 0 and "b\0zz" not in index
        assert {hit.item.id for hit in index.search("red", exclude=["b\0zz"])} == {"b", "c"}
        with pytest.raises(InputError, match="an id is a text"):
            index.remove([42])  # type: ignore[list-item]


def test_items_that_change_the_index_themselves_are_refused(tmp_path: Path) -> None:
    with open_made_up(tmp_path / "index") as index:
        index.add([Item("a", "a dog")])

        def items() -> Iterator[Item]:
            yield Item("b", "a cat")
            index.remove("a")

        with pytest.raises(GeniusError, match="is being changed by this thread"):
            index.add(items())
        index.add([Item("c", "red")])
        assert {"a", "c"} <= {item.id for item in index}


def test_one_text_is_not_several_queries(tmp_path: Path) -> None:
    with (
        open_made_up(tmp_path / "index") as index,
        pytest.raises(InputError, match="search_many takes several queries"),
    ):
        index.search_many("cat")


def test_more_beams_than_items_find_what_as_many_beams_find(tmp_path: Path) -> None:
    with open_made_up(tmp_path / "index") as index:
        index.add(made_up_items(30))
        few, many = (index.search("red", k=30, beam=beam, mode="paper") for beam in (30, MAX_BEAMS))
        assert [hit.item.id for hit in many] == [hit.item.id for hit in few]
