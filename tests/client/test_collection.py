"""The collection as a whole over HTTP: what an index says, from the service's routes and from the client."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from genius import Client, Index
from genius.errors import InputError
from tests.serving import Running


@pytest.fixture
def client(running: Running) -> Any:
    return Client(running(read_only=True))


def ids(items: Any) -> list[str]:
    return [item.id for item in items]


def groups(duplicates: Any) -> list[tuple[list[str], str]]:
    return [(ids(group.items), group.level) for group in duplicates.groups]


def test_duplicates(client: Client, served: Path) -> None:
    with Index.open(served) as index:
        for options in ({"level": "exact"}, {"level": "same"}, {"similarity": 0.8}):
            ours, theirs = client.duplicates(**options), index.duplicates(**options)
            assert groups(ours) == groups(theirs)
            assert ours.keep() == theirs.keep()
        assert groups(client.duplicates().at(0.97)) == groups(index.duplicates().at(0.97))
    assert len(client.duplicates(similarity=0.8))
    with pytest.raises(InputError, match="from 0 to 1"):
        client.duplicates(similarity=2)


def test_albums(client: Client, served: Path) -> None:
    with Index.open(served) as index:
        expected = index.albums(5)
    albums = client.albums(5)
    assert [(album.id, album.label, album.ids) for album in albums] == [
        (album.id, album.label, album.ids) for album in expected
    ]
    assert [[inner.ids for inner in album.albums] for album in albums] == [
        [inner.ids for inner in album.albums] for album in expected
    ]
    assert [ids(album.covers) for album in albums] == [ids(album.covers) for album in expected]
    with pytest.raises(InputError):
        client.albums(0)


def test_outliers_and_samples(client: Client, served: Path) -> None:
    with Index.open(served) as index:
        odd, expected = client.outliers(10), index.outliers(10)
        assert [(one.item.id, one.reason, one.says) for one in odd] == [
            (one.item.id, one.reason, one.says) for one in expected
        ]
        for kind in ("spread", "typical", "per-cell"):
            assert ids(client.sample(7, kind, seed=3)) == ids(index.sample(7, kind, seed=3))
    with pytest.raises(InputError):
        client.sample(7, "best")  # type: ignore[arg-type]
