"""`genius fit` over a model of genius and over a CLIP, and `--learn`: from a folder to searches."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from genius.cli import app
from genius.data.read import read
from genius.data.records import Query
from genius.errors import InputError
from genius.index.index import Index
from genius.model import Model
from tests.encode.small_clip import write_clip
from tests.encode.small_towers import use_small_towers, write_small_towers
from tests.miniature import COLOURS
from tests.pictures import write_square


@pytest.fixture
def photos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Squares in folders named by their colours; half have a caption. Nothing else says what they show."""
    write_small_towers(tmp_path / "towers")
    use_small_towers(tmp_path, monkeypatch)
    for number in range(60):
        colour = COLOURS[number % len(COLOURS)]
        path = write_square(tmp_path / "photos" / colour / f"IMG_{number}.png", colour)
        if number % 2:
            path.with_suffix(".txt").write_text(f"a {colour} square")
    return tmp_path / "photos"


def fit(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["fit", *map(str, arguments)], catch_exceptions=False)


def test_a_model_is_fitted_over_the_heads_of_another(photos: Path, coded_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "fitted"
    printed = fit(photos, "--encoder", coded_model, "-o", out).stdout
    assert "a model fitted to 60 items" in printed and "image" in printed and "pair" in printed
    base, fitted = Model.open(coded_model), Model.open(out)
    items = list(read(photos))
    np.testing.assert_array_equal(fitted.embed_items(items), base.embed_items(items))
    assert fitted.quantizer.sizes != base.quantizer.sizes
    with Index.create(tmp_path / "index", fitted) as index:
        index.add(items)
        # a search finds what exact search over the embeddings finds
        wanted = np.sort(fitted.embed_queries([Query(text="a red square")]) @ fitted.embed_items(items).T)[
            0, ::-1
        ]
        hits = index.search("a red square", k=5)
        np.testing.assert_allclose([hit.cosine for hit in hits], wanted[:5], atol=2e-3)


def test_a_clip_needs_no_training(photos: Path, tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    write_clip(tmp_path / "clip")
    fit(photos, "--encoder", tmp_path / "clip", "-o", tmp_path / "fitted", "--workers", 1)
    with Index.create(tmp_path / "index", tmp_path / "fitted") as index:
        assert index.add(read(photos)).added == 60
        first = index.search(image=photos / "red" / "IMG_0.png", k=1)[0]
        assert "red/" in first.item.id
        assert len(index.search("a dog", k=60)) == 60


@pytest.mark.long
def test_heads_learn_from_captions_and_folders(photos: Path, coded_model: Path, tmp_path: Path) -> None:
    out = tmp_path / "learned"
    printed = fit(photos, "--encoder", coded_model, "--learn", "-o", out).stdout
    assert "learned from" in printed and "a model fitted to 60 items" in printed
    learned, start = Model.open(out), Model.open(coded_model)
    items = list(read(photos))
    assert not np.allclose(learned.embed_items(items), start.embed_items(items), atol=1e-3)
    assert learned.settings["quantizer"]["fitted"]


def test_too_little_to_learn_from_and_no_heads_are_said(
    photos: Path, coded_model: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="--learn trains heads, and precomputed has none"):
        fit(photos, "--encoder", "precomputed", "--learn", "-o", tmp_path / "model")
    for path in photos.rglob("*"):
        if path.is_file() and "red" not in str(path.relative_to(photos)):
            path.unlink()
    with pytest.raises(InputError, match="says too little of its items to learn from"):
        fit(photos, "--encoder", coded_model, "--learn", "-o", tmp_path / "model")
