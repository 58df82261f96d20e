"""The tree that the shipped model is trained on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from genius.data.mbeir import Split
from genius.data.records import Query
from genius.data.tasks import Task
from tools.photo_tree import FEWEST_WORDS, LEFT_OUT, shorten_captions, shortened


@given(st.lists(st.from_regex(r"[a-z]{1,5}", fullmatch=True), max_size=12), st.integers(0, 999))
def test_a_shortened_text_has_some_of_its_words_in_their_order(words: list[str], seed: int) -> None:
    left = shortened(" ".join(words), seed).split()
    rest = iter(words)
    assert all(word in rest for word in left)  # a subsequence
    assert len(left) >= min(FEWEST_WORDS, len(words))
    assert shortened(" ".join(words), seed).split() == left


def test_a_third_of_the_words_is_left_out() -> None:
    words = [str(number) for number in range(50)]
    lengths = [len(shortened(" ".join(words), seed).split()) for seed in range(200)]
    assert abs(sum(lengths) / 200 / 50 - (1 - LEFT_OUT)) < 0.02


def test_every_second_training_caption_has_fewer_words() -> None:
    def captions(split: str) -> list[Query]:
        text = " ".join(f"{split}{number}" for number in range(40))
        return [Query(id=f"14:{number}", text=text, positives=("14:1",)) for number in range(4)]

    splits: tuple[Split, ...] = ("train", "val")
    queries = {(split, Task("coco", 0)): captions(split) for split in splits}
    shorten_captions(queries)
    trained, whole = queries["train", Task("coco", 0)], captions("train")
    assert [query.text == before.text for query, before in zip(trained, whole, strict=True)] == [
        True,
        False,
        True,
        False,
    ]
    assert [(query.id, query.positives) for query in trained] == [
        (query.id, query.positives) for query in whole
    ]
    assert queries["val", Task("coco", 0)] == captions("val")
