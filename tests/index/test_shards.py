"""Sharded indexes against whole ones: the same items, hits, scores, cells and reports; and damaged ones."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from genius.collection.duplicates import DuplicateGroup
from genius.data.records import Item
from genius.errors import DamagedError, GeniusError, InputError, MismatchError
from genius.index.catalogue import Catalogue
from genius.index.inspect import describe
from genius.index.merge import merge
from genius.index.shards import FILE, shard_of
from genius.index.snapshot import create_index_folder
from tests.index.index_answers import answers
from tests.index.made_up import made_up_items
from tests.index.made_up_index import MadeUpIndex, made, open_made_up

ITEMS = made_up_items(60)
WORDS = ("a dog", "the sea", "red", "", "a lighthouse at night")
MODES: tuple[Any, ...] = ("auto", "fast", "safe", "exact", "scan", "paper")


def change(index: MadeUpIndex) -> None:
    """Everything that changes an index, in several commits."""
    index.add([Item("item-3", "another text"), Item("new", "brought later"), Item("item-9", "bad")])
    index.update([{"id": "item-4", "metadata": {"number": -1}}, {"id": "item-7", "text": "changed"}])
    assert index.remove(["item-1", "item-30", "item-31", "nothing"]) == 3
    index.add([Item("item-1", "back again", metadata={"number": 1000})])


@pytest.mark.parametrize("shards", [2, 3, 7])
def test_a_sharded_index_equals_a_whole_one(tmp_path: Path, shards: int) -> None:
    paths = made(tmp_path / "whole", ITEMS), made(tmp_path / "sharded", ITEMS, shards=shards)
    with open_made_up(paths[0]) as whole, open_made_up(paths[1]) as sharded:
        assert answers(sharded) == answers(whole)
        change(whole)
        change(sharded)
        assert len(sharded) == len(whole)
        assert answers(sharded) == answers(whole)
        for mode in MODES:
            for text in WORDS[:3]:
                options: Any = {
                    "k": 100,
                    "mode": mode,
                    "exclude": ["item-5", "item-12"],
                    "filter": {"even": True},
                }
                hits, expected = sharded.search(text, **options), whole.search(text, **options)
                assert [(hit.item.id, hit.score) for hit in hits] == [
                    (hit.item.id, hit.score) for hit in expected
                ]
                assert [hit.item.id for hit in hits.plain] == [hit.item.id for hit in expected.plain]
        assert sharded.facets() == whole.facets()
        for prefix in ((), (0,), (2, 1), (None, 2)):
            assert sharded.cell(prefix) == whole.cell(prefix)
        np.testing.assert_array_equal(sharded.first_codes(), whole.first_codes())
        before = answers(sharded)
        sharded.compact()
        assert answers(sharded) == before
    assert describe(paths[1], verify=True)["shards"] == shards


def test_items_are_where_the_hash_of_their_id_says(tmp_path: Path) -> None:
    path = made(tmp_path / "sharded", ITEMS, shards=3)
    keys: list[int] = []
    for number in range(3):
        catalogue = Catalogue(path / f"shard-{number:02d}")
        held = list(catalogue.walk())
        assert {entry.id for _, entry in held} == {
            item.id for item in ITEMS if shard_of(item.id, 3) == number
        }
        keys += [key for key, _ in held]
        catalogue.close()
    assert sorted(keys) == list(range(1, 61))
    assert [shard_of(str(number), 7) for number in range(8)] == [
        int.from_bytes(hashlib.blake2b(str(number).encode(), digest_size=16).digest()[:8], "big") % 7
        for number in range(8)
    ]


def test_another_index_may_take_the_place_of_a_sharded_one(tmp_path: Path) -> None:
    for shards in (2, 3):
        path = made(tmp_path / "sharded", ITEMS, shards=shards)
        with open_made_up(path) as index:
            images = {item.id: item.image.read() for item in index if item.image is not None}
        assert images == {item.id: item.image.read() for item in ITEMS if item.image is not None}
        shutil.rmtree(path)


TWICE = [Item(f"again-{number}", f"The text of {number}") for number in (1, 4, 7, 10)]


def ids_of_groups(groups: Iterable[DuplicateGroup]) -> list[list[str]]:
    ids = [[item.id for item in group.items] for group in groups]
    assert len(ids) > 2
    return ids


VERBS: dict[str, Callable[[MadeUpIndex], Any]] = {
    "duplicates exact": lambda index: ids_of_groups(index.duplicates("exact").groups),
    "duplicates near": lambda index: ids_of_groups(index.duplicates("near", similarity=0.6).groups),
    "sample spread": lambda index: [item.id for item in index.sample(9, "spread")],
    "sample typical": lambda index: [item.id for item in index.sample(9, "typical")],
    "sample per-cell": lambda index: [item.id for item in index.sample(9, "per-cell")],
    "list": lambda index: [item.id for item in index.items({"even": True})],
    "page": lambda index: [(key, item.id, item.metadata) for key, item in index.page(7, 9)],
    "confidence": lambda index: [hit.confidence for hit in index.search(near="item-2", k=20)],
}


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_says_of_shards_what_it_says_of_a_whole(tmp_path: Path, verb: str) -> None:
    items = ITEMS + TWICE
    paths = made(tmp_path / "whole", items), made(tmp_path / "sharded", items, shards=3)
    with open_made_up(paths[0]) as whole, open_made_up(paths[1]) as sharded:
        whole.compact()
        assert VERBS[verb](sharded) == VERBS[verb](whole)


def test_shards_are_merged_exported_and_split(tmp_path: Path) -> None:
    paths = made(tmp_path / "whole", ITEMS), made(tmp_path / "sharded", ITEMS, shards=3)
    report = merge([paths[1]], tmp_path / "merged")
    assert (report.items, report.from_each) == (60, (60,))
    with open_made_up(paths[0]) as whole, open_made_up(paths[1]) as sharded:
        for index, name in ((whole, "whole"), (sharded, "sharded")):
            index.export(tmp_path / f"{name}.jsonl", codes=True, embeddings=True, images=tmp_path / "images")
            index.split({"even": True}, tmp_path / f"{name}-even", rest=tmp_path / f"{name}-odd")
        expected = answers(whole)
    assert (tmp_path / "sharded.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    with open_made_up(tmp_path / "merged") as merged:
        assert answers(merged) == expected
        merged.add([Item("next", "goes on as one index")])
    with open_made_up(tmp_path / "sharded-even") as sharded, open_made_up(tmp_path / "whole-even") as other:
        assert answers(sharded) == answers(other)


def test_a_running_reader_sees_what_another_one_writes(tmp_path: Path) -> None:
    path = made(tmp_path / "sharded", ITEMS[:20], shards=3)
    with open_made_up(path) as reader, open_made_up(path) as writer:
        assert len(reader.search("red", k=100)) == 20
        writer.add(ITEMS[20:])
        assert len(reader.search("red", k=100)) == 60
        walk = reader.items()
        first = next(walk)
        writer.remove([item.id for item in ITEMS[:30]])
        assert [first.id, *(item.id for item in walk)] == [item.id for item in ITEMS]
        assert reader.version == writer.version


def test_what_would_break_the_whole_is_refused(tmp_path: Path) -> None:
    path = made(tmp_path / "sharded", ITEMS[:9], shards=2)
    with (
        open_made_up(path) as index,
        pytest.raises(InputError, match="sync takes a whole one"),
    ):
        index.plan_sync(tmp_path)
    with open_made_up(path / "shard-00") as shard:
        assert len(shard.search("red", k=100)) == len(shard)  # it is an ordinary index
        with pytest.raises(InputError, match="change the whole"):
            shard.add([Item("x", "y")])
        with (
            open_made_up(path) as index,
            open_made_up(path) as other,
            index._writing(),
            pytest.raises(GeniusError, match="another process"),
        ):
            other.remove("item-1")


@pytest.mark.parametrize("count", [0, 1, -2, 11, True])
def test_a_number_of_shards_that_makes_no_sense(tmp_path: Path, count: int) -> None:
    with pytest.raises(InputError, match="2 to 10 shards"):
        create_index_folder(tmp_path / "index", {}, count)
    assert not (tmp_path / "index").exists()


def _gone(path: Path) -> None:
    shutil.rmtree(path / "shard-01")


def _emptied(path: Path) -> None:
    (path / "shard-01/catalogue.sqlite").unlink()


def _exchanged(path: Path) -> None:
    (path / "shard-01").rename(path / "aside")
    (path / "shard-02").rename(path / "shard-01")
    (path / "aside").rename(path / "shard-02")


def _foreign(path: Path) -> None:
    _gone(path)
    shutil.copytree(path.parent / "other" / "shard-01", path / "shard-01")


def _other_model(path: Path) -> None:
    catalogue = Catalogue(path / "shard-01")
    changed = orjson.dumps({"path": "", "fingerprint": "another"}).decode()
    with catalogue._changing():
        catalogue._query("UPDATE settings SET value = ? WHERE name = 'model'", changed)
    catalogue.close()


def _torn(path: Path) -> None:
    (path / FILE).write_bytes((path / FILE).read_bytes()[:-9])


def _climbing(path: Path) -> None:
    fields = orjson.loads((path / FILE).read_bytes())
    (path / FILE).write_bytes(orjson.dumps({**fields, "shards": ["..", "shard-00"]}))


def _later(path: Path) -> None:
    fields = orjson.loads((path / FILE).read_bytes())
    (path / FILE).write_bytes(orjson.dumps({**fields, "format": 2}))


def _damaged(path: Path) -> None:
    segment = next((path / "shard-01/segments").iterdir())
    file = segment / "item_keys.npy"
    file.write_bytes(file.read_bytes()[:-1] + b"\7")


@pytest.mark.parametrize(
    ("break_it", "kind", "said"),
    [
        (_gone, DamagedError, "shard-01 is gone: bring it back"),
        (_emptied, InputError, "shard-01: is no index"),
        (_exchanged, MismatchError, "shard-01 is not shard 2 of"),
        (_foreign, MismatchError, "shard-01 is not shard 2 of"),
        (_other_model, MismatchError, "made by the model another, but .*shard-00 by"),
        (_torn, DamagedError, "shards.json is damaged: take a copy of it, or join"),
        (_climbing, DamagedError, "shards.json is damaged"),
        (_later, MismatchError, "has format 2, but this genius reads 1"),
        (_damaged, DamagedError, "shard-01.*item_keys"),
    ],
)
def test_a_broken_sharded_index_is_a_sentence(
    tmp_path: Path, break_it: Callable[[Path], None], kind: type[GeniusError], said: str
) -> None:
    path = made(tmp_path / "sharded", ITEMS[:20], shards=3)
    made(tmp_path / "other", ITEMS[:20], shards=3)
    break_it(path)
    with pytest.raises(kind, match=said), open_made_up(path):
        pass
    with pytest.raises(kind, match=said):
        describe(path)
