"""The key of a content: by it features are cached, images kept and items compared."""

from __future__ import annotations

import hashlib

KEY_BYTES = 16


def content_key(content: bytes) -> bytes:
    """A hash of `KEY_BYTES` bytes; equal contents have equal keys."""
    return hashlib.blake2b(content, digest_size=KEY_BYTES).digest()
