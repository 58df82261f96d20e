"""An index: items that can be found, in a folder of a catalogue and segments.

    index = Index.create("index/", model)
    index.add(genius.read("photos/"))
    for hit in index.search("a dog on the beach", want="image", k=5): ...

A search sees one version of the index, and the next search the newest: others may write meanwhile.
"""

from __future__ import annotations

import contextlib
import datetime
import threading
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from genius import __version__
from genius.data.mbeir import Tree
from genius.data.records import MODALITIES, ImageSource, Item, Modality, Query
from genius.encode import pipeline
from genius.errors import DamagedError, InputError, MismatchError, MissingError
from genius.index import asking
from genius.index.build import Added, Builder, only_writer
from genius.index.catalogue import Catalogue
from genius.index.changes import Change
from genius.index.coding import Coder, coder
from genius.index.committing import Committer, Compacted
from genius.index.entries import item_of
from genius.index.hit import Hits, hits_of
from genius.index.leftovers import opening
from genius.index.segments import Coding
from genius.index.view import View, make_folder, open_view
from genius.model import Model
from genius.search.beam import BEAMS

if TYPE_CHECKING:
    from PIL import Image

QUERIES = 256
"""How many queries are searched at a time."""


@dataclass(frozen=True)
class Removed:
    """What became of ids: how many items were removed, and which ids there were none of."""

    removed: int
    unknown: tuple[str, ...]


class Index:
    """An index that is open, with the model that it was made by."""

    def __init__(self, path: Path, catalogue: Catalogue, model: Model) -> None:
        self.path, self.model = path, model
        self._catalogue = catalogue
        self._coding = _coding(model)
        self._view: View | None = None
        self._viewing, self._one_thread = threading.Lock(), threading.Lock()
        with self._reading():
            pass  # what is damaged is refused here, and not in the midst of a search

    @classmethod
    def create(cls, path: Path | str, model: Model | Path | str) -> Index:
        """Make an empty index at `path`, for items coded by the model.

        Raises InputError if something stands there, MissingError if the model has no quantizer yet.
        """
        path, model = Path(path), _model(model)
        coding = _coding(model)
        settings = {
            "model": {"path": str(model.path.resolve()), "fingerprint": model.fingerprint},
            "coding": asdict(coding),
            "width": model.width,
            "made_by": f"genius {__version__}",
            "made_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        make_folder(path, settings)
        return cls.open(path, model)

    @classmethod
    def open(cls, path: Path | str, model: Model | Path | str | None = None) -> Index:
        """The index at `path`, with the model that it was made by: the one given, or from its old place.

        Raises InputError (no index), MismatchError (another model), MissingError (no model) or DamagedError.
        """
        if not Path(path).exists():
            raise InputError("there is nothing here", path=path)
        path = Path(path).absolute()  # to be found again from wherever the process goes
        catalogue = Catalogue(path)
        made_by = catalogue.settings()["model"]
        if model is None and not Path(made_by["path"]).exists():
            raise MissingError(
                f"{path} was made by the model at {made_by['path']}, which is gone: say where it is now"
            )
        model = _model(made_by["path"] if model is None else model)
        if model.fingerprint != made_by["fingerprint"]:
            raise MismatchError(
                f"{path} was made by the model {made_by['fingerprint'][:12]}, but {model.path} is "
                f"{model.fingerprint[:12]}: bring the old one back, or make the index again with genius index"
            )
        return cls(path, catalogue, model)

    def close(self) -> None:
        """Let go of the index."""
        self._catalogue.close()

    def __enter__(self) -> Index:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._catalogue)

    def __contains__(self, id: str) -> bool:
        return bool(self._catalogue.known([id]))

    def __iter__(self) -> Iterator[Item]:
        """All items, in the order in which they were added."""
        return (item_of(entry, self._catalogue.path) for _, entry in self._catalogue.walk())

    # --- adding

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

    def remove(self, ids: Iterable[str] | str) -> Removed:
        """Remove items, all at one stroke; says how many there were, and which ids are unknown."""
        ids = [ids] if isinstance(ids, str) else list(dict.fromkeys(ids))
        with self._writing():
            rows = self._catalogue.known(ids)
            if rows:
                self._catalogue.remove(list(rows.values()))
        return Removed(len(rows), tuple(id for id in ids if id not in rows))

    def compact(self) -> Compacted:
        """Make one segment of all, without what was removed, and let go of everything that nobody names."""
        with self._writing() as committer:
            return committer.compact()

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Committer]:
        """Be the only writer; threads of one process wait for each other."""
        with self._one_thread, only_writer(self.path):
            yield Committer(self.path, self._catalogue, self._coding, self.model.fingerprint)

    def _coder(self, cache: Path | None, workers: int) -> contextlib.AbstractContextManager[Coder]:
        return coder(self.model, cache or pipeline.default_cache(), workers)

    # --- searching

    def search(
        self,
        query: Query | str | None = None,
        *,
        text: str | None = None,
        image: Path | str | bytes | Image.Image | ImageSource | None = None,
        instruction: str | None = None,
        want: Modality | str | None = None,
        k: int = 10,
        beam: int = BEAMS,
        rerank: bool = True,
    ) -> Hits:
        """The k items that answer best, by text, image or both (or a Query that holds them).

        `want` or a known instruction says which modality shall be found; otherwise any is. If the pool holds
        k items of it, k are returned: the beam widens as needed. With `rerank`, all items under the beams are
        ordered by the likeness of joined embeddings and codes; without, by the log-probabilities of codes.
        """
        asked = asking.query_of(query, text, image, instruction)
        return self.search_many([asked], want=want, k=k, beam=beam, rerank=rerank)[0]

    def search_many(
        self,
        queries: Iterable[Query | str],
        *,
        want: Modality | str | None = None,
        k: int = 10,
        beam: int = BEAMS,
        rerank: bool = True,
    ) -> list[Hits]:
        """What answers each query; all see the same version of the index."""
        if k < 1:
            raise InputError(f"k must be at least 1, not {k}")
        if beam < 1:
            raise InputError(f"a search needs at least one beam, not {beam}")
        wanted = None if want is None else Modality.parse(want)
        asked = [asking.query_of(query, None, None, None) for query in queries]
        with self._reading() as view:
            known = asking.wanted_by_instruction(self._catalogue.instructions())
            asked = [asking.instruct(query, wanted, known) for query in asked]
            found: list[Hits] = []
            for start in range(0, len(asked), QUERIES):
                found += self._search(view, asked[start : start + QUERIES], k, beam, rerank)
        return found

    def _search(self, view: View, queries: Sequence[Query], k: int, beam: int, rerank: bool) -> list[Hits]:
        asked, notes = asking.asked(self.model, queries), asking.notes(self.model, queries)
        if not len(view):
            return [Hits([], [], rerank=rerank, notes=[*own, "the index is empty"]) for own in notes]
        hits = []
        for candidates, own in zip(view.searcher.search(asked, k, beam), notes, strict=True):
            rankings = candidates.plain(k), candidates.reranked(k)
            rows = candidates.rows[np.unique(np.concatenate(rankings))]
            items = self._items(rows)
            scores = candidates.gains.sum(1), candidates.scores
            plain, reranked = (
                hits_of(candidates, places, score, items)
                for places, score in zip(rankings, scores, strict=True)
            )
            hits.append(Hits(plain, reranked, rerank=rerank, notes=own))
        return hits

    def _items(self, rows: np.ndarray) -> dict[int, Item]:
        entries = self._catalogue.entries(rows.tolist())
        if len(entries) != len(rows):
            raise DamagedError(
                f"{self._catalogue.path} lacks items that a segment holds: make the index again"
            )
        return {row: item_of(entry, self._catalogue.path) for row, entry in entries.items()}

    @contextlib.contextmanager
    def _reading(self) -> Iterator[View]:
        """The newest version; all that this thread asks of the catalogue within is of it."""
        with contextlib.ExitStack() as stack:
            with opening(self.path):
                stack.enter_context(self._catalogue.reading())
                with self._viewing:
                    view = open_view(self.path, self._catalogue, self.model, self._coding, self._view)
                    self._view = view
            yield view


def _model(model: Model | Path | str) -> Model:
    return model if isinstance(model, Model) else Model.open(model)


def _coding(model: Model) -> Coding:
    quantizer = model.quantizer
    return Coding(quantizer.sizes, quantizer.semantic, told=quantizer.first == "given")
