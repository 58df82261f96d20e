"""Every method gives every item an identifier of its own, and so it stays when items are added."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from genius.errors import InputError, MissingError
from genius.identifiers.identifiers import SCHEMES, Identifiers
from genius.identifiers.scheme import RIVALS, ItemContents, RivalName, room_for, row_name
from genius.quantize.fusion_inputs import concatenate
from genius.search.codes import CodeLayout
from tests.identifiers.small_items import WIDTH, contents, items, training_texts

SHARED: set[RivalName] = {"irgen"}
"""Methods in which items may share an identifier."""


def fitted(name: RivalName, count: int = 400) -> tuple[Identifiers, ItemContents]:
    known = items(count)
    return Identifiers.fit(name, known, training_texts(), seed=3), known


@pytest.mark.parametrize("name", RIVALS)
def test_no_two_items_have_one_identifier(name: RivalName) -> None:
    identifiers, known = fitted(name)
    codes = identifiers.codes(known)
    assert codes.dtype == np.uint16 and codes.shape == (400, len(identifiers.sizes))
    assert (codes < np.array(identifiers.sizes)).all()
    assert CodeLayout(identifiers.sizes, identifiers.semantic).total_bits <= 128, "an index can hold it"
    distinct = len(np.unique(codes, axis=0))
    if name in SHARED:
        # Equal embeddings have equal codes, and here nearly all others differ.
        assert (codes[4::5] == codes[3::5][: len(codes[4::5])]).all(1).mean() > 0.3
        assert distinct < 400
    else:
        assert distinct == 400


@pytest.mark.parametrize("name", [name for name in RIVALS if name not in SHARED])
def test_new_items_never_get_what_others_have(name: RivalName) -> None:
    """Not in one call beside known items, nor in calls one after the other beside what an index holds."""
    identifiers, known = fitted(name)
    old = identifiers.codes(known)
    new = items(120, seed=9, prefix="new")
    mixed = ItemContents(
        [*new.ids, *known.ids],
        concatenate([new.inputs, known.inputs]),
        [*new.texts, *known.texts],
    )
    together = identifiers.codes(mixed)
    np.testing.assert_array_equal(together[120:], old)  # known items keep what they have
    assert len(np.unique(together, axis=0)) == 520
    # An index adds items in blocks, today and tomorrow.
    today = identifiers.numbering()
    blocks = [today.codes(_part(new, slice(start, start + 17))) for start in range(0, 60, 17)]
    taken = np.concatenate([old, *blocks])
    tomorrow = identifiers.numbering(taken).codes(items(50, seed=11, prefix="newer"))
    assert len(np.unique(np.concatenate([taken, tomorrow]), axis=0)) == len(taken) + 50


@pytest.mark.parametrize("name", RIVALS)
def test_they_are_the_same_when_they_are_opened_again(name: RivalName, tmp_path: Path) -> None:
    identifiers, known = fitted(name)
    identifiers.write(tmp_path / "identifiers.safetensors")
    opened = Identifiers.open(tmp_path / "identifiers.safetensors", name, WIDTH)
    assert (opened.sizes, opened.num_known, opened.width) == (identifiers.sizes, 400, WIDTH)
    new = items(30, seed=5, prefix="new")
    for some_items in (known, new):
        np.testing.assert_array_equal(opened.codes(some_items), identifiers.codes(some_items))
    again, _ = fitted(name)
    np.testing.assert_array_equal(again.codes(new), identifiers.codes(new))  # by the same seed


@pytest.mark.parametrize("name", RIVALS)
def test_stems_depend_on_the_item_alone(name: RivalName) -> None:
    identifiers, _ = fitted(name)
    new = items(40, seed=5)
    stems = identifiers.scheme.stems(new)
    for start in range(0, 40, 9):
        part = slice(start, start + 9)
        np.testing.assert_array_equal(identifiers.scheme.stems(_part(new, part)), stems[part])


@pytest.mark.parametrize("name", [name for name in RIVALS if name not in SHARED])
def test_written_numbers_differ(name: RivalName) -> None:
    identifiers, _ = fitted(name)
    scheme = identifiers.scheme
    numbers = np.arange(min(scheme.room, 2000))
    assert len(np.unique(scheme.write_numbers(numbers), axis=0)) == len(numbers)


def test_numbers_that_are_used_up_are_an_error() -> None:
    identifiers, known = fitted("tiger")
    same = np.repeat(known.inputs.embeddings[:1], 300, axis=0)
    crowd = contents([f"crowd-{number}" for number in range(300)], same, [""] * 300)
    with pytest.raises(InputError, match="more than 256 items have tiger identifiers that begin alike"):
        identifiers.codes(crowd)


def test_there_are_no_code_vectors() -> None:
    identifiers, known = fitted("numeric")
    codes = identifiers.codes(known)
    assert identifiers.codebooks is None
    assert not identifiers.half_sq_norms(codes).any()
    for compute in (identifiers.reconstruct, identifiers.units):
        with pytest.raises(MissingError, match=r"numeric identifiers have no code vectors.*learned decoder"):
            compute(codes)


def test_nothing_has_no_identifiers() -> None:
    for name in SCHEMES:
        with pytest.raises(InputError, match="there are none"):
            Identifiers.fit(name, items(0), training_texts(), seed=0)


def test_rows_say_that_they_are_like_what_was_published() -> None:
    assert set(SCHEMES) == set(RIVALS)
    assert [row_name(name) for name in RIVALS] == [
        "grace-numeric-like",
        "grace-string-like",
        "grace-semantic-like",
        "grace-structured-like",
        "irgen-like",
        "tiger-like",
        "dsi-like",
    ]


def test_room_grows_with_the_largest_group() -> None:
    assert room_for(np.zeros((0, 2), np.uint16)) == 256
    assert room_for(np.repeat([[1, 2]], 100, axis=0)) == 400
    assert room_for(np.zeros((70_000, 1), np.uint16)) == 1 << 16


def _part(whole: ItemContents, part: slice) -> ItemContents:
    return contents(whole.ids[part], whole.inputs.embeddings[part], whole.texts[part])
