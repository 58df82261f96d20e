"""One search over pictures, texts and both together, by generating identifiers.

The public names below are imported when they are first used, so that `import genius` is quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from genius.client.client import Client
    from genius.data.read import Collection, read
    from genius.data.records import ImageBytes, ImageFile, Item, Modality, Query, Vectors
    from genius.errors import DamagedError, GeniusError, InputError, MismatchError, MissingError
    from genius.index.copy import copy
    from genius.index.hits import Hit, Hits
    from genius.index.index import Index
    from genius.index.merge import merge
    from genius.model import Model

__version__ = "0.1.0"

_HOMES = {
    "Client": "genius.client.client",
    "Collection": "genius.data.read",
    "DamagedError": "genius.errors",
    "GeniusError": "genius.errors",
    "Hit": "genius.index.hits",
    "Hits": "genius.index.hits",
    "ImageBytes": "genius.data.records",
    "ImageFile": "genius.data.records",
    "Index": "genius.index.index",
    "InputError": "genius.errors",
    "Item": "genius.data.records",
    "MismatchError": "genius.errors",
    "MissingError": "genius.errors",
    "Modality": "genius.data.records",
    "Model": "genius.model",
    "Query": "genius.data.records",
    "Vectors": "genius.data.records",
    "copy": "genius.index.copy",
    "merge": "genius.index.merge",
    "read": "genius.data.read",
}

__all__ = [
    "Client",
    "Collection",
    "DamagedError",
    "GeniusError",
    "Hit",
    "Hits",
    "ImageBytes",
    "ImageFile",
    "Index",
    "InputError",
    "Item",
    "MismatchError",
    "MissingError",
    "Modality",
    "Model",
    "Query",
    "Vectors",
    "__version__",
    "copy",
    "merge",
    "read",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'genius' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
