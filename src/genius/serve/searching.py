"""Searches of several requests that share their settings, as one call."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from genius.data.records import ImageBytes, Modality, Query
from genius.index.database import TooLongError
from genius.index.hit import Hits
from genius.index.index import Index
from genius.serve.models import SearchRequest


@dataclass(frozen=True, eq=False)
class Search:
    """One request's search."""

    request: SearchRequest
    picture: bytes | None

    def query(self) -> Query:
        """What is asked."""
        asked = self.request
        image = None if self.picture is None else ImageBytes(self.picture, "that was sent")
        want = None if asked.want is None else Modality(asked.want)
        return Query(text=asked.text, image=image, instruction=asked.instruction, want=want)

    @property
    def options(self) -> dict[str, Any]:
        """Settings of a search, as the index takes them."""
        asked = self.request
        options: dict[str, Any] = {
            "k": asked.k,
            "beam": asked.beam,
            "mode": asked.mode,
            "rerank": asked.rerank,
            "decoder": asked.decoder,
            "precision": asked.precision,
        }
        if asked.filter is not None:
            options["filter"] = asked.filter
        if asked.exclude:
            options["exclude"] = asked.exclude
        return options

    @property
    def shared(self) -> bytes:
        """What is equal in searches that are done together."""
        near = self.request.near
        return orjson.dumps([self.options, near, near and self.request.want], option=orjson.OPT_SORT_KEYS)


def search_together(index: Index, searches: Sequence[Search]) -> list[Hits | Exception]:
    """What each search finds, or why it can't; one that is broken does not stop the others.

    What they have `shared` is the same.
    """
    answers = _search(index, searches)
    return [
        _explained(answer) if search.request.explain else answer
        for search, answer in zip(searches, answers, strict=True)
    ]


def _explained(answer: Hits | Exception) -> Hits | Exception:
    """Hits whose paths are known: they are worked out when somebody looks, and better here than later."""
    if isinstance(answer, Exception):
        return answer
    try:
        for hit in answer:
            _ = hit.log_probabilities, hit.below
    except Exception as error:  # it is the request's own
        return error
    return answer


def _search(index: Index, searches: Sequence[Search]) -> list[Hits | Exception]:
    first = searches[0]
    if first.request.near is not None:
        return [_near(index, first)] * len(searches)
    try:
        return list(index.search_many([search.query() for search in searches], **first.options))
    except Exception as error:  # of one of them, perhaps: then the others are answered
        if len(searches) == 1 or isinstance(error, TooLongError):  # by the filter that they share
            return [error] * len(searches)
        return [answer for search in searches for answer in _search(index, [search])]


def _near(index: Index, search: Search) -> Hits | Exception:
    asked = search.request
    try:
        return index.search(near=asked.near, want=asked.want, **search.options)
    except Exception as error:  # it is the request's own
        return error
