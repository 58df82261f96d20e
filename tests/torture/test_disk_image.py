"""What a disk may hold after the power went, by calls that are written down by hand."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from torture.disk_image import BLOCK, Call, Disk, read_record

ROOT = Path("/root-of-all")
Image = frozenset[tuple[str, bytes | None]]


def call(kind: str, *numbers: int, first: bytes | str = b"", second: str = "") -> Call:
    a, b, c = (*numbers, 0, 0, 0)[:3]
    content = first if isinstance(first, bytes) else str(ROOT / first).encode()
    return Call(kind, (a, b, c), content, str(ROOT / second).encode() if second else b"")


def images(calls: list[Call], tries: int = 300) -> set[Image]:
    """What may be there after these calls."""
    disk = Disk(ROOT)
    for each in calls:
        disk.replay(each)
    return {frozenset(disk.image(random.Random(seed))) for seed in range(tries)}


NEW = [call("C", 7, first="a"), call("W", 7, 0, first=b"one")]
SYNCED = [*NEW, call("S", 7), call("D", first="")]


def test_what_is_not_synced_may_be_there_or_not() -> None:
    assert images(NEW) == {frozenset(), frozenset({("a", b"")}), frozenset({("a", b"one")})}
    assert images([*NEW, call("S", 7)]) == {
        frozenset(),
        frozenset({("a", b"one")}),
    }  # its name may be missing
    assert images([*NEW, call("D", first="")]) == {frozenset({("a", b"")}), frozenset({("a", b"one")})}
    assert images(SYNCED) == images([*NEW, call("A")]) == {frozenset({("a", b"one")})}


def test_blocks_come_in_any_order() -> None:
    content = b"x" * BLOCK + b"y" * BLOCK
    contents = {dict(image)["a"] for image in images([*SYNCED, call("W", 7, 0, first=content)])}
    assert contents == {b"one", content, b"x" * BLOCK, b"one" + bytes(BLOCK - 3) + b"y" * BLOCK}
    assert {dict(image)["a"] for image in images([*SYNCED, call("T", 7, 1)])} == {b"one", b"o"}


def test_a_rename_is_there_or_not_at_all() -> None:
    new = [call("C", 8, first="b"), call("W", 8, 0, first=b"two"), call("S", 8), call("D", first="")]
    before, after = frozenset({("a", b"one"), ("b", b"two")}), frozenset({("a", b"two")})
    assert images([*SYNCED, *new, call("R", first="b", second="a")]) == {before, after}
    assert images([*SYNCED, *new, call("R", first="b", second="a"), call("D", first="")]) == {after}
    exchanged = frozenset({("a", b"two"), ("b", b"one")})
    assert images([*SYNCED, *new, call("X", first="b", second="a")]) == {before, exchanged}


def test_a_folder_s_later_names_are_not_there_without_its_earlier_ones() -> None:
    calls = [call("C", 1, first="a"), call("C", 2, first="b"), call("U", first="a")]
    assert {frozenset(dict(image)) for image in images(calls)} == {
        frozenset(names) for names in ((), ("a",), ("a", "b"), ("b",))
    }


def test_folders_keep_what_is_in_them() -> None:
    calls = [call("K", first="in"), call("C", 3, first="in/a"), call("W", 3, 0, first=b"x")]
    calls += [call("S", 3), call("D", first="in"), call("D", first=""), call("R", first="in", second="out")]
    assert images(calls) == {
        frozenset({("in", None), ("in/a", b"x")}),
        frozenset({("out", None), ("out/a", b"x")}),
    }


def test_a_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    import struct

    head = struct.pack("<c5q", b"R", 1, 2, 3, 3, 2)
    (tmp_path / "record").write_bytes(2 * (head + b"onetw"))
    assert read_record(tmp_path / "record") == 2 * [Call("R", (1, 2, 3), b"one", b"tw")]


@pytest.mark.parametrize("seed", range(20))
def test_without_dice_all_that_happened_is_there(seed: int) -> None:
    dice, expected, disk = random.Random(seed), bytearray(), Disk(ROOT)
    disk.replay(call("C", 1, first="a"))
    for _ in range(30):
        place, content = dice.randrange(9000), dice.randbytes(dice.randrange(6000))
        kind = dice.choice("WWTS")
        disk.replay(call(kind, 1, place, first=content if kind == "W" else b""))
        if kind == "W":
            expected.extend(bytes(max(0, place - len(expected))))
            expected[place : place + len(content)] = content
        elif kind == "T":
            expected[:] = expected[:place] + bytes(max(0, place - len(expected)))
        assert dict(disk.image(None)) == {"a": bytes(expected)}
