from __future__ import annotations

from pathlib import Path

import pytest

from genius import Index
from genius.data.contact_sheet import GAP, TILE
from genius.data.mbeir import Tree
from genius.demo.examples import HITS, Example, example_sheet, search_examples
from genius.model import Model


@pytest.fixture(scope="module")
def examples(
    coded_model: Path, coded_home: Path, miniature: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[Example]:
    with Index.create(tmp_path_factory.mktemp("examples") / "index", Model.open(coded_model)) as index:
        index.add(Tree(miniature), cache=coded_home / "cache", workers=1)
        return search_examples(index, Tree(miniature))


def test_there_is_an_example_of_each_kind_with_hits_of_its_modality(examples: list[Example]) -> None:
    assert [example.title for example in examples] == ["text to image", "image to text", "pair to image"]
    for example in examples:
        assert len(example.hits) == HITS
        assert {hit.item.modality for hit in example.hits} == {example.task.target}
        assert not {hit.item.id for hit in example.hits} & set(example.query.negatives)


def test_right_answers_are_marked_in_the_text(examples: list[Example]) -> None:
    for example in examples:
        head, *lines = example.lines()
        assert head.startswith(f"{example.title}: ")
        for rank, (hit, line) in enumerate(zip(example.hits, lines, strict=True), start=1):
            assert line.startswith(f"  {rank}. ")
            assert ("✓" in line) == (hit.item.id in example.query.positives)
            shown = hit.item.text or (hit.item.image and hit.item.image.name)
            assert shown and line.endswith(shown)


def test_the_sheet_has_a_row_for_each_example(examples: list[Example]) -> None:
    sheet, single = example_sheet(examples), examples[0].sheet()
    assert sheet.width == single.width == (1 + HITS) * (TILE + GAP) + GAP
    assert sheet.height == len(examples) * single.height
