"""The tree that the shipped model is trained on."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from genius.data.mbeir import Split
from genius.data.records import Query
from genius.data.tasks import Task
from tools.photo_tree import FEWEST_WORDS, LEFT_OUT, add_shortened_captions, shortened


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


def test_every_training_caption_asks_twice() -> None:
    def captions(split: str) -> list[Query]:
        return [
            Query(id=f"14:{number}", text=f"a dog on the beach {split}", positives=("14:1",))
            for number in (1, 71, 79_615)
        ]

    splits: tuple[Split, ...] = ("train", "val")
    queries = {(split, Task("coco", 0)): captions(split) for split in splits}
    add_shortened_captions(queries)
    trained = queries["train", Task("coco", 0)]
    assert len({query.id for query in trained}) == len(trained) == 6
    assert [query.positives for query in trained[3:]] == [query.positives for query in trained[:3]]
    assert len(queries["val", Task("coco", 0)]) == 3
