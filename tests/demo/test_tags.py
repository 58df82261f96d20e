from __future__ import annotations

from genius.demo.emoji import read_emoji
from genius.demo.tags import MOST_ENTRIES, tag_texts
from tests.demo.entries import RUNNERS, Everything, entry


def test_tag_texts_list_every_emoji_that_fits_and_only_one_family() -> None:
    entries = [
        *RUNNERS,
        entry("1F415", "dog", "pet", "animal", "loyal", group=3),
        entry("1F408", "cat", "pet", "animal", "night", group=3),
        *(
            entry(f"1F55{n}", f"{name} o’clock", "clock", "time", name, subgroup=58)
            for n, name in enumerate("abcdefgh")
        ),
    ]
    emojis = read_emoji(entries, Everything())
    texts = dict(tag_texts(emojis))
    assert "animal, pet" not in texts  # dog and cat would fit
    assert "clock, time" not in texts  # eight would fit: too vague
    assert [emoji.name for emoji in texts["animal, loyal"]] == ["dog"]
    for text, fitting in texts.items():
        words = [word for word in text.split(", ") if not word.endswith("skin tone")]
        tone = next((word.removesuffix(" skin tone") for word in text.split(", ") if word not in words), None)
        expected = [
            emoji
            for emoji in emojis
            if emoji.words >= set(words) and tone in (None, emoji.attributes.get("tone"))
        ]
        assert [emoji.key for emoji in fitting] == [emoji.key for emoji in expected]
        assert len({emoji.family for emoji in fitting}) == 1
        assert len({emoji.entry for emoji in fitting}) <= MOST_ENTRIES


def test_tags_outside_the_name_come_first() -> None:
    entries = [entry("AA1", "pig nose", "snout", "smell", "truffle", "oink", group=3)]
    texts = [text for text, _ in tag_texts(read_emoji(entries, Everything()))]
    assert len(texts) == 6
    assert not any("pig" in text or "nose" in text for text in texts)
