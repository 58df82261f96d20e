"""Names of groups: by what their texts share, by words near them, and by no stray text."""

from __future__ import annotations

import doctest

import numpy as np

from genius.collection import album_folder, album_labels
from genius.collection.album_labels import counted, distinct, names_by_texts, names_by_words, naming_text
from genius.collection.vocabulary import VOCABULARY
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
    names = names_by_words(groups, everything, words, vocabulary)
    assert [options[0] for options in names] == ["Dogs", "Trains and boats"]
    assert len(VOCABULARY) > 400 and len(set(VOCABULARY)) == len(VOCABULARY)


def test_a_group_that_is_the_whole_collection_is_named_by_what_it_shows() -> None:
    words = np.eye(4)[:, :3] + 0.5  # every image is a little like every word
    whole = np.array([[0.2, 0.9, 0.1]])
    assert names_by_words(whole, whole[0], words, ["people", "dogs", "trains", "boats"])[0][0] == "Dogs"


def test_an_item_without_text_is_named_by_a_title_among_its_metadata() -> None:
    image = ImageBytes(b"")
    assert naming_text(Item("1", "a text", metadata={"title": "another"})) == "a text"
    assert naming_text(Item("2", image=image, metadata={"title": "", "name": "flag"})) == "flag"
    assert naming_text(Item("3", image=image, metadata={"name": 7})) is None
