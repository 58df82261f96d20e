"""Names of groups: by what their texts share, by words near them, and by no stray text."""

from __future__ import annotations

import doctest

import numpy as np
import pytest

from genius.collection import album_folder, album_labels
from genius.collection.album_labels import (
    STEADY,
    counted,
    distinct,
    names_by_texts,
    names_by_words,
    naming_text,
    word_spreads,
)
from genius.collection.vocabulary import BROADER, FURTHER, GENERIC, ONE_PERSON, VOCABULARY
from genius.data.records import ImageBytes, Item

DOGS = ["A brown dog runs on the beach.", "Two dogs play", "The dog sleeps", "A dog and a ball", "Dogs swim"]
SIGNS = ["A stop sign", "a red stop sign at night", "The stop sign is bent", "A stop sign and a tree"]
OTHERS = ["A cat on a sofa", "A train in the station", "A man on a bench", "A plate of food", "A red ball"]


def name(texts: list[str], size: int | None = None, others: list[str] = OTHERS) -> str:
    names = names_by_texts(texts, size or len(texts), counted([*texts, *others]))
    return names[0] if names else ""


def test_examples_in_the_docstrings() -> None:
    assert not doctest.testmod(album_labels).failed
    assert not doctest.testmod(album_folder).failed


def test_what_most_texts_share_is_the_name() -> None:
    assert name(DOGS) in ("Dog", "Dogs")
    assert name(SIGNS) == "Stop sign"
    assert name(["red shoe", "red shoe", "blue hat", "blue hat"]) == "Blue hat and red shoe"


def test_what_all_groups_share_is_no_name() -> None:
    shared = [f"A fine product: {word}" for word in ("dog", "dog", "dog", "cat", "cat", "cat")]
    assert name(shared[:3], others=shared[3:]) == "Dog"


def test_a_stray_text_names_nothing() -> None:
    assert name(["It rained on the dogs at the lake."], size=120) == ""
    assert name(["dogs", "dogs", "dogs"], size=120) == ""
    assert name(["dogs"], size=1) == "Dogs"
    assert name(["of the", "and", "in a"]) == ""


def test_names_differ() -> None:
    assert distinct([["Dogs", "Dogs and cats"], ["Dogs", "Puppies"], ["Dogs"], [], []]) == [
        "Dogs",
        "Puppies",
        "Dogs 2",
        "",
        "",
    ]


def test_words_name_what_sets_a_group_apart() -> None:
    words = np.eye(5)
    vocabulary = ["people", "dogs", "puppies", "trains", "boats"]
    words[2] = 0.8 * words[1] + 0.6 * words[2]  # much like dogs
    everything = np.array([0.9, 0.1, 0, 0.1, 0.1])
    groups = np.array([[0.9, 0.6, 0.1, 0.1, 0.1], [0.9, 0.1, 0, 0.6, 0.58]])
    names = names_by_words(groups, everything, np.ones(5), words, vocabulary)
    assert [options[0] for options in names] == ["Dogs", "Trains and boats"]
    assert len(VOCABULARY) > 400 and len(set(VOCABULARY)) == len(VOCABULARY)


def test_a_group_that_is_the_whole_collection_is_named_by_what_it_shows() -> None:
    words = np.eye(4)[:, :3] + 0.5  # every image is a little like every word
    whole = np.array([[0.2, 0.9, 0.1]])
    vocabulary = ["people", "dogs", "trains", "boats"]
    assert names_by_words(whole, whole[0], np.ones(4), words, vocabulary)[0][0] == "Dogs"


def named(scores: dict[str, float], spreads: dict[str, float] | None = None) -> list[str]:
    """The names of a group that has these scores for words, each apart from the others."""
    words = np.eye(len(scores))
    spread = np.array([(spreads or {}).get(word, 1.0) for word in scores])
    group = np.array([[*scores.values()]])
    return names_by_words(group, np.zeros(len(scores)), spread, words, list(scores))[0]


def test_what_several_words_have_in_common_is_the_name() -> None:
    meals = {"seafood": 1.0, "pizza": 0.98, "plates": 0.95, "breakfast": 0.9, "boats": 0.1}
    assert named(meals)[:2] == ["Food", "Seafood and pizza"]
    assert named({"apples": 1.0, "oranges": 0.98, "lemons": 0.95, "boats": 0.1})[0] == "Fruit and vegetables"
    # one word that stands out, only two words, and words without a broader name are named by themselves
    assert named({**meals, "seafood": 2.0})[0] == "Seafood"
    assert named({"seafood": 1.0, "pizza": 0.98, "boats": 0.1})[0] == "Seafood and pizza"
    assert named({"seafood": 1.0, "fog": 0.98, "boats": 0.95, "dolls": 0.94})[0] == "Seafood and fog"


def test_people_are_not_named_by_one_of_them() -> None:
    assert named({"a girl": 1.0, "a woman": 0.7, "boats": 0.1})[:2] == ["People", "Portraits"]


def test_a_word_that_says_nothing_more_is_no_second_name() -> None:
    assert named({"cats": 1.0, "pets": 0.99, "boats": 0.1})[0] == "Cats"


def test_a_word_for_which_items_differ_much_counts_no_more_than_others() -> None:
    assert named({"dogs": 1.0, "boats": 1.2}, {"boats": 2.0})[0] == "Dogs"
    items = np.random.default_rng(0).normal(size=(500, 2)) * [1, 10]
    spreads = word_spreads(items, np.eye(2))
    assert spreads == pytest.approx(items.std(0) + STEADY * items.std(0).mean())


def test_albums_within_a_broad_one_do_not_have_its_name() -> None:
    assert distinct([["Food", "Pizza"], ["Dogs"]], "Food") == ["Pizza", "Dogs"]
    assert distinct([["Dogs", "Puppies"]], "Dogs") == ["Dogs"]


def test_broader_names_stand_for_words_of_the_vocabulary() -> None:
    for name, words in BROADER.items():
        assert words <= set(VOCABULARY), name
        assert len(words) >= 4
    assert set(FURTHER) <= set(BROADER) and set(VOCABULARY) >= GENERIC | ONE_PERSON


def test_an_item_without_text_is_named_by_a_title_among_its_metadata() -> None:
    image = ImageBytes(b"")
    assert naming_text(Item("1", "a text", metadata={"title": "another"})) == "a text"
    assert naming_text(Item("2", image=image, metadata={"title": "", "name": "flag"})) == "flag"
    assert naming_text(Item("3", image=image, metadata={"name": 7})) is None
