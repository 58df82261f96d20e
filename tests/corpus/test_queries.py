from __future__ import annotations

import pytest

from genius.corpus.items import CorpusItems, read_items
from genius.corpus.queries import read_prompts, read_queries
from genius.data.instructions import clean
from genius.data.mbeir import Tree
from genius.data.records import MODALITIES
from genius.encode.features import ABSENT
from genius.encode.inputs import EncoderInputs, InputRows
from genius.errors import InputError


@pytest.fixture(scope="module")
def items(tree: Tree, source: InputRows) -> CorpusItems:
    return read_items(tree, source, "test")


def test_queries_of_each_task_with_their_answers(tree: Tree, source: InputRows, items: CorpusItems) -> None:
    tasks = read_queries(tree, source, items, "test")
    assert [task.task for task in tasks] == tree.tasks("test")
    for task in tasks:
        assert MODALITIES[task.want] == task.task.target
        for place, query in enumerate(tree.queries("test", task.task)):
            assert task.ids[place] == query.id
            assert [items.ids[number] for number in task.positives(place)] == list(query.positives)
            assert [items.ids[number] for number in task.negatives[place]] == list(query.negatives)
            row = task.contents.instruction[place]
            assert source.texts[row] == clean(query.instruction)
            text = task.own_texts[place]
            assert (None if text == ABSENT else source.texts[text]) == (clean(query.text) or None)


def test_instructions_may_stand_in_front_of_texts(tree: Tree, items: CorpusItems) -> None:
    inputs = EncoderInputs(apart=False)
    inputs.add_tree(tree)
    source = InputRows(inputs)
    for task in read_queries(tree, source, items, "test", apart=False):
        assert (task.contents.instruction == ABSENT).all()
        for place, query in enumerate(tree.queries("test", task.task)):
            text = source.texts[task.contents.text[place]]
            assert text.startswith(clean(query.instruction)) and text.endswith(clean(query.text))


def test_a_sample_of_queries_keeps_what_belongs_to_each(
    tree: Tree, source: InputRows, items: CorpusItems
) -> None:
    for task in read_queries(tree, source, items, "test"):
        sample = task.sampled(2, seed=0)
        assert len(sample) == 2
        assert task.sampled(2, seed=0).ids == sample.ids
        for row, id in enumerate(sample.ids):
            before = task.ids.index(id)
            assert sample.positives(row).tolist() == task.positives(before).tolist()
            assert sample.contents.image[row] == task.contents.image[before]
            assert sample.own_texts[row] == task.own_texts[before]
        assert task.sampled(99, seed=0) is task
    assert len({tuple(task.sampled(2, seed=seed).ids) for seed in range(20)}) > 1


def test_prompts_with_the_modalities_that_they_ask_for(tree: Tree, source: InputRows) -> None:
    rows, wanted = read_prompts(tree, source)
    named = {source.texts[row]: MODALITIES[number] for row, number in zip(rows, wanted, strict=True)}
    assert named == {clean(prompt): want for prompt, want in tree.instructions.wanted_by_prompt().items()}


def test_a_split_without_answered_queries_is_refused(
    tree: Tree, source: InputRows, items: CorpusItems
) -> None:
    nothing = CorpusItems([], items.contents[:0], items.modality[:0], {})
    with pytest.raises(InputError, match="has no test queries with an answer in its pools"):
        read_queries(tree, source, nothing, "test")
