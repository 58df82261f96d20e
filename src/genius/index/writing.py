"""The part of an index that changes it.

A change is there for good when its call returns, and found by the next search, here and in other processes.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path

from PIL import Image

from genius.data.images import image_source
from genius.data.mbeir import Tree
from genius.data.records import MODALITIES, Item
from genius.encode import pipeline
from genius.errors import GeniusError
from genius.index.browse import Here
from genius.index.catalogue import Catalogue
from genius.index.ingest import Added, Builder, Change, only_writer
from genius.index.item_encoder import Coder, coder
from genius.index.segments import Coding
from genius.index.writer import Committer, Compacted
from genius.model import Model


class Writing:
    """Adds, changes and removes items. One process writes at a time; its threads wait for each other."""

    path: Path
    model: Model
    _catalogue: Catalogue
    _coding: Coding
    _one_writer: threading.Lock
    _here: Here

    def add(
        self,
        items: Iterable[Item],
        *,
        strict: bool = False,
        cache: Path | None = None,
        workers: int = 1,
        total: int | None = None,
    ) -> Added:
        """Add items, in blocks; each is there for good when it is committed. Says what became of them.

        An item that is there as it is costs a look, so a run that was stopped goes on where it was; an id
        with other content takes the old one's place. What can't be read is left out and reported, or raised
        if `strict`. Several `workers` are processes: a script must then guard its main part. `total` is for
        the bar, if it is known how many items there are.
        """
        instructions = items.instructions.wanted_by_prompt() if isinstance(items, Tree) else {}
        with self._writing() as committer, self._coder(cache, workers) as code:
            if instructions:
                wanted = {prompt: MODALITIES.index(want) for prompt, want in instructions.items()}
                self._catalogue.add_instructions(wanted)
            return Builder(self._catalogue, committer, code, strict=strict).add(items, total)

    def update(
        self,
        changes: Iterable[Change],
        *,
        strict: bool = False,
        cache: Path | None = None,
        workers: int = 1,
    ) -> Added:
        """Change items that are there: what a change gives is new, the rest stays. Says what became of them.

        A change is an `Item`, whose text, image and metadata are put in the place of the old ones as far as
        it has them, or a mapping like `{"id": "42", "text": None, "metadata": {"price": 30}}`. For metadata
        alone nothing is coded. An id that is not there is reported as a failure, or raised if `strict`.
        """
        with self._writing() as committer, self._coder(cache, workers) as code:
            return Builder(self._catalogue, committer, code, strict=strict).update(changes)

    def remove(self, ids: Iterable[str] | str) -> int:
        """Remove items, all at one stroke; says how many there were. Ids that are not there are let pass."""
        with self._writing():
            rows = list(self._catalogue.known([ids] if isinstance(ids, str) else ids).values())
            if rows:
                self._catalogue.remove(rows)
        return len(rows)

    def compact(self) -> Compacted:
        """Make one segment of all, without what was removed, and let go of everything that nobody names."""
        with self._writing() as committer:
            return committer.compact()

    def prepare_to_add(self) -> None:
        """Code an item that is not kept, so that the first one to be added waits for nothing to be read or
        compiled; for who has the time now and not then."""
        with self._coder(None, workers=1) as code:
            code([Item("ready", "ready", image_source(Image.new("RGB", (8, 8))))])

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Committer]:
        """Be the only writer. Which files nobody needs is told by the newest version, and by no older one."""
        if self._here.view is not None:
            raise GeniusError(f"{self.path} is being read by this thread: change it after that")
        if self._here.writing:  # by what gives it the items, say
            raise GeniusError(f"{self.path} is being changed by this thread: change it after that")
        with self._one_writer, only_writer(self.path):
            self._here.writing = True
            try:
                yield Committer(self.path, self._catalogue, self._coding, self.model.fingerprint)
            finally:
                self._here.writing = False

    def _coder(self, cache: Path | None, workers: int) -> contextlib.AbstractContextManager[Coder]:
        return coder(self.model, cache or pipeline.default_cache(), workers)
