"""Texts as M-BEIR assembles them: cleaned, and for a query with its instruction in front."""

from __future__ import annotations

from genius.data.records import Query

_END = (".", "?", "!")


def clean(text: str | None) -> str:
    """A text in the benchmark's style: no outer blanks or quotes, a capital first, a full stop last.

    >>> clean(' "a dog on the beach" ')
    'A dog on the beach.'
    """
    bare = (text or "").replace("\r", "").strip().strip('"')
    if not bare:
        return ""
    raised = bare[0].upper() + bare[1:]
    return raised if raised.endswith(_END) else f"{raised}."


def query_text(query: Query) -> str:
    """A query's instruction and text as one text; for an image alone, the instruction.

    >>> query_text(Query(text="a dog", instruction="find a photo"))
    'Find a photo. A dog.'
    """
    if not query.instruction:
        return clean(query.text)
    return clean(f"{clean(query.instruction)} {clean(query.text)}")
