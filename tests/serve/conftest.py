"""The fixtures of tests/serving.py."""

from __future__ import annotations

from tests.serve.browsing import browser, shop, shop_page, shop_url
from tests.serving import client, own_cache, own_index, running, serve, served

__all__ = [
    "browser",
    "client",
    "own_cache",
    "own_index",
    "running",
    "serve",
    "served",
    "shop",
    "shop_page",
    "shop_url",
]
