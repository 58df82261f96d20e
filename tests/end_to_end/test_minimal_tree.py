"""The least that training needs, as docs/formats.md has it: one task, from texts to images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")

from typer.testing import CliRunner

from genius.cli import app
from genius.data.mbeir import Tree
from genius.errors import InputError
from genius.evaluate.run import evaluate_model
from genius.train import heads, plan
from genius.train.run import read_recipe, train_model
from tests.encode.small_towers import efficientnet_weights, use_small_towers, write_small_towers
from tests.miniature import COLOURS, write_lines
from tests.pictures import write_square
from tests.recipes import CODED

NAMED = CODED.replace("[encoder.heads]\n", "[encoder.heads]\nnamed = true\n")
"""Images borrow the names of the classes that their tower sees, as the demo's recipe has it."""


def write_task(root: Path, number: int, query: str, answer: str) -> Path:
    """One task about coloured squares: queries and answers each `image` or `text`, and no union pool."""

    def content(kind: str, row: int, text: str, image: str) -> dict[str, str | None]:
        path = write_square(root / f"mbeir_images/{row}.jpg", COLOURS[row]).relative_to(root).as_posix()
        return (
            {text: f"A {COLOURS[row]} square.", image: None} if kind == "text" else {text: None, image: path}
        )

    rows = range(len(COLOURS))
    pool = [
        {"did": f"30:{row}", **content(answer, row, "txt", "img_path"), "modality": answer} for row in rows
    ]
    queries = [
        {
            "qid": f"30:{row}",
            **content(query, row, "query_txt", "query_img_path"),
            "query_modality": query,
            "pos_cand_list": [f"30:{row}"],
            "task_id": number,
        }
        for row in rows
    ]
    write_lines(root / f"cand_pool/local/mbeir_squares_task{number}_cand_pool.jsonl", pool)
    for split in ("train", "val", "test"):
        write_lines(root / f"query/{split}/mbeir_squares_task{number}_{split}.jsonl", queries)
        qrels = root / f"qrels/{split}/mbeir_squares_task{number}_{split}_qrels.txt"
        qrels.parent.mkdir(parents=True)
        qrels.write_text("".join(f"30:{row} 0 30:{row} 1 {number}\n" for row in rows))
    return root


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("minimal")
    write_small_towers(folder / "towers")
    (folder / "recipe.toml").write_text(NAMED)
    return folder


@pytest.fixture(autouse=True)
def small_world(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    use_small_towers(home, monkeypatch)
    classes = len(efficientnet_weights()["_fc.bias"])
    monkeypatch.setattr(
        heads, "class_sentences", lambda: [f"A {COLOURS[n % len(COLOURS)]} square." for n in range(classes)]
    )


@pytest.mark.long
def test_one_task_from_texts_to_images_trains_and_is_evaluated(home: Path, tmp_path: Path) -> None:
    tree, cache = write_task(tmp_path / "tree", 0, "text", "image"), home / "cache"
    model = train_model(read_recipe(home / "recipe.toml"), Tree(tree), tmp_path / "model", cache=cache)
    assert model.stages == ["encoder", "quantizer"]
    assert np.isfinite(model.embed_items(list(Tree(tree)))).all()
    with pytest.raises(InputError, match=r"has no union pool for test: .* \(--pool local\)"):
        evaluate_model(tree, model.path, split="test", cache=cache)
    result = evaluate_model(tree, model.path, split="test", cache=cache, pools=("local",))
    assert result.evaluation.value("dense", "local", "mean", "hit@5") > 0.8


@pytest.mark.parametrize(("number", "kind", "lacking"), [(1, "text", "an image"), (4, "image", "a text")])
def test_a_tree_without_images_or_without_texts_is_refused(
    number: int, kind: str, lacking: str, home: Path, tmp_path: Path
) -> None:
    tree = Tree(write_task(tmp_path / "tree", number, kind, kind))
    with pytest.raises(InputError, match=f"no training query or item has {lacking}, .*: add a task"):
        train_model(read_recipe(home / "recipe.toml"), tree, tmp_path / "model", cache=home / "cache")


def test_a_table_is_no_tree_and_that_is_said_before_anything_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plan, "measure_speed", lambda: pytest.fail("measured"))
    (tmp_path / "captions.csv").write_text("image,text\na.jpg,A boat.\n")
    arguments = ["train", "demo", "--tree", str(tmp_path / "captions.csv"), "-o", str(tmp_path / "model")]
    with pytest.raises(InputError, match=r"captions.csv: is no M-BEIR tree .* a table or a folder of images"):
        CliRunner().invoke(app, arguments, catch_exceptions=False)
