"""Families, attributes, changes, requests and tags, on rows as emojibase has them."""

import pytest

from genius.data.tasks import TASK_MODALITIES
from genius.demo.emoji import Emoji, changes, difference, picture_key, read_emoji, split_of
from genius.demo.tags import MOST_ROWS, tag_texts
from genius.demo.wording import PROMPTS, prompts, request

TONE_CODES = ("1F3FB", "1F3FC", "1F3FD", "1F3FE", "1F3FF")
TONE_NAMES = ("light", "medium-light", "medium", "medium-dark", "dark")


class Everything:
    """All pictures are there."""

    def __contains__(self, key: object) -> bool:
        return True


def row(
    hexcode: str, label: str, *tags: str, subgroup: int = 27, group: int = 1, tones: bool = False
) -> dict:
    first, _, rest = hexcode.partition("-200D-")
    skins = [
        {
            "hexcode": f"{first}-{code}" + (f"-200D-{rest}" if rest else ""),
            "label": f"{label}: {name} skin tone",
            "emoji": "x",
            "tone": number,
        }
        for number, (code, name) in enumerate(zip(TONE_CODES, TONE_NAMES, strict=True), start=1)
    ]
    common = {"hexcode": hexcode, "label": label, "emoji": "x", "tags": list(tags)}
    return {**common, "group": group, "subgroup": subgroup, "skins": skins if tones else []}


RUNNERS = [
    row("1F3C3", "person running", "race", "run", tones=True),
    row("1F3C3-200D-2642-FE0F", "man running", "man", "race", "run", tones=True),
    row("1F3C3-200D-2640-FE0F", "woman running", "race", "run", "woman", tones=True),
    row("1F3C3-200D-27A1-FE0F", "person running: facing right", "race", "run", tones=True),
    row("1F3C3-200D-2640-FE0F-200D-27A1-FE0F", "woman running: facing right", "race", "run", tones=True),
]


def emoji_of(*rows: dict) -> dict[str, Emoji]:
    return {one.name: one for one in read_emoji(rows, Everything())}


def test_tones_genders_and_directions_are_one_family_with_attributes():
    runners = emoji_of(*RUNNERS)
    assert len(runners) == 30
    assert len({one.family for one in runners.values()}) == 1
    woman = runners["woman running: facing right: dark skin tone"]
    assert woman.attributes == {"gender": "woman", "direction": "right", "tone": "dark"}
    assert runners["person running"].attributes == {}
    assert runners["person running"].value("direction") == "left"
    assert woman.key == "1f3c3-1f3ff-200d-2640-200d-27a1"


def test_a_change_points_at_the_emoji_that_has_it_and_nothing_else_changed():
    runners = list(emoji_of(*RUNNERS).values())
    found = changes(runners)
    assert found
    for source, target, asked in found:
        assert source is not target
        assert 1 <= len(asked) <= 2
        for kind in ("tone", "gender", "direction"):
            assert target.value(kind) == asked.get(kind, source.value(kind))
    one_step = {(s.name, t.name): asked for s, t, asked in found if len(asked) == 1}
    assert one_step["person running", "woman running"] == {"gender": "woman"}
    assert one_step["woman running: facing right", "woman running"] == {"direction": "left"}
    assert one_step["person running: dark skin tone", "person running"] == {"tone": "default"}


def test_a_change_is_never_ambiguous():
    found = changes(list(emoji_of(*RUNNERS).values()))
    questions = [(source.key, tuple(asked.items())) for source, _, asked in found]
    assert len(set(questions)) == len(questions)


@pytest.mark.parametrize(
    ("rows", "asked"),
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
def test_irregular_forms_belong_together(rows, asked):
    source, target = read_emoji([row(*one) for one in rows], Everything())
    assert source.family == target.family
    assert difference(source, target) == asked


def test_animals_and_vehicles_have_views():
    dog, face = read_emoji([row("1F415", "dog", group=3), row("1F436", "dog face", group=3)], Everything())
    assert difference(dog, face) == {"view": "face"}
    assert difference(face, dog) == {"view": "whole"}
    bus, oncoming = read_emoji(
        [row("1F68C", "bus", group=5), row("1F68D", "oncoming bus", group=5)], Everything()
    )
    assert difference(oncoming, bus) == {"view": "side"}


def test_what_cannot_be_asked_for_is_no_change():
    plain, red = read_emoji([row("1F468", "man"), row("1F468-200D-1F9B0", "man: red hair")], Everything())
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
def test_sets_drawn_alike_are_one_family_without_changes(labels, subgroup):
    codes = {"kiss": "1F48F", "kiss: woman, man": "1F469-200D-2764-FE0F-200D-1F48B-200D-1F468"}
    rows = [row(codes.get(label, f"AA{n}"), label, subgroup=subgroup) for n, label in enumerate(labels)]
    emoji = read_emoji(rows, Everything())
    assert len(emoji) == len(labels)
    assert len({one.family for one in emoji}) == 1
    assert changes(emoji) == []


def test_the_signs_themselves_are_emoji_of_their_own():
    emoji = read_emoji([row("2640-FE0F", "female sign"), row("2642-FE0F", "male sign")], Everything())
    assert len({one.family for one in emoji}) == 2
    assert changes(emoji) == []


def test_left_out_are_parts_mixed_tones_look_alikes_and_what_nobody_draws():
    mixed = row("1F91D", "handshake")
    mixed["skins"] = [{"hexcode": "X-Y", "label": "handshake: two", "emoji": "x", "tone": [1, 2]}]
    parts = row("1F3FB", "light skin tone", subgroup=32)
    letter = {"hexcode": "1F1E6", "label": "regional indicator A", "emoji": "x"}
    alike = row("1F1E7-1F1FB", "flag: Bouvet Island", subgroup=98)
    assert [one.name for one in read_emoji([mixed, parts, letter, alike], Everything())] == ["handshake"]
    assert read_emoji([mixed], {"another"}) == []


def test_keys_are_what_vendors_and_emojibase_share():
    assert picture_key("0031-FE0F-20E3") == picture_key("0031-20e3") == "0031-20e3"


def test_splits_are_about_70_10_20_and_stable():
    splits = [split_of(f"family {number}") for number in range(5000)]
    assert 0.67 < splits.count("train") / 5000 < 0.73
    assert 0.08 < splits.count("val") / 5000 < 0.12
    assert split_of("1f3c3") == split_of("1f3c3")
    assert (split_of("1f9d1"), split_of("flags"), split_of("coloured hearts")) == ("train", "train", "test")


def test_tag_texts_list_every_emoji_that_fits_and_only_one_family():
    rows = [
        *RUNNERS,
        row("1F415", "dog", "pet", "animal", "loyal", group=3),
        row("1F408", "cat", "pet", "animal", "night", group=3),
        *(
            row(f"1F55{n}", f"{name} o’clock", "clock", "time", name, subgroup=58)
            for n, name in enumerate("abcdefgh")
        ),
    ]
    emoji = read_emoji(rows, Everything())
    texts = dict(tag_texts(emoji))
    assert "animal, pet" not in texts  # dog and cat would fit
    assert "clock, time" not in texts  # eight would fit: too vague
    assert [one.name for one in texts["animal, loyal"]] == ["dog"]
    for text, fitting in texts.items():
        words = [word for word in text.split(", ") if not word.endswith("skin tone")]
        tone = next((word.removesuffix(" skin tone") for word in text.split(", ") if word not in words), None)
        expected = [
            one for one in emoji if one.words >= set(words) and tone in (None, one.attributes.get("tone"))
        ]
        assert [one.key for one in fitting] == [one.key for one in expected]
        assert len({one.family for one in fitting}) == 1
        assert len({one.row for one in fitting}) <= MOST_ROWS


def test_tags_outside_the_name_come_first():
    rows = [row("AA1", "pig nose", "snout", "smell", "truffle", "oink", group=3)]
    texts = [text for text, _ in tag_texts(read_emoji(rows, Everything()))]
    assert len(texts) == 6
    assert not any("pig" in text or "nose" in text for text in texts)


def test_requests_say_everything_that_is_asked_in_several_wordings():
    asked = {"tone": "dark", "hair": "beard"}
    wordings = {request(asked, str(salt)) for salt in range(40)}
    assert len(wordings) > 3
    assert all("with dark skin tone and a beard" in wording for wording in wordings)
    assert request(asked, "a") == request(asked, "a")
    assert "as a woman, facing right" in request({"gender": "woman", "direction": "right"}, "1")


def test_every_task_has_four_prompts_of_its_own():
    texts = [text for task in PROMPTS for dataset in ("emoji", "fluent") for text in prompts(dataset, task)]
    assert set(PROMPTS) == set(TASK_MODALITIES) - {5}
    assert all(len(set(prompts(dataset, task))) == 4 for dataset in ("emoji", "fluent") for task in PROMPTS)
    assert not any("\t" in text for text in texts)
    assert len({text for task in PROMPTS for text in PROMPTS[task]}) == 4 * len(PROMPTS)
