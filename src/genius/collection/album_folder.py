"""Albums as folders of links to the image files, for any program that shows pictures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from genius import atomic
from genius.collection.albums import Album, Albums
from genius.errors import InputError

LETTERS = 60
"""How long the name of a folder may be."""
_UNSAFE = re.compile(r"[^\w\- ]+")


def write_album_folders(albums: Albums, paths: Mapping[str, Path], folder: Path) -> int:
    """Make `folder` with a folder for each album and a link in it to each image file; returns how many links.

    `paths` are the image files by the ids of their items; items without one are left out. The folder is there
    completely or not at all. Raises InputError if something stands there.
    """
    if folder.exists() or folder.is_symlink():
        raise InputError("exists already: choose another name, or remove it first", path=folder)
    with atomic.write_folder(folder) as draft:
        return _fill(draft, albums.albums, paths)


def _fill(folder: Path, albums: Sequence[Album], paths: Mapping[str, Path]) -> int:
    count = 0
    for number, album in enumerate(albums, 1):
        own = folder / f"{number:02d} {folder_name(album.label)}".strip()
        own.mkdir()
        nested = {id for inner in album.albums for id in inner.ids}
        count += _fill(own, album.albums, paths)
        for id in album.ids:
            if id in paths and id not in nested:
                link = own / f"{count:06d} {paths[id].name}"
                link.symlink_to(paths[id])
                count += 1
    return count


def folder_name(label: str) -> str:
    """A label as the name of a folder.

    >>> folder_name("Cats / dogs: the best")
    'Cats dogs the best'
    """
    return " ".join(_UNSAFE.sub(" ", label).split())[:LETTERS].strip()
