from __future__ import annotations

from genius.data.labels import Background, label, words


def background(*texts: str) -> Background:
    made = Background()
    for text in texts:
        made.add(text)
    return made


CATS = ["the cat on a table", "the cat in a hat", "the sleeping cat"]
OTHERS = ["the dog on a table", "the house on a hill", "the red hat", "the boat", "the table"] * 3


def test_a_word_only_here_beats_a_word_everywhere() -> None:
    assert label(CATS, background(*CATS, *OTHERS)).startswith("cat")
    assert "the" not in label(CATS, background(*CATS, *OTHERS)).split(", ")


def test_a_frequent_word_beats_a_rare_one() -> None:
    texts = ["green parrot"] * 9 + ["green parrot from Kakapo"]
    assert label(texts, background(*texts, *OTHERS)) == "green, parrot"


def test_variants_of_a_word_stand_once() -> None:
    texts = ["dogs dog bark"] * 5
    assert label(texts, background(*texts, *["the house"] * 20)) == "bark, dog"


def test_nothing_stands_out_where_all_texts_are_the_same() -> None:
    assert label(["the same"] * 3, background(*["the same"] * 30)) == ""
    assert label([], background(*OTHERS)) == ""


def test_words() -> None:
    assert words("Ein Möwen-Ei, 3 Öfen & it's on!") == {"ein", "möwen-ei", "öfen", "it's"}
