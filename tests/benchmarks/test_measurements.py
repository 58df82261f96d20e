"""The scripts behind the measurements run, go on where they were, and say what a direct computation says."""

from __future__ import annotations

from pathlib import Path

import pytest

from genius.encode import pipeline
from genius.evaluate.run import evaluate_model
from genius.model import Model
from tests.benchmarks.conftest import Run, rows


def test_beams_say_what_the_evaluation_says(
    run: Run, trained: Path, miniature: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("--tree", miniature, "--model", trained, "--work", tmp_path, "--json", "--beams", 2, 50)
    printed = run("beams", *arguments)
    found = {(row["decoder"], row.get("ranking"), row.get("beams")): row for row in rows(printed)}
    expected = evaluate_model(
        miniature, trained, split="val", cache=pipeline.default_cache(), pools=("union",)
    ).evaluation
    for system in ("geometry", "genius"):
        for ranking, name in (("plain", system), ("re-ranked, to the end", f"{system}+rerank")):
            row = found[system, ranking, 50]
            assert row["hit"] == pytest.approx(100 * expected.value(name, "union", "mean", "hit@5"))
            assert row["items"] == pytest.approx(expected.value(name, "union", "mean", "items"))
        assert found[system, "plain", 2]["items"] <= found[system, "plain", 50]["items"]
    cells = found["geometry", "re-ranked, stop at level 2", 50]
    assert cells["hit"] == pytest.approx(100 * expected.value("cells", "union", "mean", "hit@5"))
    dense_baseline = found["dense-fair", None, None]["hit"]
    assert dense_baseline == pytest.approx(100 * expected.value("dense-fair", "union", "mean", "hit@5"))
    assert "| geometry | plain |" in printed
    # Once measured, nothing is done again.
    monkeypatch.setattr("measuring.embed", None)
    assert run("beams", *arguments) == printed


def test_modes_find_what_torch_finds(run: Run, trained: Path, miniature: Path) -> None:
    printed = run("modes", "--tree", miniature, "--model", trained, "--queries", 0, "--json")
    found = {(row["decoder"], row["mode"]): row for row in rows(printed)}
    assert len(found) == 4 * 5
    expected = evaluate_model(
        miniature, trained, split="val", cache=pipeline.default_cache(), pools=("union",)
    ).evaluation
    for system, name in (("geometry", "geometry"), ("torch", "genius"), ("fp32", "genius")):
        hit = 100 * expected.value(f"{name}+rerank", "union", "mean", "hit@5")
        assert found[system, "paper"]["re-ranked"] == pytest.approx(hit, abs=0.5)
        assert found[system, "exact"]["items"] <= found[system, "safe"]["items"]
    assert "held    items that a later mode lacks: 0" in printed


def test_a_grown_index_finds_what_one_made_at_once_finds(run: Run, trained: Path, miniature: Path) -> None:
    printed = run("grown", "--tree", miniature, "--model", trained, "--calls", 3, "--rounds", 1, "--json")
    grown, compacted = rows(printed)
    assert grown["queries"] > 0 and grown["time"] > 0
    assert grown["hit@5"] == grown["made, hit@5"] == compacted["hit@5"]
    assert grown["same hits, %"] == compacted["same hits, %"] == 100


def test_decoders_train_and_are_kept(
    run: Run,
    trained: Path,
    miniature: Path,
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = "as the recipe has it", "no augmentation", "own-code pairs 0", "random start instead of codebooks"
    names += "geometry alone", "one semantic code, then geometry"
    arguments = ("--tree", miniature, "--model", trained, "--recipe", home / "recipe.toml", "--steps", 4)
    arguments += ("--work", tmp_path, "--json", "--queries", 3, "--only", *names)
    printed = run("decoders", *arguments)
    found = rows(printed)
    assert [row["variant"] for row in found] == list(names)
    for row in found:
        assert 0 <= row["plain"] <= 100 and row["ms, paper"] > 0 and row["ms, fast"] > 0
        assert 100 >= row["after one"] >= row["after two"] >= row["after all"] >= row["plain"]
    monkeypatch.setattr("measuring.embed", None)  # all of it is kept, and variants that are the same once
    assert run("decoders", *arguments) == printed
    assert len(list(tmp_path.iterdir())) == len(names) - 3


def test_findings_have_a_column_for_the_learned_decoder(
    run: Run, trained: Path, miniature: Path, home: Path, tmp_path: Path
) -> None:
    arguments = ("--tree", miniature, "--model", trained, "--recipe", home / "recipe.toml", "--steps", 4)
    arguments += ("--work", tmp_path, "--json", "--only")
    names = "as the recipe has it (modality given)", "no augmentation"
    before = rows(run("findings", *arguments, *names))
    assert [row["variant"] for row in before] == [names[0]]  # without a decoder the two are the same
    found = rows(run("findings", *arguments, *names, "no modality code", "--decoder-steps", 4))
    assert [row["variant"] for row in found] == [*names, "no modality code"]
    assert before[0].items() <= found[0].items()
    for row in found:
        assert 0 <= row["learned"] <= 100 and 0 <= row["learned, text → image"] <= 100
    assert found[0]["geometry"] == found[1]["geometry"]


def _without_mscoco(tree: Path) -> Path:
    for file in [*tree.glob("query/*/*mscoco*"), *tree.glob("cand_pool/local/*mscoco*")]:
        file.unlink()
    return tree


def test_one_data_set_alone(
    run: Run, miniature: Path, own_miniature: Path, home: Path, tmp_path: Path
) -> None:
    arguments = ("--tree", miniature, "--dataset", "mscoco", "--recipe", home / "codes.toml", "--json")
    arguments += ("--model", tmp_path / "model", "--split", "test", "--final")
    found = {row["system"]: row for row in rows(run("single", *arguments))}
    assert {"dense", "codes", "geometry", "geometry+rerank", "default", "default+rerank"} <= set(found)
    for row in found.values():
        assert 0 <= row["R@1"] <= row["R@5"] <= row["R@10"] <= 100
    model = Model.open(tmp_path / "model")
    assert model.settings["recipe"]["datasets"] == ["mscoco"]
    assert model.quantizer.sizes == (3, 8, 8, 8)
    before = model.fingerprint
    elsewhere = evaluate_model(
        _without_mscoco(own_miniature), model.path, split="test", cache=pipeline.default_cache()
    )
    assert not [one for one in elsewhere.evaluation.measurements if "seen" in one.metric]
    run("single", *arguments)
    assert Model.open(tmp_path / "model").fingerprint == before


def test_a_data_set_that_training_never_saw(
    run: Run, miniature: Path, home: Path, tmp_path: Path, trained: Path
) -> None:
    arguments = ("--tree", miniature, "--without", "oven", "--recipe", home / "codes.toml", "--json")
    found = rows(run("transfer", *arguments, "--model", tmp_path / "model", "--beside", trained))
    assert {row["task"] for row in found} == {"oven_task6", "oven_task7", "oven_task8", "mean"}
    assert {row["pool"] for row in found} == {"local", "union"}
    mine = {row["system"] for row in found if row["model"] == "trained without oven"}
    beside = {row["system"] for row in found if row["model"] == "trained on everything"}
    assert beside - mine == {"genius", "genius+rerank"}
    # No answer of the data set was one in training, but for the item that it shares with a twin.
    expected = evaluate_model(
        miniature, tmp_path / "model", split="val", cache=pipeline.default_cache(), pools=("union",)
    )
    seen = {(m.task, m.metric): m.queries for m in expected.evaluation.measurements if m.system == "dense"}
    assert seen.get(("oven_task6", "hit@5, seen"), 0) == 1
    assert ("oven_task8", "hit@5, seen") not in seen
    assert seen["oven_task8", "hit@5, unseen"] == 4


@pytest.mark.parametrize("script", ["beams", "decoders", "findings", "single", "transfer", "quality"])
def test_test_queries_are_for_the_end(script: str, run: Run, miniature: Path, trained: Path) -> None:
    with pytest.raises(SystemExit):
        run(script, "--help")
    more = {"single": ("--dataset", "mscoco"), "transfer": ("--without", "mscoco"), "quality": ()}
    arguments = more.get(script, ("--model", trained))
    with pytest.raises(SystemExit) as ended:
        run(script, "--tree", miniature, "--split", "test", *arguments)
    assert ended.value.code == 2
