"""The fixtures of tests/serving.py."""

from __future__ import annotations

from tests.serving import client, own_cache, own_index, running, serve, served

__all__ = ["client", "own_cache", "own_index", "running", "serve", "served"]
