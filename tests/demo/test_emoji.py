from __future__ import annotations

from typing import Any

import pytest

from genius.demo.emoji import Emoji, changes, difference, image_key, read_emoji, split_of
from tests.demo.entries import RUNNERS, Everything, entry


def emoji_of(*entries: dict[str, Any]) -> dict[str, Emoji]:
    return {emoji.name: emoji for emoji in read_emoji(entries, Everything())}


def test_tones_genders_and_directions_are_one_family_with_attributes() -> None:
    runners = emoji_of(*RUNNERS)
    assert len(runners) == 30
    assert len({emoji.family for emoji in runners.values()}) == 1
    woman = runners["woman running: facing right: dark skin tone"]
    assert woman.attributes == {"gender": "woman", "direction": "right", "tone": "dark"}
    assert runners["person running"].attributes == {}
    assert runners["person running"].value("direction") == "left"
    assert woman.key == "1f3c3-1f3ff-200d-2640-200d-27a1"


def test_a_change_points_at_the_emoji_that_has_it_and_nothing_else_changed() -> None:
    runners = list(emoji_of(*RUNNERS).values())
    pairs = changes(runners)
    assert pairs
    for source, target, change in pairs:
        assert source is not target
        assert 1 <= len(change) <= 2
        for kind in ("tone", "gender", "direction"):
            assert target.value(kind) == change.get(kind, source.value(kind))
    one_step = {(s.name, t.name): change for s, t, change in pairs if len(change) == 1}
    assert one_step["person running", "woman running"] == {"gender": "woman"}
    assert one_step["woman running: facing right", "woman running"] == {"direction": "left"}
    assert one_step["person running: dark skin tone", "person running"] == {"tone": "default"}


def test_a_change_is_never_ambiguous() -> None:
    pairs = changes(list(emoji_of(*RUNNERS).values()))
    questions = [(source.key, tuple(change.items())) for source, _, change in pairs]
    assert len(set(questions)) == len(questions)


@pytest.mark.parametrize(
    ("entries", "change"),
    [
        ((("1F9D1-200D-1F373", "cook"), ("1F469-200D-1F373", "woman cook")), {"gender": "woman"}),
        ((("1FAC5", "person with crown"), ("1F934", "prince")), {"gender": "man"}),
        ((("1F9D2", "child"), ("1F467", "girl")), {"gender": "girl"}),
        ((("1F385", "Santa Claus"), ("1F9D1-200D-1F384", "Mx Claus")), {"gender": "person"}),
        (
            (("1F46F", "people with bunny ears"), ("1F46F-200D-2642-FE0F", "men with bunny ears")),
            {"gender": "men"},
        ),
        ((("1F468", "man"), ("1F468-200D-1F9B0", "man: red hair")), {"hair": "red hair"}),
        ((("1F468", "man"), ("1F471-200D-2642-FE0F", "man: blond hair")), {"hair": "blond hair"}),
        (
            (("1F448", "backhand index pointing left"), ("1F446", "backhand index pointing up")),
            {"turn": "up"},
        ),
        ((("1FAF1", "rightwards hand"), ("1FAF2", "leftwards hand")), {"turn": "left"}),
        ((("2764-FE0F", "red heart"), ("1FA75", "light blue heart")), {"colour": "light blue"}),
    ],
)
def test_irregular_forms_belong_together(
    entries: tuple[tuple[str, str], ...], change: dict[str, str]
) -> None:
    source, target = read_emoji([entry(*fields) for fields in entries], Everything())
    assert source.family == target.family
    assert difference(source, target) == change


def test_animals_and_vehicles_have_views() -> None:
    dog, face = read_emoji(
        [entry("1F415", "dog", group=3), entry("1F436", "dog face", group=3)], Everything()
    )
    assert difference(dog, face) == {"view": "face"}
    assert difference(face, dog) == {"view": "whole"}
    bus, oncoming = read_emoji(
        [entry("1F68C", "bus", group=5), entry("1F68D", "oncoming bus", group=5)], Everything()
    )
    assert difference(oncoming, bus) == {"view": "side"}


def test_a_difference_without_a_word_for_it_is_no_change() -> None:
    plain, red = read_emoji([entry("1F468", "man"), entry("1F468-200D-1F9B0", "man: red hair")], Everything())
    assert difference(red, plain) is None  # there is no word for ordinary hair
    assert [(s.name, t.name) for s, t, _ in changes([plain, red])] == [("man", "man: red hair")]


@pytest.mark.parametrize(
    ("labels", "subgroup"),
    [
        (("one o’clock", "two-thirty", "nine o’clock"), 58),
        (("keycap: 1", "keycap: *"), 94),
        (("full moon", "new moon face"), 59),
        (("flag: Kenya", "flag: Norway"), 98),
        (("kiss", "kiss: woman, man"), 30),
    ],
)
def test_sets_drawn_alike_are_one_family_without_changes(labels: tuple[str, ...], subgroup: int) -> None:
    codes = {"kiss": "1F48F", "kiss: woman, man": "1F469-200D-2764-FE0F-200D-1F48B-200D-1F468"}
    entries = [entry(codes.get(label, f"AA{n}"), label, subgroup=subgroup) for n, label in enumerate(labels)]
    emojis = read_emoji(entries, Everything())
    assert len(emojis) == len(labels)
    assert len({emoji.family for emoji in emojis}) == 1
    assert changes(emojis) == []


def test_the_signs_themselves_are_emoji_of_their_own() -> None:
    emojis = read_emoji([entry("2640-FE0F", "female sign"), entry("2642-FE0F", "male sign")], Everything())
    assert len({emoji.family for emoji in emojis}) == 2
    assert changes(emojis) == []


def test_left_out_are_parts_mixed_tones_look_alikes_and_what_nobody_draws() -> None:
    mixed = entry("1F91D", "handshake")
    mixed["skins"] = [{"hexcode": "X-Y", "label": "handshake: two", "emoji": "x", "tone": [1, 2]}]
    parts = entry("1F3FB", "light skin tone", subgroup=32)
    letter = {"hexcode": "1F1E6", "label": "regional indicator A", "emoji": "x"}
    alike = entry("1F1E7-1F1FB", "flag: Bouvet Island", subgroup=98)
    assert [emoji.name for emoji in read_emoji([mixed, parts, letter, alike], Everything())] == ["handshake"]
    assert read_emoji([mixed], {"another"}) == []


def test_keys_are_what_vendors_and_emojibase_share() -> None:
    assert image_key("0031-FE0F-20E3") == image_key("0031-20e3") == "0031-20e3"


def test_splits_are_about_70_10_20_and_stable() -> None:
    splits = [split_of(f"family {number}") for number in range(5000)]
    assert 0.67 < splits.count("train") / 5000 < 0.73
    assert 0.08 < splits.count("val") / 5000 < 0.12
    assert split_of("1f3c3") == split_of("1f3c3")
    assert (split_of("1f9d1"), split_of("flags"), split_of("coloured hearts")) == ("train", "train", "test")
