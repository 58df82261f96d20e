"""Vectors over HTTP: searches by them, and items that bring them along, as with a local index."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from genius import Client, Index, Item, Model, Vectors
from genius.data.records import Query
from genius.errors import InputError
from tests.serving import Running

VECTORS = np.random.default_rng(0).normal(size=(60, 12)).astype(np.float32)


@pytest.fixture
def fitted_index(tmp_path: Path) -> Path:
    """An empty index whose model takes vectors."""
    items = [Item(str(row), vector=vector) for row, vector in enumerate(VECTORS)]
    Index.create(tmp_path / "index", Model.fit(items, encoder="precomputed", out=tmp_path / "model")).close()
    return tmp_path / "index"


def test_the_embedding_of_a_text_finds_what_the_text_finds(served: Path, running: Running) -> None:
    """Of any model, also of one that was trained."""
    with Index.open(served) as index, Client(running()) as client:
        embedding = index.model.embed_queries([Query(text="a red square", instruction="")])[0]
        by_text = index.search("a red square", instruction="", k=5)
        for hits in (index.search(vector=embedding, k=5), client.search(vector=embedding, k=5)):
            assert [hit.item.id for hit in hits] == [hit.item.id for hit in by_text]
            # vectors are taken at unit length, which those with a number against hubs don't quite have
            np.testing.assert_allclose([hit.score for hit in hits], [hit.score for hit in by_text], rtol=0.03)


def test_items_bring_their_vectors_along(fitted_index: Path, running: Running) -> None:
    with Client(running(fitted_index)) as client:
        report = client.add(
            [Item("a", "first", vector=VECTORS[0]), Item("b", "second", vector=VECTORS[1]), Item("c", "none")]
        )
        assert (report.added, report.failures.count) == (2, 1)
        assert "has no vector" in str(report.failures.first[0])
        assert client.search(vector=VECTORS[1], k=1)[0].item.id == "b"
        assert client.search(vector=Vectors(image=VECTORS[0]), k=1)[0].item.id == "a"


def test_what_can_not_be_searched_by_is_said(fitted_index: Path, running: Running) -> None:
    with Client(running(fitted_index)) as client:
        client.add([Item("a", vector=VECTORS[0])])
        with pytest.raises(InputError, match="a vector has 3 numbers, and this model takes 12"):
            client.search(vector=[1.0, 2.0, 3.0])
        with pytest.raises(InputError, match="can't embed a text"):
            client.search("words")
