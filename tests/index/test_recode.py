"""A collection that moves to another model: stopped and continued, beside an index that lives on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, cast

import numpy as np
import pytest

from genius.data.images import image_source
from genius.data.records import ImageFile, Item
from genius.errors import InputError, ItemError, MismatchError
from genius.index import index as index_module
from genius.index.catalogue import Catalogue
from genius.index.index import Index
from genius.index.inspect import describe
from genius.index.item_encoder import EncodedItems, EncodeItems
from genius.model import Model
from tests.index.made_up import GIVEN, made_up_items
from tests.index.made_up_index import MadeUpModel, encode, made, open_made_up


class NewModel(MadeUpModel):
    """Another model: its codes are those of the other one, the other way round."""

    name, fingerprint = "new model", "new"

    def prepare(self, *, offline: bool = False) -> None:
        """It needs nothing."""


def turned(items: Sequence[Item]) -> EncodedItems:
    encoded = encode(items)
    codes = encoded.codes.copy()
    codes[:, 1:] = 3 - codes[:, 1:]
    return replace(encoded, codes=codes)


class RecodedIndex(Index):
    """An index whose items are encoded by the new model; it counts them."""

    encoded: ClassVar[list[str]] = []
    stop_at: int | None = None

    @contextmanager
    def _item_encoder(self, cache: Path | None, workers: int) -> Iterator[EncodeItems]:
        def encode_or_stop(items: Sequence[Item]) -> EncodedItems:
            if self.stop_at is not None and len(self.encoded) >= self.stop_at:
                raise KeyboardInterrupt
            self.encoded.extend(item.id for item in items)
            gone = {
                item.id: InputError("its image is gone")
                for item in items
                if isinstance(item.image, ImageFile) and not item.image.file.exists()
            }
            places = np.array([place for place, item in enumerate(items) if item.id not in gone], np.int64)
            done = turned([items[place] for place in places])
            return replace(done, places=places[done.places], failed=gone)

        yield encode_or_stop


@pytest.fixture(autouse=True)
def _any_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_module, "_open_model", lambda model: model)
    monkeypatch.setattr(RecodedIndex, "encoded", [])
    monkeypatch.setattr("genius.index.ingest.CHUNK", 4)
    monkeypatch.setattr("genius.index.recode.CHUNK", 3)
    monkeypatch.setattr("genius.index.writer.FULL_BLOCK", 8)


def opened(path: Path) -> RecodedIndex:
    """The old index, whose kind the new one will have."""
    return RecodedIndex(path, Catalogue(path), cast(Model, MadeUpModel()))


NEW = cast(Any, NewModel())


def check_moved(path: Path, items: Sequence[Item]) -> None:
    expected = {item.id: tuple(code) for item, code in zip(items, turned(items).codes.tolist(), strict=True)}
    assert describe(path, verify=True)["model"]["fingerprint"] == "new"
    with RecodedIndex.open(path, NEW) as index:
        assert {item.id: index.code(item.id) for item in index} == expected
        contents = {item.id: (item.text, item.image and item.image.read(), item.metadata) for item in index}
        assert contents == {
            item.id: (item.text, item.image and item.image.read(), item.metadata) for item in items
        }


def test_a_collection_moves_and_the_old_index_stays(tmp_path: Path) -> None:
    items = made_up_items(20)
    old, out = made(tmp_path / "old", items), tmp_path / "new"
    before = {file: file.read_bytes() for file in (old / "segments").rglob("*") if file.is_file()}
    with opened(old) as index:
        report = index.recode(NEW, out)
        assert (report.added, report.known, report.failures.count) == (20, 0, 0)
        again = index.recode(NEW, out)
        assert (again.added, again.known) == (0, 20)
        assert index.search("a dog", k=3)
    check_moved(out, items)
    assert len(RecodedIndex.encoded) == 20
    assert before == {file: file.read_bytes() for file in (old / "segments").rglob("*") if file.is_file()}


def test_a_stopped_move_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    items = made_up_items(20)
    old, out = made(tmp_path / "old", items), tmp_path / "new"
    with opened(old) as index:
        monkeypatch.setattr(RecodedIndex, "stop_at", 12)
        with pytest.raises(KeyboardInterrupt):
            index.recode(NEW, out)
        with RecodedIndex.open(out, NEW) as part:
            assert 0 < len(part) < 20
            begun = len(part)
        monkeypatch.setattr(RecodedIndex, "stop_at", None)
        index.remove(["item-0"])
        index.add([Item("more", "added meanwhile"), replace(items[1], text="changed meanwhile")])
        RecodedIndex.encoded.clear()
        report = index.recode(NEW, out)
        assert report.known == begun - 2 and report.replaced == 1
        assert len(RecodedIndex.encoded) == 20 - begun + 2
    kept = [
        items[0],
        *items[2:],
        replace(items[1], text="changed meanwhile"),
        Item("more", "added meanwhile"),
    ]
    check_moved(out, kept)  # what was removed meanwhile is there: it had moved already


def test_an_image_that_is_gone_is_a_failure(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.jpg").write_bytes(name.encode())
    items = [Item(name, None, image_source(tmp_path / f"{name}.jpg")) for name in ("a", "b")]
    old = made(tmp_path / "old", [*items, Item("c", "a text")])
    (tmp_path / "a.jpg").unlink()
    heard: list[InputError] = []
    with opened(old) as index:
        report = index.recode(NEW, tmp_path / "new", on_failure=heard.append)
        assert (report.added, report.failures.count) == (2, 1)
        assert isinstance(heard[0], ItemError) and heard[0].id == "a"
        with pytest.raises(ItemError, match="item 'a'"):
            index.recode(NEW, tmp_path / "strict", strict=True)
        (tmp_path / "a.jpg").write_bytes(b"a")  # it is back
        report = index.recode(NEW, tmp_path / "new")
        assert (report.added, report.known, report.failures.count) == (1, 2, 0)
        (tmp_path / "b.jpg").unlink()  # what has moved is not opened again
        report = index.recode(NEW, tmp_path / "new")
        assert (report.added, report.known, report.failures.count) == (0, 3, 0)


def test_instructions_and_sources_move_too(tmp_path: Path) -> None:
    old = made(tmp_path / "old", made_up_items(2))
    with opened(old) as index:
        index._catalogue.add_instructions({"Find an image.": 0})
        index._catalogue.keep_sources([{"path": "/photos", "kind": "folder", "prefix": ""}])
        index.recode(NEW, tmp_path / "new", embeddings="none")
    with RecodedIndex.open(tmp_path / "new", NEW) as index:
        assert index._catalogue.instructions() == {"Find an image.": 0}
        assert [source["path"] for source in index._catalogue.sources()] == ["/photos"]
        assert index.format == replace(GIVEN, embeddings="none")


def test_bad_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, other = made(tmp_path / "old", made_up_items(2)), made(tmp_path / "other", made_up_items(1))
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "file").touch()
    with opened(old) as index, opened(other) as another, opened(made(tmp_path / "empty")) as empty:
        for place in (old, other):
            with pytest.raises(InputError, match="is an index of its own"):
                index.recode(NEW, place)
        with pytest.raises(InputError, match="holds something else"):
            index.recode(NEW, tmp_path / "taken")
        index.recode(NEW, tmp_path / "new")
        with pytest.raises(InputError, match=r"is what .*old was moved to, and does not come from .*other"):
            another.recode(NEW, tmp_path / "new")
        with pytest.raises(InputError, match="was begun with the embeddings int8"):
            index.recode(NEW, tmp_path / "new", embeddings="fp16")
        newer = NewModel()
        newer.fingerprint = "newer"
        with pytest.raises(MismatchError, match="was made by the model new"):
            index.recode(cast(Any, newer), tmp_path / "new")
        assert empty.recode(NEW, tmp_path / "nothing").added == 0
        monkeypatch.setattr(NewModel, "takes_vectors", True)
        with pytest.raises(InputError, match="takes vectors of one's own"):
            index.recode(NEW, tmp_path / "vectors")
    assert not (tmp_path / "vectors").exists()
    with open_made_up(old) as index:
        assert len(index) == 2
