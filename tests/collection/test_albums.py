"""Albums of an index: every item once, named, nested, stable, and as folders of links."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from genius.collection.album_folder import write_album_folders
from genius.collection.albums import Album, Albums, albums_to_dict, ids_of_albums
from genius.data.records import ImageFile, Item
from genius.errors import InputError
from tests.collection.world import WIDTH, WorldIndex, open_world, unit

THEMES = ("dogs", "trains", "boats")


def themes(count: int, seed: int = 0) -> tuple[list[Item], dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Items of three themes in turn: images alone, texts (in a region of their own), captioned images."""
    random = np.random.default_rng(seed)
    axes = unit(np.random.default_rng(9).normal(size=(4, WIDTH)))
    items, world = [], {}
    for n in range(count):
        theme, kind = n % 3, (n // 3) % 3
        id = f"{THEMES[theme]}/{n}"
        text = None if kind == 0 else f"Some {THEMES[theme]}, number {n}."
        image = None if kind == 1 else ImageFile("/nowhere", f"{n}.jpg")
        items.append(Item(id, text, image))
        gap = 1.5 * axes[3] if kind == 1 else 0.0
        world[id] = unit(axes[theme] + gap + 0.12 * random.normal(size=WIDTH))
    return items, world, dict(zip(THEMES, axes[:3], strict=True))


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> WorldIndex:
    items, world, words = themes(240)
    items = [item if item.image is None else _with_file(item, tmp_path_factory) for item in items]
    return open_world(tmp_path_factory.mktemp("albums") / "index", items, world, words=words)


def _with_file(item: Item, factory: pytest.TempPathFactory) -> Item:
    folder = factory.getbasetemp() / "album images"
    folder.mkdir(exist_ok=True)
    name = item.id.replace("/", "-") + ".jpg"
    (folder / name).write_bytes(item.id.encode())
    return Item(item.id, item.text, ImageFile(str(folder), name))


def purity(albums: Albums) -> float:
    """The share of items that are of the theme of most of their album."""
    right = sum(max(sum(id.startswith(theme) for id in album.ids) for theme in THEMES) for album in albums)
    return right / sum(map(len, albums))


def test_every_item_is_in_one_album_whatever_its_modality(index: WorldIndex) -> None:
    albums = index.albums(3)
    ids = [id for album in albums for id in album.ids]
    assert sorted(ids) == sorted(item.id for item in index)
    assert purity(albums) == 1
    assert {album.label for album in albums} == {"Dogs", "Trains", "Boats"}
    for album in albums:
        assert album.id == album.ids[0] and 0 < album.coherence <= 1
        assert len(album.covers) == 6 and all(item.image is not None for item in album.covers)
        assert {item.id for item in album.covers} <= set(album.ids)
        inner = [id for within in album.albums for id in within.ids]
        assert sorted(inner) == sorted(album.ids) and len(album.albums) > 1


def test_items_without_texts_are_named_by_words(tmp_path: Path) -> None:
    items, world, words = themes(90)
    images = [Item(item.id, None, ImageFile(str(tmp_path), "x.jpg")) for item in items]
    (tmp_path / "x.jpg").write_bytes(b"x")
    stray = Item("stray", "It rained on the dogs at the lake.")
    gap = {"stray": np.ones(WIDTH)}
    with open_world(tmp_path / "index", [*images, stray], world | gap, words=words) as index:
        labels = {album.label for album in index.albums(3) if len(album) > 1}
    assert labels == {"Dogs", "Trains", "Boats"}


def test_albums_within_one_that_texts_name_are_named_by_texts_or_not_at_all(tmp_path: Path) -> None:
    items, world, words = themes(90)
    (tmp_path / "x.jpg").write_bytes(b"x")
    alike = [Item(item.id, item.id.split("/")[0], ImageFile(str(tmp_path), "x.jpg")) for item in items]
    with open_world(tmp_path / "index", alike, world, words=words) as index:
        albums = index.albums(3)
    assert {album.label for album in albums} == {"Dogs", "Trains", "Boats"}
    inner = {other.label for album in albums for other in album.albums}
    assert inner <= {"", "Dogs", "Trains", "Boats", *(f"{label} 2" for label in ("Dogs", "Trains", "Boats"))}
    assert "" in inner


def test_albums_like_earlier_ones(index: WorldIndex, tmp_path: Path) -> None:
    items, world, words = themes(252)
    texts = [Item(item.id, item.text or item.id) for item in items]
    with open_world(tmp_path / "index", texts[:240], world, words=words) as grown:
        before = grown.albums(6)
        grown.add(texts[240:])
        again, fresh = grown.albums(6, like=before), grown.albums(6)
        assert [album.ids for album in grown.albums(6)] == [album.ids for album in fresh], "deterministic"
        named = grown.albums(6, like=ids_of_albums(albums_to_dict(before)))
    assert [album.ids for album in named] == [album.ids for album in again]
    for album in before:
        kept = max(len(set(album.ids) & set(other.ids)) for other in again)
        assert kept >= 0.9 * len(album)


@pytest.mark.parametrize("n", [0, -1, 1001, 2.5, True])
def test_a_number_of_albums(index: WorldIndex, n: int) -> None:
    with pytest.raises(InputError, match="n must be a number from 1 to 1,000"):
        index.albums(n)


def test_none_one_and_few_items(tmp_path: Path) -> None:
    with open_world(tmp_path / "index", [], {"one": np.ones(WIDTH), "two": -np.ones(WIDTH)}) as index:
        assert not len(index.albums(5))
        assert "empty" in index.albums(5).notes[0]
        index.add([Item("one", "a lonely text")])
        albums = index.albums(5)
        assert [album.ids for album in albums] == [("one",)]
        assert albums.notes == ("1 item gave only 1 album",)
        index.add([Item("two", "another text")])
        assert sorted(len(album) for album in index.albums(5)) == [1, 1]


def test_folders_of_links(index: WorldIndex, tmp_path: Path) -> None:
    albums = index.albums(3)
    paths = {item.id: item.image_path for item in index if item.image_path is not None}
    count = write_album_folders(albums, paths, tmp_path / "albums")
    links = [path for path in (tmp_path / "albums").rglob("*") if path.is_symlink()]
    assert len(links) == count == len(paths)
    assert {link.read_bytes().decode() for link in links} == set(paths)
    assert {path.name[3:] for path in (tmp_path / "albums").iterdir()} == {"Dogs", "Trains", "Boats"}
    with pytest.raises(InputError, match="exists already"):
        write_album_folders(albums, paths, tmp_path / "albums")


def test_json(index: WorldIndex) -> None:
    albums = index.albums(3)
    fields = albums_to_dict(albums)
    assert [album["size"] for album in fields["albums"]] == [len(album) for album in albums]
    assert ids_of_albums(fields) == [list(album.ids) for album in albums]
    assert "ids" not in albums_to_dict(albums, ids=False)["albums"][0]
    wrong: list[Any] = [{}, {"albums": [{}]}, {"albums": 3}, []]
    for fields in wrong:
        with pytest.raises(InputError, match="no albums"):
            ids_of_albums(fields)
    assert isinstance(albums[0], Album) and albums[:2] == albums.albums[:2]
