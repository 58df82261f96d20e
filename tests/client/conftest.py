"""The fixtures of tests/serving.py."""

from __future__ import annotations

from tests.serving import own_cache, own_index, running, served

__all__ = ["own_cache", "own_index", "running", "served"]
