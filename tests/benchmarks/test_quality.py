"""The command behind the tables of figures, and its bars."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.data.mbeir import Tree
from genius.data.tasks import Task
from genius.evaluate.protocol import Evaluation, Measurement, Run
from tests.benchmarks.scripts import json_rows, load
from tests.miniature import write_lines


def _main(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr(sys, "argv", ["quality.py", *map(str, arguments)])
    return int(load("quality").main())


def test_all_rows_are_printed_and_bars_are_judged(
    own_miniature: Path,
    home: Path,
    trained: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for task in (0, 3):
        file = own_miniature / f"cand_pool/local/mbeir_mscoco_task{task}_test_cand_pool.jsonl"
        shutil.copy(file, file.with_name(file.name.replace("test", "val")))
    model = ("--model", trained, "--force")
    arguments = ("--tree", own_miniature, "--recipe", home / "recipe.toml", *model)
    assert _main(monkeypatch, *arguments) == 0
    printed = capsys.readouterr()
    systems = {row["system"] for row in json_rows(printed.out)}
    assert {"geometry", "genius", "default", "default+rerank", "fast", "fast+rerank"} <= systems
    assert {"default, wanted inferred", "genius+rerank, wanted inferred", "quantizer"} <= systems
    assert "| system |" in printed.err and "MISSED" not in printed.err
    assert _main(monkeypatch, *arguments, "--final") == 1  # it is not that good after ten steps
    judged = capsys.readouterr().err
    for name in (
        "plain, share of the dense baseline",
        "fast+rerank, items below the beams",
        "oven, plain",
        "survival after two semantic",
        "purity of the learned modality code",
    ):
        assert name in judged
    assert "grocery" not in judged
    published = home / "published.toml"  # the published recipes have rows, and no bars
    published.write_text((home / "recipe.toml").read_text().replace('name = "small"', 'name = "paper"'))
    assert _main(monkeypatch, "--tree", own_miniature, "--recipe", published, *model, "--final") == 0
    printed = capsys.readouterr()
    assert "MISSED" not in printed.err
    assert {"genius", "genius+rerank"} <= {row["system"] for row in json_rows(printed.out)}


TASK = Task("grocery", 6)


def _evaluation(default: list[bool], geometry: list[bool], means: dict[str, float]) -> Evaluation:
    """Queries whose answer comes second, or not at all; a mean of hit rates for each system."""
    evaluation = Evaluation()
    for name, hits in (("default", default), ("geometry", geometry)):
        results = {
            f"q{number}": [("x", 1.0), (f"a{number}" if hit else "y", 0.5)] for number, hit in enumerate(hits)
        }
        evaluation.runs.append(Run(name, "union", TASK, results))
        value = float(np.mean(hits))
        evaluation.measurements.append(Measurement(name, "union", str(TASK), "hit@5", value, len(hits)))
    for system, value in means.items():
        evaluation.measurements.append(Measurement(system, "union", "mean", "hit@5", value, 1))
        evaluation.measurements.append(Measurement(system, "union", "mean", "items", 260.0, 1))
    return evaluation


def _judged(folder: Path, count: int) -> Tree:
    """A tree with judgements of test queries."""
    for name in ("cand_pool", "query"):
        (folder / name).mkdir(parents=True)
    judged = folder / f"qrels/test/mbeir_{TASK}_test_qrels.txt"
    judged.parent.mkdir(parents=True)
    judged.write_text("".join(f"q{number} 0 a{number} 1 6\n" for number in range(count)))
    return Tree(folder)


def test_seen_and_unseen_targets_are_judged_apart(tmp_path: Path) -> None:
    bars = load("bars")
    seen = [True] * 9 + [False]
    default = seen + [True] * 3 + [False] * 27
    geometry = [True] * 5 + [False] * 5 + [True] * 5 + [False] * 25
    means = {"dense-fair": 0.4, "default": 0.39, "fast+rerank": 0.4, "geometry+rerank": 0.38}
    evaluation = _evaluation(default, geometry, means)
    evaluation.seen = {TASK: [number < 10 for number in range(40)]}
    verdicts = bars.judge_search(evaluation, _judged(tmp_path / "tree", 40), "test")
    held = {sentence.partition(":")[0]: (sentence, holds) for sentence, holds in verdicts}
    assert held["plain"][1] and not held["plain, share of the dense baseline"][1]
    assert (
        held["fast+rerank, share of the dense baseline"][1] and held["fast+rerank, items below the beams"][1]
    )
    assert not held["geometry+rerank, items below the beams"][1]
    assert not held["geometry+rerank, share of the dense baseline"][1]
    assert held["grocery, plain"][1]
    assert held["grocery_task6, seen"] == ("grocery_task6, seen: 90.00 >= 85.0 (geometry 50.00)", True)
    assert (
        "10.00, beside geometry -6.67 with the 95 % interval -15.75 to +2.41"
        in held["grocery_task6, unseen"][0]
    )
    assert held["grocery_task6, unseen"][1]


def test_a_paired_interval_is_that_of_the_mean() -> None:
    difference = load("bars").Difference
    first, second = np.arange(100) < 30, np.arange(100) < 60
    measured = difference.of(first, second)
    random = np.random.default_rng(0)
    drawn = random.integers(0, 100, (4000, 100))
    means = 100 * (first[drawn].mean(1) - second[drawn].mean(1))
    assert measured.mean == pytest.approx(-30)
    assert np.quantile(means, [0.025, 0.975]) == pytest.approx([measured.low, measured.high], abs=1)
    same = difference.of(first, first)
    assert (same.mean, same.low, same.high) == (0, 0, 0)


def test_tables_are_means_over_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"dense-fair": (0.5, 0.3), "default": (0.6, 0.5), "default, wanted inferred": (0.2, 0.1)}
    files = [tmp_path / "0.jsonl", tmp_path / "1.jsonl"]
    for seed, file in enumerate(files):
        lines: list[dict[str, Any]] = [
            {
                "system": system,
                "pool": "union",
                "task": task,
                "metric": metric,
                "value": pair[seed],
                "queries": 4,
            }
            for system, pair in values.items()
            for task in ("grocery_task6", "mean")
            for metric in ("hit@5", "hit@5, seen", "hit@5, unseen", "items")
        ]
        lines += [
            {
                "system": "quantizer",
                "pool": "union",
                "task": "mean",
                "metric": "purity",
                "value": 0.5 + seed / 4,
            },
            *(
                {
                    "system": "default beside geometry, unseen",
                    "pool": "union",
                    "task": "t",
                    "metric": m,
                    "value": v + seed,
                }
                for m, v in (("mean", -1.0), ("low", -3.0), ("high", 1.0))
            ),
        ]
        write_lines(file, lines)
    monkeypatch.setattr(sys, "argv", ["seeds.py", *map(str, files)])
    load("seeds").main()
    printed = capsys.readouterr().out
    assert "| grocery_task6 | 4 | 40.0 | 55.0 |" in printed
    assert "| ratio to the dense baseline |  | 1.000 | 1.375 |" in printed
    assert "| mean, file 2 |  | 30.0 | 50.0 |" in printed
    assert "| default | 15.0 |" in printed  # inferred
    assert "| default | 55.0 | 55.0 |" in printed  # seen and unseen
    assert "| purity | 0.6250 | 0.5000 | 0.7500 |" in printed
    assert "| t | -0.50 | -2.50 | 1.50 |" in printed  # beside geometry
    assert "local" not in printed
    other = tmp_path / "paper.jsonl"
    other.write_text(files[1].read_text().replace('"default"', '"genius"'))
    monkeypatch.setattr(sys, "argv", ["seeds.py", *map(str, files), "--beside", f"paper={other}"])
    load("seeds").main()
    printed = capsys.readouterr().out
    assert "| task | queries | dense-fair | default | paper: genius |" in printed
    assert "| grocery_task6 | 4 | 40.0 | 55.0 | 50.0 |" in printed
