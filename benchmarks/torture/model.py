"""The model test: random operations on an index, beside a dictionary and exhaustive scoring.

A failing series is made shorter as long as it fails, and written as a script of operations, which
`python -m torture.model FILE` runs again.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from genius.data.records import ImageBytes, Item, Modality
from genius.data.records import Query as TextQuery
from genius.index.inspect import describe
from genius.index.shards import shard_of
from tests.faults.planned_changes import use_small_blocks
from tests.index.made_up import quantized
from tests.index.made_up_index import CODEBOOKS, MadeUpIndex, MadeUpModel, encode, made, open_made_up
from tests.oracles.filters import fulfils
from torture.scenario import Outcome, Scenario, Trial, scratch
from torture.searching_process import SearchingProcess

Operation = list[Any]
"""A name and its arguments, as JSON can write them."""

OPERATIONS = 400
"""Of a trial."""
SHARDED = 0.3
"""The share of series on an index of 2 to 4 shards."""
RESTART = 0.01
"""The probability that an index is closed and opened between two operations."""
TOLERANCE = 1e-3
"""Of scores up to about 30, which an index computes in single precision, and from half precision."""
SHRINKING = 300
"""Shorter series that are tried, at most,"""
SHRINKING_SECONDS = 300.0
"""within so much time: a failure should not look like a trial that hangs."""
IDS = [f"id {number}" for number in range(40)]
TEXTS = ["a dog", "a cat", "red", "blue", "the sea", "ein Hund"]
IMAGES = ["one", "two"]
FILTERS: list[Any] = [
    None,
    None,
    None,
    {"price": {"$lt": 3}},
    {"brand": "acme"},
    {"$or": [{"brand": {"$exists": False}}, {"price": {"$in": [7, "b"]}}]},
    {"price": "nothing"},
]
MODES = ["auto", "scan", "paper", "fast", "safe", "exact"]
SCANS = {"auto", "scan"}
"""Modes that compare all of so few items, and so give the best of all."""
_MODEL = MadeUpModel()
_QUERIES = {text: _MODEL.fusion_inputs([TextQuery(text=text)]).embeddings[0] for text in TEXTS}


# --- drawing operations


def series(dice: random.Random) -> list[Operation]:
    """The operations of a trial."""
    first = [["shards", dice.randint(2, 4)]] if dice.random() < SHARDED else []
    return [*first, *(drawn(dice) for _ in range(OPERATIONS))]


def drawn(dice: random.Random) -> Operation:
    """The next operation of a series."""
    kinds = {
        _search: 60,
        _near: 8,
        _add: 12,
        _update: 7,
        _remove: 6,
        _browse: 3,
        _look: 2,
        _compact: 1,
        _all: 1,
    }
    if dice.random() < RESTART:
        return ["restart"]
    return dice.choices(list(kinds), list(kinds.values()))[0](dice)


def _item(dice: random.Random) -> dict[str, Any]:
    image = dice.choice([None, *IMAGES])
    text = dice.choice([*TEXTS, None]) if image else dice.choice(TEXTS)
    return {"id": dice.choice(IDS), "text": text, "image": image, "metadata": _metadata(dice)}


def _metadata(dice: random.Random) -> dict[str, Any]:
    values = {"price": dice.choice([1, 2.5, 7]), "brand": dice.choice(["acme", "b"])}
    return {key: value for key, value in values.items() if dice.random() < 0.6}


def _add(dice: random.Random) -> Operation:
    return ["add", [_item(dice) for _ in range(dice.choice([1, 1, 1, 2, 8]))]]


def _update(dice: random.Random) -> Operation:
    change = dice.choice([{"metadata": _metadata(dice)}, {"metadata": None}, {"text": dice.choice(TEXTS)}])
    return ["update", dice.choice(IDS), change]


def _remove(dice: random.Random) -> Operation:
    return ["remove", dice.sample(IDS, dice.choice([1, 1, 2, 6]))]


def _compact(dice: random.Random) -> Operation:
    return ["compact"]


def _all(dice: random.Random) -> Operation:
    return ["all"]


def _look(dice: random.Random) -> Operation:
    return ["look", dice.choice(IDS)]


def _options(dice: random.Random) -> dict[str, Any]:
    options: dict[str, Any] = {"k": dice.choice([1, 3, 10, 50]), "filter": dice.choice(FILTERS)}
    if dice.random() < 0.3:
        options["want"] = dice.choice(["image", "text", "pair"])
    if dice.random() < 0.2:
        options["exclude"] = dice.sample(IDS, 2)
    return options


def _browse(dice: random.Random) -> Operation:
    return ["browse", _options(dice)]


def _search(dice: random.Random) -> Operation:
    who = dice.choices(["writer", "reader", "process"], [2, 2, 1])[0]
    texts = dice.sample(TEXTS, 1 if who == "process" else dice.randint(1, len(TEXTS)))
    return ["search", who, texts, {**_options(dice), "mode": dice.choice(MODES)}]


def _near(dice: random.Random) -> Operation:
    options = {**_options(dice), "mode": dice.choice(["auto", "scan"])}
    if options.get("want") != "pair":
        # Of several wanted modalities the item is made to want each, by another vector than its own.
        options.pop("want", None)
    return ["near", dice.choice(IDS), options]


# --- what is right

HAVING = {
    "image": {Modality.IMAGE, Modality.PAIR},
    "text": {Modality.TEXT, Modality.PAIR},
    "pair": {Modality.PAIR},
}


class World:
    """An index, others that read it in this process and in another one, and the dictionary."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "index"
        self.items: dict[str, Item] = {}
        self._encoded: dict[str, tuple[np.ndarray, np.ndarray, float]] = {}
        self._shards = 1
        self._open()

    def _open(self) -> None:
        self.writer: MadeUpIndex = open_made_up(self.path)
        self.reader: MadeUpIndex = open_made_up(self.path)
        self.process = SearchingProcess(self.path)

    def close(self) -> None:
        """Close all of them."""
        self.process.close()
        self.writer.close()
        self.reader.close()

    def do(self, operation: Operation) -> None:
        """Do an operation. Raises AssertionError if the index does something else than the dictionary."""
        getattr(self, operation[0])(*operation[1:])

    def restart(self) -> None:
        """Close everything, and open it."""
        self.close()
        describe(self.path, verify=True)
        self._open()

    def shards(self, count: int) -> None:
        """Begin again, with an index of so many shards."""
        self.close()
        shutil.rmtree(self.path)
        made(self.path, shards=count)
        self.items, self._encoded, self._shards = {}, {}, count
        self._open()

    def add(self, drawn_items: Sequence[dict[str, Any]]) -> None:
        """Add or replace items; the last one of an id counts."""
        items = [_made(fields) for fields in drawn_items]
        report = self.writer.add(items)
        new = {item.id for item in items} - self.items.keys()
        assert report.added == len(new), f"{report.added} added instead of {len(new)}"
        for item in items:
            self._set(item)

    def update(self, id: str, change: dict[str, Any]) -> None:
        """Change text or metadata of an item, if there is one."""
        old = self.items.get(id)
        self.writer.update([{"id": id, **change}])
        if old is None:
            return
        metadata = dict(old.metadata)
        if "metadata" in change:
            metadata = {**metadata, **change["metadata"]} if change["metadata"] is not None else {}
        self._set(Item(id, change.get("text", old.text), old.image, metadata))

    def remove(self, ids: Sequence[str]) -> None:
        """Remove those that exist."""
        known = self.items.keys() & set(ids)
        assert self.writer.remove(ids) == len(known)
        for id in known:
            del self.items[id], self._encoded[id]

    def compact(self) -> None:
        """Merge all segments."""
        self.writer.compact()
        about = describe(self.path, verify=True)
        filled = len({shard_of(id, self._shards) for id in self.items})
        assert (about["segments"], about["tombstones"]) == (filled, 0), about

    def all(self) -> None:
        """Compare all items."""
        for index in (self.writer, self.reader):
            found = {item.id: _fields(item) for item in index}
            assert found == {id: _fields(item) for id, item in self.items.items()}
            assert len(index) == len(self.items)

    def look(self, id: str) -> None:
        """Compare one item and its code."""
        item, expected = self.reader.get(id), self.items.get(id)
        assert (item is None) == (expected is None), f"{id} is {item}"
        if item is not None and expected is not None:
            assert _fields(item) == _fields(expected)
            assert self.reader.code(id) == tuple(encode([expected]).codes[0].tolist())

    def browse(self, options: dict[str, Any]) -> None:
        """Compare what a filter alone gives."""
        hits = self.reader.browse(**options)
        left = self._left(options)
        assert hits.total == len(left), f"{hits.total} instead of {len(left)}"
        assert len(hits) == min(options["k"], len(left))
        assert {hit.item.id for hit in hits} <= left.keys()

    def search(self, who: str, texts: Sequence[str], options: dict[str, Any]) -> None:
        """Compare searches with exhaustive scoring."""
        if who == "process":
            answers = [self.process.search(text, options) for text in texts]
        else:
            found = (self.writer if who == "writer" else self.reader).search_many(texts, **options)
            answers = [[(hit.item.id, hit.score) for hit in hits] for hits in found]
        left = self._left(options)
        for text, hits in zip(texts, answers, strict=True):
            embedding = _QUERIES[text]
            self._compare(hits, embedding, embedding[::-1], options, left)

    def near(self, id: str, options: dict[str, Any]) -> None:
        """The same, for more like an item."""
        if id not in self.items:
            return
        embedding, vector, _ = self._encoded[id]
        left = self._left(options)
        left.pop(id, None)
        hits = [(hit.item.id, hit.score) for hit in self.reader.search(near=id, **options)]
        self._compare(hits, embedding, vector, options, left)

    def _compare(
        self,
        hits: Sequence[tuple[str, float]],
        embedding: np.ndarray,
        vector: np.ndarray,
        options: dict[str, Any],
        left: dict[str, Item],
    ) -> None:
        ids = [id for id, _ in hits]
        assert len(ids) == len(set(ids)) == min(options["k"], len(left)), f"{len(ids)} hits of {len(left)}"
        assert set(ids) <= left.keys(), f"{set(ids) - left.keys()} should not be found"
        if options["mode"] == "paper":  # ranks by probabilities, of which the formula says nothing
            return
        weight = _MODEL.rerank_weight
        scores = {}
        for id in left:
            own, units, norm = self._encoded[id]
            scores[id] = float(weight * (own @ embedding) + (1 - weight) * (units @ vector - norm))
        assert all(abs(score - scores[id]) < TOLERANCE for id, score in hits), "scores are not the formula's"
        if options["mode"] in SCANS:
            best = sorted(scores.values(), reverse=True)[: len(hits)]
            assert np.allclose([score for _, score in hits], best, atol=TOLERANCE), "better ones were missed"

    def _left(self, options: dict[str, Any]) -> dict[str, Item]:
        """The items that a search may find."""
        excluded, wanted = set(options.get("exclude", ())), options.get("want")
        return {
            id: item
            for id, item in self.items.items()
            if id not in excluded
            and (wanted is None or item.modality in HAVING[wanted])
            and fulfils(dict(item.metadata), options["filter"] or {})
        }

    def _set(self, item: Item) -> None:
        encoded = encode([item])
        units = quantized(CODEBOOKS, encoded.codes)[0]
        self.items[item.id] = item
        self._encoded[item.id] = encoded.embeddings[0].astype(np.float32), units, float(units @ units / 2)


def _made(fields: dict[str, Any]) -> Item:
    image = ImageBytes(fields["image"].encode(), "p.png") if fields["image"] else None
    return Item(fields["id"], fields["text"], image, fields["metadata"])


def _fields(item: Item) -> tuple[Any, ...]:
    return item.text, item.image and item.image.read(), dict(item.metadata)


# --- running and shrinking


def failure_of(operations: Sequence[Operation], folder: Path) -> str:
    """What is wrong after these operations; empty if nothing is."""
    world = World(scratch(folder))
    try:
        for number, operation in enumerate(operations):
            try:
                world.do(operation)
            except Exception as error:
                return f"operation {number}, {operation[0]}: {type(error).__name__}: {error}"
        try:
            world.restart()
            world.all()
        except Exception as error:
            return f"after all operations: {type(error).__name__}: {error}"
    finally:
        world.close()
    return ""


def shrunk(operations: list[Operation], fails: Callable[[list[Operation]], bool]) -> list[Operation]:
    """A shorter series that fails, too: parts are left out, larger ones first, as long as that is so."""
    size, tries, end = len(operations) // 2, 0, time.monotonic() + SHRINKING_SECONDS
    while size and tries < SHRINKING:
        start, removed = 0, False
        while start < len(operations) and tries < SHRINKING and time.monotonic() < end:
            shorter = operations[:start] + operations[start + size :]
            tries += 1
            if fails(shorter):
                operations, removed = shorter, True
            else:
                start += size
        if not removed or time.monotonic() >= end:
            size //= 2
    return operations


def prepare(folder: Path) -> Trial:
    """A trial is a series of operations on an index of its own."""

    def trial(seed: int) -> Outcome:
        dice = random.Random(seed)
        operations = series(dice)
        outcome = Outcome()
        for name, *arguments in operations:
            each = len(arguments[1]) if name == "search" else 1  # several queries are an operation each
            outcome.count += each
            outcome.seen[name] += each
        outcome.seen["operations on shards"] += outcome.count if operations[0][0] == "shards" else 0
        if failure := failure_of(operations, folder):
            short = shrunk(operations, lambda shorter: bool(failure_of(shorter, folder)))
            script = Path(tempfile.gettempdir()) / f"torture-model-{seed}.json"
            script.write_text("".join(f"{json.dumps(operation)}\n" for operation in short))
            outcome.failures.append(f"{failure}; {len(short)} operations of it are in {script}")
        return outcome

    return trial


SCENARIO = Scenario(
    name="model",
    promise="Add, update, remove, search in every mode, filter, near, browse, compact and reopen, by two "
    "processes, on whole and sharded indexes, give what a dictionary and exhaustive scoring give.",
    unit="operations",
    goal=1_000_000,
    field="Qdrant: 200,000 a night, restarts with p = 0.001",
    prepare=prepare,
    seconds=600,
    share=1,
)


def main(script: Path) -> int:
    """Run a script of operations again."""
    operations = [json.loads(line) for line in script.read_text().splitlines()]
    with tempfile.TemporaryDirectory() as folder:
        failure = failure_of(operations, Path(folder))
    print(failure or "all is right")
    return int(bool(failure))


if __name__ == "__main__":
    use_small_blocks()
    sys.exit(main(Path(sys.argv[1])))
