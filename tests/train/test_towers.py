"""Fine-tuning of both towers: it learns, what it contrasts is right, and a kill changes nothing."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
import torch

from genius.data.instructions import clean
from genius.data.mbeir import Tree
from genius.encode.clip_fusion import TokenFusionSettings
from genius.errors import InputError
from genius.train.loop import train
from genius.train.pairs import read_training, read_validation
from genius.train.towers import TowerStage
from tests.encode.small_clip import write_clip, write_siglip
from tests.oracles import losses as oracle
from tests.train.gradients import assert_same
from tests.train.processes import losses, run_and_kill
from tests.train.ranks import sum_over_ranks
from tests.train.small_tuning import SMALL_FUSION, loop, run, settings

ROOT = Path(__file__).parents[2]
FUSION = TokenFusionSettings(**SMALL_FUSION)
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clip")
    write_clip(folder)
    return folder


def weights(stage: TowerStage) -> dict[str, Any]:
    return {name: value.clone() for name, value in stage.network.state_dict().items()}


@pytest.mark.parametrize("fusion_kind", ["score", "tokens"])
def test_training_lowers_the_loss_and_moves_both_towers(
    clip: Path, miniature: Path, tmp_path: Path, fusion_kind: str
) -> None:
    more = {"fusion": FUSION} if fusion_kind == "tokens" else {}
    chosen = settings(clip, fusion_kind=fusion_kind, batch=32, loop=loop(25), **more)
    # (Without instructions, which are longer than this small tokenizer's texts may be.)
    stage = TowerStage(chosen, Tree(miniature, instructed=False), seed=0)
    before = weights(stage)
    scores = train(stage, chosen.loop, tmp_path, seed=0, rates=chosen.rates)
    curve = losses(tmp_path)
    assert np.mean(curve[-3:]) < 0.8 * np.mean(curve[:3])
    assert scores["score"] > 50
    moved = {name for name, value in weights(stage).items() if not torch.equal(value, before[name])}
    for tower in ("vision", "text"):
        assert f"towers.{tower}_model.encoder.layers.0.mlp.fc1.weight" in moved
    assert "towers.logit_scale" in moved
    assert ("fusion.layers.0.query.weight" in moved) == (fusion_kind == "tokens")


def direct(stage: TowerStage, records: list[Any]) -> torch.Tensor:
    """Embeddings by transformers alone, record by record."""
    module, rows = stage.clip.module, []
    for future, text in records:
        parts = []
        if future is not None:
            pixels = torch.from_numpy(future.result())[None]
            parts.append(module.get_image_features(pixel_values=pixels).pooler_output[0])
        if text:
            tokens = stage.clip.tokenizer(
                [text], truncation=True, max_length=stage.clip.text_length, return_tensors="pt"
            )
            parts.append(module.get_text_features(**tokens).pooler_output[0])
        rows.append(torch.stack(parts).sum(0).double())
    return torch.stack([row / row.norm() for row in rows])


def test_the_loss_is_eq_2(clip: Path, miniature: Path) -> None:
    chosen = settings(clip, batch=32, temperature=2.0, loop=loop(accumulate=2))  # so that all logits matter
    stage = TowerStage(chosen, Tree(miniature), seed=1)
    stage.network.eval()
    # The first part 1 of a step in which a query has another positive among the candidates.
    turn = next(turn for turn in range(1, 20, 2) if stage._batch(turn).other_positives.any())
    batch = stage._batch(turn)
    queries, items = direct(stage, batch.queries), direct(stage, batch.candidates)
    others = [set(row.nonzero().flatten().tolist()) for row in batch.other_positives]
    scale: Any = stage.clip.module.logit_scale
    assert float(scale.detach().exp()) == pytest.approx(1 / 2)
    temperature = 1 / scale.double().exp()
    expected = oracle.query_to_items(queries, items, batch.targets.tolist(), others, temperature)
    assert_same(stage.loss(turn // 2, 1), expected, list(stage.network.parameters()), tolerance=3e-5)


def test_the_shares_of_the_loss_add_up(clip: Path, miniature: Path) -> None:
    stages = [TowerStage(settings(clip, batch=32), Tree(miniature), seed=1) for _ in range(3)]
    for stage in stages:
        stage.network.eval()
    total = sum_over_ranks(lambda rank: stages[rank].loss(0, 0), 2)
    assert float(total.detach()) == pytest.approx(float(stages[2].loss(0, 0).detach()), rel=1e-4)


def test_no_positive_is_a_negative(clip: Path, miniature: Path) -> None:
    stage = TowerStage(settings(clip, batch=32), Tree(miniature), seed=0)
    twin = next(row for row, query in enumerate(stage.pairs.queries) if len(query.positives) == 2)
    ids = {stage.items[number].id for number in stage.pairs.positives(twin)}
    assert ids == {"5:102", "2:102"}
    masked = []
    for turn in range(6):
        batch = stage._batch(turn)
        assert len(batch.queries) == 32  # every pair, in order, so that rows are known
        assert not batch.other_positives[torch.arange(32), batch.targets].any()
        masked.append(int(batch.other_positives[twin].sum()))
        others = torch.arange(32) != twin
        assert not batch.other_positives[others].any()
    assert 1 in masked  # "2:102" is also the answer of another query of the batch


def test_queries_are_instructed_and_items_are_not(clip: Path, miniature: Path) -> None:
    tree = Tree(miniature)
    stage = TowerStage(settings(clip, batch=32), tree, seed=0)
    texts: set[str] = set()
    for turn in range(8):
        batch = stage._batch(turn)
        for query, (future, text) in zip(stage.pairs.queries, batch.queries, strict=True):
            assert (future is None) == (query.image is None)
            assert text.endswith(clean(query.text))
        texts |= {text for _, text in batch.queries}
        assert {text for _, text in batch.candidates} <= {clean(item.text) for item in tree}
    # A text query with each of three prompts, an image query with these alone, one key without any prompt.
    assert {f"Prompt {n} of webqa 1. The red one." for n in (1, 2, 3)} <= texts
    assert {f"Prompt {n} of mscoco 3." for n in (1, 2, 3)} <= texts
    assert any(text.startswith("Find a picture that matches this picture and text.") for text in texts)


def test_the_pool_of_validation(miniature: Path) -> None:
    tree = Tree(miniature)
    tasks, items = read_validation(tree, queries=2, items=5)
    assert [len(task) for task in tasks] == [2] * 8
    ids = [item.id for item in items]
    needed = {id for task in tasks for query in task.queries for id in query.positives}
    assert needed <= set(ids)
    assert len(ids) == len(set(ids)) == len(needed) + 5
    everything, whole = read_validation(tree, queries=1000, items=1000)
    assert [len(task) for task in everything] == [4] * 8
    assert len(whole) == len({item.id for item in tree})


def test_the_up_sampled_mix(miniature: Path) -> None:
    pairs, items = read_training(Tree(miniature), upsampled=True)
    plain, same = read_training(Tree(miniature), upsampled=False)
    assert len(pairs) == len(plain) + 5
    assert {item.id for item in items} == {item.id for item in same}


def test_a_tree_without_a_union_pool(own_miniature: Path) -> None:
    for path in (own_miniature / "cand_pool/global").iterdir():
        path.unlink()
    pairs, _ = read_training(Tree(own_miniature), upsampled=False)
    assert len(pairs) == 32


def test_training_goes_on_without_an_image_that_is_missing(
    clip: Path, own_miniature: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (own_miniature / "mbeir_images/squares/1.jpg").unlink()
    stage = TowerStage(settings(clip, batch=32), Tree(own_miniature), seed=0)
    assert np.isfinite(float(stage.loss(0, 0).detach()))
    assert caplog.text.count("squares/1.jpg: cannot read image") == 1


def test_lower_precision_is_close(clip: Path, miniature: Path) -> None:
    values = []
    for precision in ("float32", "bfloat16"):
        stage = TowerStage(settings(clip, precision=precision), Tree(miniature), seed=0)
        values.append(float(stage.loss(0, 0).detach()))
    assert values[0] != values[1]
    assert values[0] == pytest.approx(values[1], rel=0.1)


def test_a_siglip_can_be_tuned(miniature: Path, tmp_path: Path) -> None:
    write_siglip(tmp_path / "siglip")
    stage: Any = TowerStage(settings(tmp_path / "siglip"), Tree(miniature), seed=0)
    stage.loss(0, 0).backward()
    for tower in (stage.clip.module.vision_model, stage.clip.module.text_model):
        assert sum(float(weight.grad.abs().sum()) for weight in tower.parameters()) > 0


def test_a_tree_without_training_pairs(clip: Path, own_miniature: Path) -> None:
    for path in (own_miniature / "query/train").iterdir():
        path.unlink()
    with pytest.raises(InputError, match="has no train queries with an answer in its pools"):
        TowerStage(settings(clip), Tree(own_miniature), seed=0)


@pytest.mark.long
def test_killed_it_resumes_with_the_same_losses(clip: Path, miniature: Path, tmp_path: Path) -> None:
    expected = weights(run(clip, miniature, tmp_path / "unbroken"))
    ended = run_and_kill("tests.train.small_tuning", clip, miniature, tmp_path / "broken", step=7)
    assert ended == -signal.SIGKILL
    assert len(losses(tmp_path / "broken")) == 7
    stage = run(clip, miniature, tmp_path / "broken")
    assert losses(tmp_path / "broken") == losses(tmp_path / "unbroken")
    assert all(torch.equal(value, expected[name]) for name, value in weights(stage).items())
