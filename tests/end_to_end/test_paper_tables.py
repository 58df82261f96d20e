"""The paper's tables in one command, on a small tree with the names of M-BEIR on the hub."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("faiss")

from typer.testing import CliRunner

from genius import Model
from genius.cli import app
from genius.data.mbeir import UNION, Tree
from genius.errors import InputError
from genius.evaluate.paper import PaperComparison
from genius.evaluate.run import Result, evaluate_model
from tests.coded import coded_corpus
from tests.encode.small_towers import use_small_towers
from tests.hub_tree import DATASETS, QUERIES, write_hub_tree
from tests.oracles.beam import beam_search, ranked_items
from tests.oracles.trie import Trie

SYSTEMS = ("dense", "geometry-b30", "geometry-b30+rerank", "geometry-b50", "geometry-b50+rerank")


@pytest.fixture(scope="module")
def hub_tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_hub_tree(tmp_path_factory.mktemp("hub") / "M-BEIR", (*DATASETS, "flickr30k"))


@pytest.fixture(autouse=True)
def small_world(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_towers(coded_home, monkeypatch)


@pytest.fixture(scope="module")
def result(hub_tree: Path, coded_model: Path, coded_home: Path) -> Result:
    with pytest.MonkeyPatch.context() as patch:
        use_small_towers(coded_home, patch)
        return evaluate_model(
            hub_tree, coded_model, split="test", cache=coded_home / "cache", protocol="genius"
        )


def test_every_published_task_is_measured_by_the_published_systems(result: Result) -> None:
    measured = {(m.system, m.pool, m.task) for m in result.evaluation.measurements if m.metric == "hit@10"}
    names = [f"{dataset}_task{task}" for dataset, (_, tasks) in DATASETS.items() for task in tasks]
    wanted = {(system, pool, task) for system in SYSTEMS for pool in ("local", "union") for task in names}
    assert wanted == {key for key in measured if key[2] != "mean"}
    assert (result.settings["protocol"], result.settings["wanted_modality"]) == ("genius", "inferred")
    assert result.left_out == ("flickr30k_task0",)
    fewer, more = (result.evaluation.value(f"geometry-b{b}", "union", "mean", "items") for b in (30, 50))
    assert 30 <= fewer < more
    # Nothing is claimed of ranks that were not searched.
    assert not [m for m in result.evaluation.measurements if m.metric in ("hit@20", "hit@50")]
    assert all(len(items) <= 10 for run in result.evaluation.runs for items in run.results.values())


@pytest.mark.parametrize("beams", [30, 50])
def test_ours_is_beam_search_with_so_many_beams_and_an_unforced_first_code(
    result: Result, beams: int, hub_tree: Path, coded_model: Path, coded_home: Path
) -> None:
    model, tree = Model.open(coded_model, threads=1), Tree(hub_tree)
    coded = coded_corpus(model, hub_tree, coded_home / "cache", "test")
    numbers = coded.embedded.pool.numbers
    members = np.array([numbers[item.id] for item in tree.pool(UNION, "test")])
    trie = Trie.build(coded.codes[members])
    assert len(np.unique(coded.codes[members], axis=0)) > 50
    runs = [r for r in result.evaluation.runs if (r.system, r.pool) == (f"geometry-b{beams}", UNION)]
    assert len(runs) == 16
    for run in runs:
        searched = beam_search(model.geometry, trie, coded.queries[run.task], beams)
        scores, _ = ranked_items(trie, searched, 10)
        for row, results in zip(scores, run.results.values(), strict=True):
            assert [score for _, score in results] == pytest.approx(row.tolist(), abs=1e-4)


def test_the_tables_have_ours_beside_the_published(result: Result) -> None:
    comparison = PaperComparison(result)
    tables = {table.title.split(":")[0]: table for table in comparison.tables()}
    assert list(tables) == [
        "Table 1 of the paper",
        "Table 2 of the paper",
        "Table 8 of the supplement",
        "Table 9 of the supplement",
    ]
    rows = {str(row[0]): row[1:] for row in tables["Table 1 of the paper"].rows}
    assert list(rows) == [
        *("CLIP-SF", "ours (dense)", "BLIP-FF", "IRGen", "GRACE"),
        *("GENIUS (B = 50)", "ours (B = 50)", "GENIUS^R (B = 50)", "ours^R (B = 50)"),
    ]
    value = result.evaluation.value
    assert rows["GENIUS^R (B = 50)"][0] == 78.0
    ours = 100 * value("geometry-b50+rerank", "local", "mscoco_task0", "hit@5")
    assert rows["ours^R (B = 50)"][0] == pytest.approx(ours)
    ours = 100 * value("dense", "local", "fashion200k_task0", "hit@10")
    assert rows["ours (dense)"][2] == pytest.approx(ours)
    shown = tables["Table 9 of the supplement"]
    assert shown.columns[:3] == ("task", "", "CLIP-SF")
    first = [row[:3] for row in shown.rows[:3]]
    names = ["q_t→c_i VisualNews", "q_t→c_i COCO", "q_t→c_i Fashion200K"]
    assert first == [(names[0], "R@5", 42.6), (names[1], "R@5", 77.9), (names[2], "R@10", 17.8)]
    average = dict(zip(shown.columns, shown.rows[-1], strict=True))
    assert (average["task"], average["GENIUS\n(B = 30)"]) == ("average", 28.1)
    mean = 100 * value("geometry-b30", "union", "mean", "headline")
    assert average["ours\n(B = 30)"] == pytest.approx(mean, abs=0.01)
    notes = "\n".join(comparison.notes())
    assert "In this tree, but not in the paper, and not searched: flickr30k_task0." in notes
    assert "no learned decoder" in notes and "Not in this tree" not in notes


def test_what_a_tree_lacks_is_shown_as_absent(coded_model: Path, tmp_path: Path) -> None:
    tree = write_hub_tree(tmp_path / "M-BEIR", ("mscoco", "fashioniq"))
    arguments = ["evaluate", str(tree), "-m", str(coded_model), "--protocol", "genius"]
    shown = CliRunner().invoke(app, [*arguments, "-o", str(tmp_path / "results")], catch_exceptions=False)
    assert shown.exit_code == 0, shown.output
    assert "Not in this tree, so that ours is –: VisualNews q_t→c_i" in shown.stdout.replace("\n", " ")
    figures = json.loads((tmp_path / "results/paper.json").read_text())
    assert len(figures) == 16 * (6 + 4 + 10 + 8)
    with (tmp_path / "results/paper.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == len(figures) and set(rows[0]) == set(figures[0])
    of_ours = [figure for figure in figures if figure["system"] == "dense" and figure["table"] == 9]
    here = {f["task"]: f["queries"] for f in of_ours if f["ours"] is not None}
    assert here == dict.fromkeys(("mscoco_task0", "mscoco_task3", "fashioniq_task7"), QUERIES)
    assert {f["metric"] for f in figures if f["task"] == "fashioniq_task7"} == {"hit@10"}
    page = (tmp_path / "results/paper.md").read_text()
    assert "| average of these 3 |" in page
    assert "| q_i→c_t COCO | R@5 | 92.3 |" in page
    lines = CliRunner().invoke(app, [*arguments, "--pool", "local", "--json"], catch_exceptions=False)
    printed = [json.loads(line) for line in lines.stdout.splitlines()]
    assert {row["table"] for row in printed} == {1, 8}
    assert printed[0] | {"ours": None} == {
        "table": 1,
        "source": "Table 1 of the paper",
        "pool": "local",
        "method": "CLIP-SF",
        "task": "mscoco_task0",
        "metric": "hit@5",
        "published": 81.1,
        "system": "dense",
        "ours": None,
        "queries": QUERIES,
    }


def test_what_has_no_published_figures_is_refused(
    coded_model: Path, hub_tree: Path, miniature: Path, tmp_path: Path
) -> None:
    for options, message in (
        (["--split", "val"], "--split val has no published figures"),
        (["--system", "default"], "--system has no published figures"),
        (["--mode", "fast"], "--mode has no published figures"),
        (["--exclude-query-item"], "--exclude-query-item has no published figures"),
        (["--task", "flickr30k_task0"], "the paper has no figures for flickr30k_task0"),
        (["--protocol", "paper"], "--protocol should be one of mbeir, genius, but is 'paper'"),
    ):
        arguments = ["evaluate", str(hub_tree), "-m", str(coded_model), "--protocol", "genius", *options]
        with pytest.raises(InputError, match=message):
            CliRunner().invoke(app, arguments, catch_exceptions=False)
    other = write_hub_tree(tmp_path / "other", ("flickr30k",))
    with pytest.raises(InputError, match=r"has none of the paper's tasks .* but flickr30k_task0"):
        evaluate_model(other, coded_model, split="test", cache=tmp_path, protocol="genius")
