"""What `genius evaluate` calls `default` is what `Index.search` does, item by item, and so in other modes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("faiss")

from genius import Index, Model
from genius.corpus.coded import CodedCorpus
from genius.data.mbeir import UNION, Tree
from genius.evaluate import systems
from genius.evaluate.protocol import DEPTH, Evaluation, Rankings
from genius.evaluate.run import evaluate_model
from genius.evaluate.systems import coded_systems
from genius.index.query import SearchKeywords
from genius.search.engine import Mode
from tests.coded import coded_corpus
from tests.end_to_end.rankings import Ranking, assert_same_rankings, make_index, rankings, readable

MODES: tuple[Mode, ...] = ("auto", "fast")

ROWS: dict[str, SearchKeywords] = {
    "default": {"rerank": False},
    "default+rerank": {},
    "fast": {"mode": "fast", "rerank": False},
    "fast+rerank": {"mode": "fast"},
    "geometry": {"mode": "paper", "decoder": "geometry"},
    "geometry+rerank": {"mode": "paper", "decoder": "geometry", "rerank": True},
}
"""The rows of an evaluation, and the options by which an index searches alike."""


@dataclass(frozen=True)
class Both:
    """A model's evaluation, and an index of the same tree."""

    evaluation: Evaluation
    index: Index
    coded: CodedCorpus


@pytest.fixture(scope="module", params=["coded_model", "learned_model"])
def both(
    request: pytest.FixtureRequest,
    miniature: Path,
    coded_home: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Both:
    """With a modality code that is given, and with one that is learned."""
    path: Path = request.getfixturevalue(request.param)
    model, cache = Model.open(path), coded_home / "cache"
    result = evaluate_model(miniature, path, split="test", cache=cache, pools=("union",), modes=MODES)
    index = make_index(tmp_path_factory.mktemp("engine") / "index", model, Tree(miniature), cache)
    assert index.add(Tree(miniature), cache=cache).failures.count == 3  # of which no image exists
    return Both(result.evaluation, index, coded_corpus(model, miniature, cache, "test"))


@pytest.mark.parametrize("row", ROWS)
def test_a_row_of_an_evaluation_is_what_an_index_returns(both: Both, miniature: Path, row: str) -> None:
    tree = Tree(miniature)
    runs = [run for run in both.evaluation.runs if run.system == row]
    assert [run.task for run in runs] == tree.tasks("test")
    for run in runs:
        results = rankings(both.index, tree, run.task, **(ROWS[row] | {"k": DEPTH}))
        assert_same_rankings(results, readable(run.results, both.index))


@pytest.mark.parametrize("row", ROWS)
def test_with_few_beams_an_index_loses_what_an_evaluation_loses(
    both: Both, miniature: Path, row: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The search above covers all items of a modality; here each mode has candidates of its own."""
    monkeypatch.setattr(systems, "DEPTH", 3)
    tree, corpus, beams = Tree(miniature), both.coded.embedded.pool, 2
    ids = [item.id for item in tree.pool(UNION, "test") if item.id in both.index]
    members = np.array([corpus.numbers[id] for id in ids])
    search = coded_systems(both.index.model, both.coded, beams=beams, modes=MODES)[row]
    options = ROWS[row] | {"k": 3, "beam": beams}
    for task, queries in both.coded.embedded.tasks.items():
        expected = dict(zip(queries.ids, _named(search(task, members), corpus.ids), strict=True))
        assert_same_rankings(rankings(both.index, tree, task, **options), expected)


def _named(results: Rankings, ids: list[str]) -> list[Ranking]:
    """Rankings of item numbers by item ids."""
    return [
        [(ids[number], float(score)) for number, score in zip(numbers, scores, strict=True) if number >= 0]
        for numbers, scores in zip(results.numbers, results.scores, strict=True)
    ]
