"""What a made-up index answers, to compare it with another one."""

from __future__ import annotations

from typing import Any

from tests.index.made_up_index import MadeUpIndex

FILTERS: tuple[dict[str, Any] | None, ...] = (None, {"even": True}, {"number": {"$lt": 9}})


def answers(index: MadeUpIndex) -> list[Any]:
    """What an index answers in several ways, with codes and scores."""
    shown: list[Any] = [
        (item.id, item.text, item.image and item.image.read(), dict(item.metadata)) for item in index
    ]
    shown += [(item.id, index.code(item.id)) for item in index]
    shown += [index.cell(prefix).count for prefix in ((), (0,), (1, 2), (None, 3))] if len(index) else []
    for filter in FILTERS if len(index) else ():
        for mode in ("fast", "exact", "paper"):
            searches = [index.search(text, k=30, mode=mode, filter=filter) for text in ("a dog", "the sea")]
            searches += [index.search("red", k=3, want="image", rerank=False, mode=mode, filter=filter)]
            searches += [index.search(near=next(iter(index)).id, k=5, mode=mode, filter=filter)]
            for hits in searches:
                shown.append([(hit.item.id, hit.score, hit.cosine, hit.code) for hit in hits])
        browsed = index.browse(filter=filter, sort=["-number"], k=50)
        shown.append([hit.item.id for hit in browsed])
    return shown
