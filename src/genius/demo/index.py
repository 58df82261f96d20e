"""The index of the demo, made with the demo's model."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

from genius.errors import MismatchError
from genius.index.catalogue import Catalogue
from genius.index.index import Index
from genius.index.snapshot import is_index
from genius.model import Model


def open_index(path: Path, model: Model) -> Index:
    """The index at `path`, opened or created.

    One that an earlier model at the same place has made is the demo's own, and is replaced.
    """
    if is_index(path) and _is_outdated(path, model):
        shutil.rmtree(path)
    return Index.open(path, model) if is_index(path) else Index.create(path, model)


def _is_outdated(path: Path, model: Model) -> bool:
    """Whether the index has an older format, or was made by another model that was at the same place."""
    try:
        with contextlib.closing(Catalogue(path)) as catalogue:
            made_by = catalogue.settings()["model"]
    except MismatchError:
        return True
    replaced = made_by["path"] == str(model.path.resolve())
    return replaced and bool(made_by["fingerprint"] != model.fingerprint)
