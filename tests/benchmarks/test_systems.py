"""The command behind the table "who finds what": its plan, its rows, what it keeps, and its tables."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.data.mbeir import Tree
from genius.encode import pipeline
from genius.errors import InputError
from genius.evaluate.protocol import Evaluation
from genius.evaluate.run import evaluate_model
from genius.model import Model
from genius.train.recipe import read_recipe
from tests.benchmarks.scripts import SCRIPTS, RunScript, json_rows, load
from tests.miniature import write_miniature

ROWS = """
[[row]]
name = "default"
recipe = "{home}/codes.toml"
seeds = [0, 1]

[[row]]
name = "paper"
recipe = "{home}/systems/paper.toml"
epochs = 5

[[row]]
name = "paper, B = 3"
recipe = "{home}/systems/paper.toml"
epochs = 5
beams = 3

[[row]]
name = "grace-structured-like"
recipe = "{home}/systems/rival.toml"
[row.changes.decoder.network]
start_from_codebooks = false

[[row]]
name = "without oven"
recipe = "{home}/codes.toml"
dataset = "oven"
changes.without = ["oven"]

[[row]]
name = "mscoco alone"
recipe = "{home}/codes.toml"
task = "mscoco_task0"
changes.datasets = ["mscoco"]
"""


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The miniature, in which training asks for other items than some validation queries do."""
    root = write_miniature(tmp_path_factory.mktemp("systems") / "M-BEIR")
    for file in (root / "query/train").iterdir():
        file.write_text(file.read_text().replace('"5:201"', '"5:202"').replace('"9:1"', '"9:2"'))
    for task in (0, 3):
        pool = root / f"cand_pool/local/mbeir_mscoco_task{task}_test_cand_pool.jsonl"
        (pool.parent / pool.name.replace("_test", "_val")).write_text(pool.read_text())
    return root


@pytest.fixture(scope="module")
def rows(home: Path) -> Path:
    folder = home / "systems"
    folder.mkdir()
    coded = (home / "codes.toml").read_text()
    decoder = (home / "recipe.toml").read_text().partition("[decoder]")[2]
    (folder / "paper.toml").write_text(f"{coded}[decoder]{decoder}")
    encoder = coded.partition("[quantizer]")[0]
    named = encoder.replace("[encoder]", 'identifiers = "structured"\n[encoder]', 1)
    (folder / "rival.toml").write_text(f"{named}[decoder]{decoder}")
    (folder / "rows.toml").write_text(ROWS.format(home=home))
    return folder / "rows.toml"


@pytest.mark.long
def test_every_row_is_trained_measured_and_kept(
    run: RunScript,
    tree: Path,
    rows: Path,
    tmp_path: Path,
    own_miniature: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    work = tmp_path / "work"
    arguments = ("--tree", tree, "--rows", rows, "--work", work)
    planned = run("systems", *arguments, "--plan")
    assert "encoder of default; quantizer of default" in planned, "stages are shared"
    assert "encoder of default; quantizer of default; decoder of paper" in planned
    assert "| grace-structured-like |" in planned and "| total |" in planned
    assert "not measured yet" in run("systems", *arguments, "--budget", 0)
    assert not (work / "models").exists()
    # A kill in the middle: what was measured is kept.
    with pytest.raises(KeyboardInterrupt):
        _interrupted(monkeypatch, 1, lambda: run("systems", *arguments))
    lines = (work / "figures-val.jsonl").read_text().splitlines()
    assert [json.loads(line)[1]["pool"] for line in lines] == ["local", "union", "unseen"]
    printed = run("systems", *arguments)
    assert len((work / "figures-val.jsonl").read_text().splitlines()) == 6 + 3 + 3 + 3 + 3 + 2
    assert "not measured yet" not in printed
    assert len(list((work / "models").iterdir())) == 6, "rows that differ in beams alone share a model"
    # Nothing is done twice, and the tables are those of the evaluation.
    monkeypatch.setattr("genius.train.run.train_model", None)
    assert run("systems", *arguments, "--table") == run("systems", *arguments) == printed
    assert (work / "tables-val.md").read_text() in printed
    # Figures alone are enough for another machine.
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "figures-val.jsonl").write_text((work / "figures-val.jsonl").read_text())
    elsewhere = ("--tree", tree, "--rows", rows, "--work", tmp_path / "elsewhere", "--figures", kept)
    assert run("systems", *elsewhere) == printed
    (model,) = (work / "models").glob("*-structured-0-*")
    evaluation = evaluate_model(
        tree, model, split="val", cache=pipeline.default_cache(), pools=("unseen", "union")
    ).evaluation
    for pool in ("unseen", "union"):
        _check_line(printed, "grace-structured-like", pool, evaluation)
    assert run("systems", *arguments, "--plan").splitlines()[-3].split("|")[-3].strip() == "0.0"
    _check_beams(run, tree, model, work, evaluation)
    _check_curves(run, tree, rows, work)
    _check_seen(work, own_miniature)


def _check_seen(work: Path, own_miniature: Path) -> None:
    """What is seen depends on what a model was trained on."""
    kept = [json.loads(line)[1] for line in (work / "figures-val.jsonl").read_text().splitlines()]
    (record,) = [r for r in kept if (r["row"], r["pool"]) == ("without oven", "union")]
    assert set(record["queries"]) == {"oven_task6", "oven_task7", "oven_task8"}
    tasks = record["systems"]["default"]["tasks"]
    # No answer of the data set was one in training, except for the item that it shares with a twin.
    assert (
        "seen" in tasks["oven_task6"]
        and "seen" not in tasks["oven_task8"]
        and "unseen" in tasks["oven_task8"]
    )
    for file in [*own_miniature.glob("query/*/*mscoco*"), *own_miniature.glob("cand_pool/local/*mscoco*")]:
        file.unlink()
    alone = next(
        model
        for model in (work / "models").iterdir()
        if Model.open(model).settings["recipe"].get("datasets") == ["mscoco"]
    )
    elsewhere = evaluate_model(own_miniature, alone, split="test", cache=pipeline.default_cache())
    assert not [measured for measured in elsewhere.evaluation.measurements if "seen" in measured.metric]


def _check_beams(run: RunScript, tree: Path, model: Path, work: Path, evaluation: Evaluation) -> None:
    """The beams of a rival's decoder are searched like those of codes."""
    arguments = ("--tree", tree, "--model", model, "--work", work / "beams", "--queries", 0, "--beams", 2, 50)
    measured = {
        row["beams"]: row
        for row in json_rows(run("beams", *arguments, "--json"))
        if row.get("ranking") == "plain"
    }
    assert measured[50]["decoder"] == "grace-structured-like"
    hit = evaluation.value("grace-structured-like", "union", "mean", "hit@5")
    assert measured[50]["hit"] == pytest.approx(100 * hit)
    assert measured[2]["items"] < measured[50]["items"]


def _check_curves(run: RunScript, tree: Path, rows: Path, work: Path) -> None:
    """The log of a row's decoder as a table and a plot."""
    plot = work / "curve.png"
    arguments = ("--tree", tree, "--rows", rows, "--work", work, "--row", "paper", "--plot", plot, "--json")
    printed = run("curves", *arguments)
    (logged,) = json_rows(printed)  # one validation
    assert f"| uniform |  | {-np.log(3):.2f} | {-np.log(8):.2f} |" in printed
    unseen = [logged[f"log_prob_unseen_{level}"] for level in range(1, 5)]
    assert f"| unseen | {logged['step']} | {' | '.join(f'{value:.2f}' for value in unseen)} |" in printed
    assert plot.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="there is no row 'x'; there are: default; paper"):
        run("curves", *arguments[:7], "x")
    with pytest.raises(InputError, match="the row 'default' trains no decoder"):
        run("curves", *arguments[:7], "default")
    with pytest.raises(InputError, match="has no curves"):
        run("curves", *sorted(work.glob("training/*/encoder/log.jsonl")))


def _interrupted(monkeypatch: pytest.MonkeyPatch, after: int, work: Callable[[], object]) -> None:
    """Do what ends by a kill behind so many evaluations."""
    left = [after]

    def evaluate(*arguments: Any, **options: Any) -> Any:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return evaluate_model(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr("genius.evaluate.run.evaluate_model", evaluate)
        work()


def _check_line(printed: str, row: str, pool: str, evaluation: Evaluation) -> None:
    line = next(line for line in printed.splitlines() if line.startswith(f"| {row} | {pool} |"))
    cells = [cell.strip() for cell in line.split("|")[3:]]
    for place, system in ((1, row), (6, f"{row}+rerank")):
        mean = evaluation.value(system, pool, "mean", "hit@5")
        assert cells[place].startswith(f"{100 * mean:.1f} ("), "one seed: the interval is over queries"


def test_rows_that_ship_are_recipes_that_can_be_read() -> None:
    rows = load("system_rows")
    known = rows.read_rows(SCRIPTS / "systems.toml")
    for row in known:
        assert row.base.encoder == read_recipe("paper").encoder, "all share stage 0"
        assert rows.DENSE_BASELINE in row.systems and row.main_system in row.systems
    names = {row.name: row for row in known}
    assert names["default"].seeds == (0, 1, 2, 3, 4) and len(names["paper"].seeds) == 3
    wide = names["paper, K = 8192, M = 17 (208 bits)"].base.quantizer
    assert wide is not None and wide.codebooks.semantic_sizes == (8192,) * 16
    assert names["paper, B = 30"].systems == ["dense-fair", "genius", "genius+rerank"]
    for name in ("grace-structured-like", "irgen-like", "tiger-like", "dsi-like", "pro-like"):
        assert name in names


def test_bad_rows_are_named(tmp_path: Path) -> None:
    rows, file = load("system_rows"), tmp_path / "rows.toml"
    file.write_text('[[row]]\nname = "x"\nrecipe = "paper"\nsteps = 3')
    with pytest.raises(InputError, match="a row has no 'steps', but beams, changes"):
        rows.read_rows(file)
    file.write_text(2 * '[[row]]\nname = "x"\nrecipe = "paper"\n')
    with pytest.raises(InputError, match="has two rows called 'x'"):
        rows.read_rows(file)


def test_learned_decoders_share_what_the_file_says(tmp_path: Path) -> None:
    rows, file = load("system_rows"), tmp_path / "rows.toml"
    lines = ['[decoder]\nprecision = "bfloat16"\nbatch = 32']
    for name, more in (("paper", ""), ("minibeir", ""), ("reference", "changes.decoder.batch = 64")):
        lines.append(f'[[row]]\nname = "{name}"\nrecipe = "{name}"\n{more}')
    file.write_text("\n".join(lines))
    paper, minibeir, reference = (row.base for row in rows.read_rows(file))
    assert (paper.decoder.precision, paper.decoder.batch) == ("bfloat16", 32)
    assert minibeir == read_recipe("minibeir")
    assert (reference.decoder.precision, reference.decoder.batch) == ("bfloat16", 64)


def test_epochs_become_steps(miniature: Path) -> None:
    rows = load("system_rows")
    recipes = rows.RowRecipes(Tree(miniature))
    queries = sum(1 for _ in Tree(miniature).queries("train"))
    for name, own in (("paper", 0.0), ("rivals/grace-numeric", 0.5)):
        recipe = recipes(rows.Row("x", name, epochs=100), 3)
        assert (recipe.seed, recipe.decoder.own) == (3, own)
        assert recipe.decoder.loop.steps == np.ceil(100 * queries / (256 * (1 - own)))
        assert recipes.epochs(recipe) == pytest.approx(100, rel=0.1)
    assert recipes(rows.Row("x", "minibeir", epochs=3), 0).decoder is None
    alone = rows.Row("x", "paper", epochs=100, changes={"datasets": ["mscoco"]})
    assert (
        recipes(alone, 0).decoder.loop.steps
        < recipes(rows.Row("x", "paper", epochs=100), 0).decoder.loop.steps
    )


def test_intervals_over_queries_are_those_of_the_mean() -> None:
    figures, random = load("system_figures"), np.random.default_rng(1)
    tasks = [random.random((2, count)) < share for count, share in ((400, 0.3), (900, 0.6))]
    (_, ratio), ((low, high), _) = figures.bootstrap(tasks, 0, draws=4000)
    assert ratio == (1, 1)
    error = np.sqrt(sum(task[1].var() / task.shape[1] for task in tasks)) / 2
    mean = np.mean([task[1].mean() for task in tasks])
    assert (low, high) == pytest.approx((mean - 1.96 * error, mean + 1.96 * error), abs=0.003)


def _record(values: dict[str, float], seen: float | None = None) -> dict[str, Any]:
    """What is kept of one seed, with the same figures for all systems but half for the dense baseline."""
    by_system = {}
    for system, factor in (("dense-fair", 0.5), ("codes", 1), ("geometry", 1), ("default", 1), ("genius", 1)):
        tasks = {
            task: {"hit@5": factor * value, "hit@1": 0.1, "hit@10": 0.9} for task, value in values.items()
        }
        if seen is not None:
            tasks["grocery_task6"] |= {"seen": seen, "unseen": 0.25}
        by_system[system] = {"tasks": tasks, "interval": [0.1, 0.2], "ratio_interval": [0.5, 1.5]}
        by_system[f"{system}+rerank"] = by_system[system]
    training = {"encoder": {"steps": 9, "seconds": 1800}, "decoder": {"steps": 5000, "seconds": 5400}}
    queries = dict.fromkeys(values, 10)
    return {"queries": queries, "systems": by_system, "training": training, "epochs": 2.0, "seconds": 1.0}


def test_tables_of_partial_results() -> None:
    tables, rows = load("system_tables"), load("system_rows")
    known = [
        rows.Row("default", "minibeir", seeds=(0, 1, 2)),
        rows.Row("paper", "paper"),
        rows.Row("x", "paper"),
    ]
    values = {"flickr8k_task0": 0.2, "flickr8k_task1": 0.6, "grocery_task6": 0.8}
    records = {
        ("default", 0, "union"): _record(values),
        ("default", 2, "union"): _record({**values, "grocery_task6": 0.2}),
        ("paper", 0, "union"): _record(values, seen=0.75),
        ("paper", 0, "unseen"): _record({"flickr8k_task0": 0.3}),
    }
    text = tables.print_tables(known, records)
    means = np.array([160 / 3, 100 / 3])
    margin = 12.706 * means.std(ddof=1) / 2**0.5
    low, high = means.mean() - margin, means.mean() + margin
    # Two of three seeds: an interval over seeds; the mean over data sets beside that over tasks.
    assert f"| default | union | 2 of 3 | {means.mean():.1f} [{low:.1f} – {high:.1f}] |" in text
    assert "| 2.00 [2.00 – 2.00] | 45.0 | – | – |" in text
    # One seed: an interval over queries; seen and unseen where a task has both; hours of all stages.
    line = next(line for line in text.splitlines() if line.startswith("| paper | union |"))
    assert "| 1 of 1 | 53.3 (10.0 – 20.0) | 2.00 (0.50 – 1.50) | 60.0 | 75.0 | 25.0 |" in line
    assert line.endswith("| 5,000 | 2.0 | 2.0 |")
    (line,) = [line for line in text.splitlines() if line.startswith("| x |")]
    assert line.startswith("| x | – | not measured yet | – |")
    assert "| paper | 40.0 | 40.0 | 80.0 | 80.0 |" in text, "by data set"
    assert "| union pool, mean over tasks | 0.59 | 0.78 | 2.00 | 2.00 | 2.00 | 2.00 |" in text
    assert "| paper | 30.0 | 30.0 | 74.6 | 65.5 |" in text, "text to image beside the published figures"
    scipy = pytest.importorskip("scipy.stats")
    np.testing.assert_allclose(tables.STUDENT_T, scipy.t.ppf(0.975, np.arange(1, 10)), atol=5e-4)
