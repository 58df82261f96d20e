"""The examination without labels, compared with exact search by brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from genius.cli import app
from genius.data.records import Item
from genius.doctor.unlabelled import Overlap, examine_unlabelled, judge_overlap
from genius.errors import InputError
from genius.fit.overlap import exact_neighbours, mean_overlap, overlaps
from genius.model import Model
from tests.loaded_images import coloured

RNG = np.random.default_rng(0)
VECTORS = (RNG.normal(size=(25, 24))[RNG.integers(0, 25, 600)] + 0.4 * RNG.normal(size=(600, 24))).astype(
    np.float32
)


def items() -> list[Item]:
    """Half of them have an image, so that there are two modalities."""
    image = coloured(1)[0]
    return [
        Item(str(row), None if row % 2 else "text", image if row % 2 else None, vector=vector)
        for row, vector in enumerate(VECTORS)
    ]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return Model.fit(items(), encoder="precomputed", out=tmp_path_factory.mktemp("fit") / "model")


def test_overlap_is_the_share_of_the_exact_ten() -> None:
    """By sets, item by item."""
    units = VECTORS / np.linalg.norm(VECTORS, axis=1, keepdims=True)
    modality = np.arange(600) % 2
    queries = np.arange(0, 600, 13)
    noisy = units + 0.1 * RNG.normal(size=units.shape)

    def search(rows: np.ndarray, kind: int) -> np.ndarray:
        members = np.flatnonzero(modality == kind)
        return np.asarray(members[np.argsort(-(noisy[rows] @ noisy[members].T), axis=1)[:, :11]])

    expected = {}
    for kind, name in enumerate(("image", "text")):
        shares = []
        for row in queries:
            others = [n for n in range(600) if n % 2 == kind and n != row]
            best = [set(sorted(others, key=lambda n: -(rows[row] @ rows[n]))[:10]) for rows in (units, noisy)]
            shares.append(len(best[0] & best[1]) / 10)
        expected[name] = float(np.mean(shares))
    assert overlaps(exact_neighbours(units, modality, queries), search) == pytest.approx(expected)


def test_a_fitted_model_keeps_what_exact_search_finds(model: Model, tmp_path: Path) -> None:
    overlap = examine_unlabelled(items(), model, cache=tmp_path)
    assert set(overlap.codes) == {"image", "text"} and overlap.items == overlap.total == 600
    assert min(overlap.reranked.values()) > 0.99
    assert 0.3 < mean_overlap(overlap.codes) < mean_overlap(overlap.reranked)
    assert judge_overlap(overlap).state == "healthy"


def test_codes_of_other_items_are_noticed(tmp_path: Path) -> None:
    """Codebooks fitted to three items know nothing of the others."""
    poor = Model.fit(items()[:3], encoder="precomputed", out=tmp_path / "poor")
    overlap = examine_unlabelled(items(), poor, cache=tmp_path)
    verdict = judge_overlap(overlap)
    assert verdict.state == "broken" and "Codes alone" in " ".join(r.finding for r in verdict.reasons)


@pytest.mark.parametrize(
    ("reranked", "codes", "state"),
    [
        (0.99, 0.7, "healthy"),
        (0.9, 0.7, "weak"),
        (0.99, 0.4, "weak"),
        (0.5, 0.7, "broken"),
        (1, 0.1, "broken"),
    ],
)
def test_the_verdict(reranked: float, codes: float, state: str) -> None:
    shares = {"text": reranked}
    assert judge_overlap(Overlap(9, 9, 9, {"text": codes}, shares, shares)).state == state


def test_the_command(model: Model, tmp_path: Path) -> None:
    np.savez(tmp_path / "v.npz", ids=np.array([str(row) for row in range(600)]), vectors=VECTORS)
    result = CliRunner().invoke(
        app, ["doctor", str(model.path), "--source", str(tmp_path / "v.npz")], catch_exceptions=False
    )
    assert result.exit_code == 0 and "healthy" in result.stdout and "codes alone" in result.stdout
    with pytest.raises(InputError, match="give --tree TREE, with queries and answers, or --source SOURCE"):
        CliRunner().invoke(app, ["doctor", str(model.path)], catch_exceptions=False)
