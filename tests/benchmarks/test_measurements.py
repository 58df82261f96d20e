"""The scripts behind the measurements run, continue where they stopped, and agree with the evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from genius.data.mbeir import Tree
from genius.encode import pipeline
from genius.evaluate.protocol import Evaluation
from genius.evaluate.run import evaluate_model
from genius.model import Model
from genius.search.engine import Mode
from genius.train.decoder import DecoderTraining
from genius.train.quantizer import QuantizerSettings
from tests.benchmarks.scripts import SCRIPTS, RunScript, json_rows, load

HELPERS = (
    *("bars", "figures", "options", "training", "union_pool"),
    *("system_figures", "system_plan", "system_rows", "system_tables"),
)
NAMES = sorted(path.stem for path in SCRIPTS.glob("*.py") if path.stem not in HELPERS)


def _evaluate_union(tree: Path, model: Path, modes: Sequence[Mode] = ("auto",)) -> Evaluation:
    """All systems on all validation queries in the union pool."""
    cache = pipeline.default_cache()
    return evaluate_model(tree, model, split="val", cache=cache, pools=("union",), modes=modes).evaluation


def _mean(evaluation: Evaluation, system: str, metric: str = "hit@5") -> float:
    return evaluation.value(system, "union", "mean", metric)


def test_beams_agree_with_the_evaluation(
    run: RunScript, trained: Path, miniature: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("--tree", miniature, "--model", trained, "--work", tmp_path, "--json", "--beams", 2, 50)
    printed = run("beams", *arguments)
    rows = {(row["decoder"], row.get("ranking"), row.get("beams")): row for row in json_rows(printed)}
    expected = _evaluate_union(miniature, trained, ("auto", "scan"))
    for system in ("geometry", "genius"):
        for ranking, name in (("plain", system), ("re-ranked, to the end", f"{system}+rerank")):
            row = rows[system, ranking, 50]
            assert row["hit"] == pytest.approx(100 * _mean(expected, name))
            assert row["items"] == pytest.approx(_mean(expected, name, "items"))
        assert rows[system, "plain", 2]["items"] < rows[system, "plain", 50]["items"]
        # 50 beams hold all first semantic codes: the search that stops there is a scan.
        stopped = rows[system, "re-ranked, stop at level 2", 50]
        assert stopped["hit"] == pytest.approx(100 * _mean(expected, "scan+rerank"))
        assert stopped["items"] == pytest.approx(_mean(expected, "scan", "items"))
    assert rows["dense-fair", None, None]["hit"] == pytest.approx(100 * _mean(expected, "dense-fair"))
    assert "| geometry | plain |" in printed
    # What was measured is not measured again.
    monkeypatch.setattr("union_pool.embed_corpus", None)
    assert run("beams", *arguments) == printed


def test_modes_find_what_torch_finds(run: RunScript, trained: Path, miniature: Path) -> None:
    printed = run("modes", "--tree", miniature, "--model", trained, "--queries", 0, "--json")
    rows = {(row["decoder"], row["mode"]): row for row in json_rows(printed)}
    assert len(rows) == 4 * 5
    expected = _evaluate_union(miniature, trained)
    for decoder, system in (("geometry", "geometry"), ("torch", "genius"), ("fp32", "genius")):
        hit = 100 * _mean(expected, f"{system}+rerank")
        assert rows[decoder, "paper"]["re-ranked"] == pytest.approx(hit, abs=0.5)
        assert rows[decoder, "exact"]["items"] <= rows[decoder, "safe"]["items"]
    assert "held    items that a later mode lacks: 0" in printed


def test_a_grown_index_finds_what_one_made_at_once_finds(
    run: RunScript, trained: Path, miniature: Path
) -> None:
    printed = run("grown", "--tree", miniature, "--model", trained, "--calls", 3, "--rounds", 1, "--json")
    grown, compacted = json_rows(printed)
    assert grown["queries"] > 0 and grown["time"] > 0
    assert grown["hit@5"] == grown["made, hit@5"] == compacted["hit@5"]
    assert grown["same hits, %"] == compacted["same hits, %"] == 100


@pytest.mark.long
def test_decoders_are_trained_and_kept(
    run: RunScript,
    trained: Path,
    miniature: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = [
        "as the recipe has it",
        "no augmentation",
        "own-code pairs 0",
        "random start instead of codebooks",
    ]
    names += ["geometry alone", "one semantic code, then geometry"]
    arguments = ["--tree", miniature, "--model", trained, "--recipe", home / "recipe.toml", "--steps", 4]
    arguments += ["--work", tmp_path, "--json", "--queries", 0, "--only", *names]
    printed = run("decoders", *arguments)
    rows = {row["variant"]: row for row in json_rows(printed)}
    assert list(rows) == names
    for row in rows.values():
        assert 100 >= row["after one"] >= row["after two"] >= row["after all"] >= row["plain"]
    geometry, expected = rows["geometry alone"], _evaluate_union(miniature, trained)
    assert geometry["plain"] == pytest.approx(100 * _mean(expected, "geometry"))
    assert geometry["re-ranked"] == pytest.approx(100 * _mean(expected, "geometry+rerank"))
    # All is kept, and variants with equal settings are trained once.
    monkeypatch.setattr("union_pool.embed_corpus", None)
    assert run("decoders", *arguments) == printed
    assert len(list(tmp_path.iterdir())) == len(names) - 3


def test_findings_have_a_column_for_the_learned_decoder(
    run: RunScript, trained: Path, miniature: Path, home: Path, tmp_path: Path
) -> None:
    arguments = ["--tree", miniature, "--model", trained, "--recipe", home / "recipe.toml", "--steps", 4]
    arguments += ["--work", tmp_path, "--json", "--only"]
    names = "as the recipe has it (modality given)", "no augmentation"
    before = json_rows(run("findings", *arguments, *names))
    assert [row["variant"] for row in before] == [names[0]]  # without a decoder the two are the same
    after = json_rows(run("findings", *arguments, *names, "no modality code", "--decoder-steps", 4))
    assert [row["variant"] for row in after] == [*names, "no modality code"]
    assert before[0].items() <= after[0].items()
    assert after[0]["geometry"] == after[1]["geometry"]
    for row in after:
        hits = {task: row[f"learned, {task}"] for task in Tree(miniature).tasks("val")}
        assert row["learned"] == pytest.approx(np.mean(list(hits.values())))
        text_to_image = [hit for task, hit in hits.items() if task.number == 0]
        assert row["learned, text → image"] == pytest.approx(np.mean(text_to_image))


def test_every_variant_changes_settings_that_exist() -> None:
    decoders, findings = load("decoders"), load("findings")
    for changes in decoders.VARIANTS.values():
        assert decoders.vary(DecoderTraining(), 3, **changes).loop.steps == 3
    for changes in findings.VARIANTS.values():
        assert findings.vary(QuantizerSettings(), 3, **changes).loop.steps == 3
    changed = findings.vary(QuantizerSettings(), 3, gamma=0.0, with_embedding=False, levels=4)
    assert (changed.gamma, changed.fusion.with_embedding, changed.codebooks.levels) == (0, False, 4)
    for script, settings in ((decoders, DecoderTraining()), (findings, QuantizerSettings())):
        with pytest.raises(TypeError, match="unexpected keyword"):
            script.vary(settings, 3, no_such_setting=1)


@pytest.mark.parametrize("script", NAMES)
def test_every_script_explains_itself(
    script: str, run: RunScript, capsys: pytest.CaptureFixture[str]
) -> None:
    if script == "quantize":
        pytest.importorskip("vector_quantize_pytorch")
    with pytest.raises(SystemExit) as ended:
        run(script, "--help")
    assert ended.value.code == 0
    assert f"python benchmarks/{script}.py" in capsys.readouterr().out


@pytest.mark.parametrize(
    "script",
    [
        "beams",
        "composed",
        "confidence",
        "correction",
        "decoders",
        "findings",
        "grown",
        "modes",
        "quality",
    ],
)
def test_test_queries_are_for_the_end(script: str, run: RunScript, miniature: Path, trained: Path) -> None:
    arguments = () if script == "quality" else ("--model", trained)
    with pytest.raises(SystemExit) as ended:
        run(script, "--tree", miniature, "--split", "test", *arguments)
    assert ended.value.code == 2


def test_more_codes_an_item(run: RunScript, trained: Path, miniature: Path) -> None:
    rows = json_rows(run("more_codes", "--tree", miniature, "--model", trained, "--json", "--queries", 0))
    more = load("more_codes")
    assert len(rows) == len(more.SHARES) * len(more.BEAMS) + 3 * len(more.WEIGHTS)
    pool = load("union_pool").UnionPool.read(Model.open(trained), Tree(miniature), "val", 0)
    codes, level = pool.coded.codes, pool.model.quantizer.semantic
    second, margins = more.second_codes(pool.model, pool.coded.vectors, codes)
    # The next nearest cell, and what is left of each item coded greedily from there.
    books, vectors = pool.model.quantizer.codebooks, pool.coded.vectors.astype(np.float64)
    residuals = vectors - pool.model.quantizer.reconstruct(codes, level)
    distances = ((residuals[:, None] - books[level]) ** 2).sum(2)
    order = np.argsort(distances, axis=1)
    np.testing.assert_array_equal(second[:, level], order[:, 1])
    np.testing.assert_allclose(
        margins, np.diff(np.take_along_axis(distances, order[:, :2], 1), axis=1)[:, 0], atol=1e-4
    )
    np.testing.assert_array_equal(second[:, :level], codes[:, :level])
    # Nobody is found twice, and what is found has a code in the best cells.
    router, doubled = load("routing").Router(pool.model), np.ones(len(codes), bool)
    for task in pool.tasks:
        for results in more.search_cells(pool, router, task, 2, second, doubled):
            numbers = results[results >= 0]
            assert len(set(numbers)) == len(numbers)
    embeddings = np.asarray(pool.coded.embedded.items.embeddings, np.float32)
    shared = more.embeddings_of_codes(embeddings, codes, pool.model.quantizer.sizes)
    deeper = shared + more.residual_levels(embeddings - shared)
    errors = [((embeddings - known) ** 2).sum() for known in (0 * embeddings, shared, deeper)]
    assert errors == sorted(errors, reverse=True)
