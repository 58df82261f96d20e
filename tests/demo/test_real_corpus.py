"""The real demo corpus, where it has been built before."""

from __future__ import annotations

import hashlib
import itertools
import re
from collections import defaultdict

import platformdirs
import pytest

from genius.data.images import load
from genius.data.mbeir import SPLITS, Tree
from genius.demo.corpus import VERSION
from tests.demo.made_up import key_of, vendor_of

REAL = platformdirs.user_cache_path("genius") / "demo" / f"emoji-{VERSION}"
pytestmark = pytest.mark.skipif(not REAL.is_dir(), reason="the demo corpus is not in the cache (make demo)")


def test_the_real_corpus_has_enough_queries_for_every_task() -> None:
    tree = Tree(REAL)
    for task in tree.tasks("test"):
        assert sum(1 for _ in tree.queries("test", task)) >= 100
    for split in SPLITS:
        tree.check(split)


def test_no_real_emoji_is_in_two_splits_whatever_its_skin_tone() -> None:
    tree = Tree(REAL)
    items = {item.id: item for item in tree}
    shown: dict[str, set[str]] = {}
    for split in SPLITS:
        queries = list(tree.queries(split))
        images = [query.image for query in queries] + [
            items[d].image for query in queries for d in query.positives
        ]
        shown[split] = {re.sub("-1f3f[b-f]", "", key_of(image)) for image in images if image}
    assert all(shown[a].isdisjoint(shown[b]) for a, b in itertools.combinations(SPLITS, 2))


@pytest.mark.long
def test_no_two_real_images_of_a_vendor_are_the_same() -> None:
    seen: dict[str, dict[bytes, str]] = defaultdict(dict)
    for item in Tree(REAL):
        if item.image is not None and item.text is None:
            digest = hashlib.sha256(load(item.image).tobytes()).digest()
            other = seen[vendor_of(item.image)].setdefault(digest, key_of(item.image))
            assert other == key_of(item.image)
    assert set(seen) == {"noto", "twemoji", "fluent"}
