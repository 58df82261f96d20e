"""Words of other languages: each has one meaning, and none is an English word that people search for."""

from __future__ import annotations

import re
from importlib import resources

from genius.collection.vocabulary import VOCABULARY
from genius.encode.foreign_words import ENGLISH_FOR, FREQUENT_WORDS
from genius.index.query_batch import unread_note


def lines() -> list[str]:
    return resources.files("genius.encode").joinpath("foreign_words.txt").read_text("utf-8").splitlines()


def test_every_word_has_one_meaning() -> None:
    words = [word for line in lines() for word in line.split(": ")[1].split()]
    assert len(words) == len(set(words)) > 900
    assert all(re.fullmatch(r"[^\W\d_]+", word) and word == word.lower() for word in words)


def test_no_english_word_is_foreign() -> None:
    texts = resources.files("genius.index").joinpath("everyday_texts.txt").read_text("utf-8")
    english = {
        word
        for text in (texts, *VOCABULARY, *(line.split(": ")[0] for line in lines()))
        for word in text.split()
    }
    assert len(english) > 1000
    assert not english & (ENGLISH_FOR.keys() | FREQUENT_WORDS)


def test_what_was_perhaps_meant_is_said() -> None:
    assert unread_note("perro", ["perro"]) == [
        "nothing of this text was understood: the encoder reads English (perhaps: dog)"
    ]
    assert unread_note("un perro en la playa", ["perro", "playa"]) == [
        "not understood: perro (dog?), playa (beach?); the encoder reads English"
    ]
    assert unread_note("собака", ["собака"]) == [
        "nothing of this text was understood: the encoder reads English"
    ]
    assert ENGLISH_FOR["straße"] == "street"
