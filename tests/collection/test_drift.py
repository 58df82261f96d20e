"""Drift: chance is not taken for change, what is new is named, and codes that no longer fit are noticed."""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from genius.collection.count_tests import Tails, corrected, homogeneity, larger
from genius.collection.drift import LEVEL, Drift, ItemGroup, drift_to_dict, find_drift
from genius.collection.drift_groups import read_date
from genius.collection.sheets import drift_sheet
from genius.data.records import Item
from genius.errors import InputError, MismatchError
from genius.index.segments import KeptEmbeddings
from tests.collection.world import WIDTH, WorldIndex, WorldModel, clusters, open_world

NAMES = ("red shoe", "wooden chair", "green hat", "steel kettle", "old map", "big violin")

# --- tests of counts, against direct computation


@given(st.integers(1, 30), st.data())
def test_tails_are_sums_over_divisions(count: int, data: st.DataObject) -> None:
    new, members = data.draw(st.integers(1, count)), data.draw(st.integers(1, count))
    drawn = data.draw(st.integers(max(0, members - (count - new)), min(members, new)))

    def probability(value: int) -> float:
        if not 0 <= new - value <= count - members:
            return 0.0
        return math.comb(members, value) * math.comb(count - members, new - value) / math.comb(count, new)

    tails = Tails(count, new)
    assert tails.at_least(members, drawn) == pytest.approx(
        min(1, sum(probability(value) for value in range(drawn, members + 1)))
    )
    assert tails.at_most(members, drawn) == pytest.approx(
        min(1, sum(probability(value) for value in range(drawn + 1)))
    )


def test_homogeneity_is_the_share_of_divisions() -> None:
    """Of 12 items in three cells all divisions can be counted."""
    cells = np.repeat([0, 1, 2], [5, 4, 3])
    new = np.array([4, 0, 2])

    def statistic(counts: np.ndarray) -> float:
        expected = np.array([5, 4, 3]) / 2
        return float(((counts - expected) ** 2 / expected).sum())

    chosen = [np.bincount(cells[list(rows)], minlength=3) for rows in itertools.combinations(range(12), 6)]
    exact = np.mean([statistic(counts) >= statistic(new) - 1e-9 for counts in chosen])
    _, p_value = homogeneity(np.array([1, 4, 1]), new, np.random.default_rng(0))
    assert p_value == pytest.approx(exact, abs=0.04)


def test_corrections_and_ranks() -> None:
    random = np.random.default_rng(1)
    values = random.uniform(size=50)
    assert (corrected(values) >= values).all() and corrected(values).max() <= 1
    assert len(corrected(np.zeros(0))) == 0
    p_values = [larger(random.normal(size=40), random.normal(size=60)) for _ in range(300)]
    assert 0.4 < np.mean(p_values) < 0.6 and np.mean(np.array(p_values) < 0.05) < 0.1
    assert larger(random.normal(size=40) + 2, random.normal(size=60)) < 1e-6
    assert larger(np.ones(5), np.ones(5)) == 1


# --- indexes


class World:
    """Items of six kinds, each with a text, of which the last kind may be missing."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.centres = self.random.normal(size=(len(NAMES), WIDTH))
        self.vectors: dict[str, np.ndarray] = {}

    def items(self, count: int, shares: list[float], begin: int = 0) -> list[Item]:
        kinds = self.random.choice(len(shares), count, p=np.array(shares) / sum(shares))
        noise = 0.3 * self.random.normal(size=(count, WIDTH))
        made = []
        for number, kind in enumerate(kinds, begin):
            id = f"{NAMES[kind]} {number}"
            self.vectors[id] = self.centres[kind] + noise[number - begin]
            made.append(Item(id, f"A {NAMES[kind]}, number {number}"))
        return made


@pytest.fixture
def paths(tmp_path: Path) -> Iterator[Path]:
    return (tmp_path / f"index {number}" for number in itertools.count())


EVEN = [1.0] * 5


def compare(
    paths: Iterator[Path], old: list[Item], new: list[Item], world: World, kept: KeptEmbeddings = "int8"
) -> Drift:
    with (
        open_world(next(paths), old, world.vectors, embeddings=kept) as first,
        open_world(next(paths), new, world.vectors, embeddings=kept) as second,
    ):
        return first.drift(second)


@pytest.mark.parametrize(("count", "kept"), [(300, "int8"), (60, "fp16"), (800, "none")])
def test_random_divisions_of_one_collection_have_not_drifted(
    paths: Iterator[Path], count: int, kept: KeptEmbeddings
) -> None:
    """Of 100 random divisions, at a level of 0.01, five would be drifted with a probability of 0.003."""
    random = np.random.default_rng(count)
    vectors, _ = clusters(random, count, 5, 3)
    items = [Item(str(number), f"text {number}") for number in range(count)]
    world = {str(number): 4 * row for number, row in enumerate(vectors)}
    with open_world(next(paths), items, world, embeddings=kept) as index, index._reading() as snapshot:
        everything, alarms = ItemGroup.of(snapshot, index._catalogue), 0
        for number in range(100):
            is_new = random.permutation(count) < count * [0.5, 0.2, 0.8][number % 3]
            drift = find_drift(index.model, everything.selected(~is_new), everything.selected(is_new))
            alarms += drift.verdict != "none"
            assert (drift.verdict == "none") == drift.says.startswith("no drift")
            assert (drift.old_error is None) == (kept == "none" or min(drift.old, drift.new) < 20)
    assert alarms <= 4


def test_a_new_kind_is_named(paths: Iterator[Path], tmp_path: Path) -> None:
    world = World(1)
    old, new = world.items(400, EVEN), world.items(300, [*EVEN, 0.6], begin=400)
    drift = compare(paths, old, new, world)
    assert drift.verdict == "shifted" and "violin" in drift.says.lower() and "appeared" in drift.says
    appeared = [cell for cell in drift.cells if cell.kind in ("appeared", "grew")]
    assert appeared and all("violin" in cell.label.lower() for cell in appeared)
    assert all("violin" in item.id for cell in appeared for item in cell.items)
    total = sum("violin" in item.id for item in new)
    assert sum(cell.new for cell in appeared) >= 0.6 * total
    for cell in drift.cells:
        assert cell.p_value <= LEVEL and cell.new_share == cell.new / 300 and cell.old_share == cell.old / 400
        assert cell.old == sum(has_prefix(world, item, cell.prefix) for item in old)
        assert cell.new == sum(has_prefix(world, item, cell.prefix) for item in new)
    fields = drift_to_dict(drift)
    assert fields["verdict"] == "shifted" and fields["cells"][0]["items"][0]["id"]
    assert drift_sheet(drift).width > 100
    back = compare(paths, new, old, world)
    emptied = [cell for cell in back.cells if cell.kind in ("emptied", "shrank")]
    assert emptied and all("violin" in cell.label.lower() for cell in emptied)


def has_prefix(world: World, item: Item, prefix: tuple[int, ...]) -> bool:
    """By the model's own codes."""
    code = WorldModel({}).quantizer.codes(world.vectors[item.id][None].astype(np.float32), np.array([1]))[0]
    return tuple(code[: len(prefix)].tolist()) == prefix


def test_other_shares_of_the_same_kinds(paths: Iterator[Path]) -> None:
    world = World(2)
    drift = compare(paths, world.items(400, EVEN), world.items(400, [4, 1, 1, 1, 0.05], begin=400), world)
    assert drift.verdict == "shifted" and drift.shift > 0.2 and drift.p_value <= LEVEL
    grown = {cell.label.lower() for cell in drift.cells if cell.kind in ("grew", "appeared")}
    less = {cell.label.lower() for cell in drift.cells if cell.kind in ("shrank", "emptied")}
    assert grown and all("shoe" in label for label in grown)
    assert any("map" in label for label in less)


def test_codes_that_no_longer_fit(paths: Iterator[Path]) -> None:
    """Old items are near sums of code vectors, new ones anywhere."""
    world = World(3)
    model_codes = world.random.integers(0, 16, (500, 3))
    books = WorldModel({}).quantizer.codebooks
    for number in range(500):
        old_vector = books[1][0] + sum(books[level + 1][model_codes[number, level]] for level in range(3))
        world.vectors[f"old {number}"] = old_vector
        world.vectors[f"new {number}"] = world.random.normal(size=WIDTH) * np.linalg.norm(old_vector) / 5
    old = [Item(f"old {number}", f"old {number}") for number in range(500)]
    new = [Item(f"new {number}", f"new {number}") for number in range(500)]
    drift = compare(paths, old, new, world)
    assert drift.verdict == "unfit" and "fit or train again" in drift.says
    assert drift.old_error is not None and drift.new_error is not None
    assert drift.new_error > 1.25 * drift.old_error
    without = compare(paths, old, new, world, "none")
    assert without.old_error is None and without.verdict == "shifted"
    assert "can't be told" in without.says and any("embeddings" in note for note in without.notes)


# --- one collection in time


def test_since_a_date(paths: Iterator[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(4)
    days = iter(datetime.datetime(2026, month, 5, 10, tzinfo=datetime.UTC) for month in (1, 2, 3))
    monkeypatch.setattr("genius.index.catalogue.now", lambda: next(days))
    with open_world(next(paths)) as index:
        index.world = world.vectors
        for begin, shares in ((0, EVEN), (200, EVEN), (400, [*EVEN, 2])):
            index.add(world.items(200, shares, begin))
        index.compact()
        quiet, loud = index.drift(since="2026-02-01"), index.drift(since=datetime.date(2026, 3, 1))
        assert (quiet.old, quiet.new) == (200, 400) and (loud.old, loud.new) == (400, 200)
        assert loud.verdict == "shifted" and "violin" in loud.says.lower()
        with pytest.raises(InputError, match="no item was added since"):
            index.drift(since="2026-04-01")
        with pytest.raises(InputError, match="no item was added before"):
            index.drift(since="2025-04-01")
        with index._catalogue._transaction("BEGIN"):
            index._catalogue._query("DELETE FROM additions WHERE first_key < 400")
        assert index.drift(since="2026-03-05T10:00+00:00").new == 200
        with pytest.raises(InputError, match="was not recorded"):
            index.drift(since="2026-02-01")


def test_by_a_date_in_metadata(paths: Iterator[Path]) -> None:
    world = World(5)
    items = [
        Item(item.id, item.text, metadata={"taken": f"20{15 + number % 2}-06-01T12:00:00"} if number else {})
        for number, item in enumerate(world.items(100, EVEN))
    ]
    with open_world(next(paths), items, world.vectors) as index:
        drift = index.drift(since="2016-01-01", by="taken")
        assert (drift.old, drift.new) == (49, 50) and "1 items have no date under 'taken'" in drift.notes[0]
        with pytest.raises(InputError, match="has a date under 'made'"):
            index.drift(since="2016-01-01", by="made")


def test_bad_input(paths: Iterator[Path]) -> None:
    world = World(6)
    items = world.items(40, EVEN)
    with (
        open_world(next(paths), [], world.vectors) as empty,
        open_world(next(paths), items[:1], world.vectors) as single,
        open_world(next(paths), items, world.vectors) as index,
    ):
        for first, second in ((empty, index), (index, empty)):
            with pytest.raises(InputError, match="the index is empty"):
                first.drift(second)
        for first, second in ((single, index), (index, single), (single, single)):
            drift = first.drift(second)
            assert drift.verdict == "none" and drift.notes and drift.old_error is None
        with pytest.raises(InputError, match="is no date: write it as"):
            index.drift(since="yesterday")
        with pytest.raises(InputError, match="compare with what"):
            index.drift()
        with pytest.raises(InputError, match="a date divides"):
            index.drift(single, since="2026-01-01")
        other: WorldIndex = index
        monkey = pytest.MonkeyPatch()
        monkey.setattr(other.model, "fingerprint", "another")
        with pytest.raises(MismatchError, match="two models"):
            single.drift(other)
        monkey.undo()
    assert read_date("2026-03-01T14:30").minute == 30
