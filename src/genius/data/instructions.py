"""Instructions: the prompts of a data set, by the modalities of query and target; and texts as M-BEIR has
them, a query's with its instruction in front."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from pathlib import Path

from genius.data.records import Modality, Query
from genius.errors import InputError

log = logging.getLogger(__name__)

Key = tuple[str, Modality, Modality]
"""Data set (its number, or its name), modality of the query, modality of the target."""

_WITH = {Modality.TEXT: "this text", Modality.IMAGE: "this picture", Modality.PAIR: "this picture and text"}
_FOR = {Modality.TEXT: "a text", Modality.IMAGE: "a picture", Modality.PAIR: "a picture with its text"}
_END = (".", "?", "!")


@dataclass
class Instructions:
    """The table of prompts of an M-BEIR tree (`instructions/query_instructions.tsv`)."""

    by_key: dict[Key, tuple[str, ...]] = field(default_factory=dict)
    _missed: set[Key] = field(default_factory=set)

    @classmethod
    def read(cls, path: Path) -> Instructions:
        """Read the table at `path`; an empty table if there is no file.

        Columns are known by their positions: query modality, target modality, data set's name and number,
        then its prompts. Raises InputError with the line that has other columns.
        """
        table = cls()
        if not path.is_file():
            return table
        for line, content in enumerate(path.read_text("utf-8-sig").split("\n"), start=1):
            cells = content.split("\t")
            if line == 1 or not content.strip():
                continue
            prompts = tuple(cell.strip() for cell in cells[4:] if cell.strip())
            if not prompts:
                raise InputError("expected at least five columns, the fifth a prompt", path=path, line=line)
            try:
                query, target = Modality.parse(cells[0]), Modality.parse(cells[1])
            except InputError as error:
                raise error.at(path, line) from None
            for dataset in (cells[2], cells[3]):
                table.by_key[dataset.strip().lower(), query, target] = prompts
        return table

    def wanted_by_prompt(self) -> dict[str, Modality]:
        """The target modality of every prompt, of the table and generic."""
        wanted = {prompt: key[2] for key, prompts in self.by_key.items() for prompt in prompts}
        return wanted | {generic(query, target): target for query in Modality for target in Modality}

    def prompts(self, qid: str, dataset: str, query: Modality, target: Modality) -> tuple[str, ...]:
        """The prompts for a query of these modalities.

        The data set is known by the number in the query's id (`12:76908`), else by its name. If it has no
        prompts, a generic one is used, which is logged once.
        """
        number = qid.partition(":")[0]
        for name in (number, dataset.lower()):
            if prompts := self.by_key.get((name, query, target)):
                return prompts
        key = (dataset, query, target)
        if key not in self._missed:
            self._missed.add(key)
            log.warning("no instruction for %s, %s → %s: using a generic one", dataset, query, target)
        return (generic(query, target),)


def generic(query: Modality, target: Modality) -> str:
    """An instruction that fits any data set.

    >>> generic(Modality.TEXT, Modality.IMAGE)
    'Find a picture that matches this text.'
    """
    return f"Find {_FOR[target]} that matches {_WITH[query]}."


GENERIC = frozenset(generic(query, target) for query in Modality for target in Modality)
"""All generic instructions."""


# --- texts


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
