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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from genius import __version__
from genius.data.records import ImageSource, Item, Modality, Query
from genius.decode.onnx_decoder import Precision
from genius.errors import DamagedError, InputError, MismatchError, MissingError
from genius.index import filters
from genius.index import query as asking
from genius.index.browse import Browsing, Here
from genius.index.catalogue import Catalogue
from genius.index.decoders import DecoderName, Decoders
from genius.index.disk import disk_said
from genius.index.entries import item_of
from genius.index.hits import Hit, Hits, hits_of
from genius.index.locks import opening
from genius.index.query import Asking
from genius.index.searcher import Asked, Candidates, Searcher
from genius.index.segments import Coding, Kept
from genius.index.snapshot import View, make_folder, open_view
from genius.index.writing import Writing
from genius.model import Model
from genius.search.hits import Mode
from tests.oracles.beam import BEAMS

if TYPE_CHECKING:
    from PIL import Image

NO_MATCH = "nothing in the index is left to be found by this filter"
QUERIES = 256
"""How many queries are searched at a time."""


class Index(Browsing, Writing):
    """An index that is open, with the model that it was made by."""

    def __init__(self, path: Path, catalogue: Catalogue, model: Model) -> None:
        self.path, self.model = path, model
        self._catalogue = catalogue
        kept = catalogue.settings()["coding"].get("embeddings", "int8")
        self._coding, self._decoders = _coding(model, kept), Decoders(model)
        self._view: View | None = None
        self._here = Here()
        self._viewing, self._one_writer = threading.Lock(), threading.Lock()
        with self._reading():
            pass  # what is damaged is refused here, and not in the midst of a search

    @classmethod
    def create(cls, path: Path | str, model: Model | Path | str, *, embeddings: Kept = "int8") -> Index:
        """Make an empty index at `path`, for items coded by the model.

        Beside its code it keeps of each item what it is re-ranked by: its embedding in bytes and in 16-bit
        floats (`int8`: all candidates are compared by bytes, the best of them exactly), in 16-bit floats
        alone (`fp16`), or nothing (`none`: a few bytes an item, and re-ranking by codes).

        Raises InputError if something stands there, MissingError if the model has no quantizer yet.
        """
        path, model = Path(path), _model(model)
        coding = _coding(model, embeddings)
        settings = {
            "model": {"path": str(model.path.resolve()), "fingerprint": model.fingerprint},
            "coding": asdict(coding),
            "width": model.width,
            "made_by": f"genius {__version__}",
            "made_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        with disk_said(path, "made"):
            make_folder(path, settings)
        return cls.open(path, model)

    @classmethod
    def open(cls, path: Path | str, model: Model | Path | str | None = None) -> Index:
        """The index at `path`, with the model that it was made by: the one given, or from its old place.

        Raises InputError (no index), MismatchError (another model), MissingError (no model) or DamagedError.
        """
        path = Path(path).absolute()  # to be found again from wherever the process goes
        with disk_said(path, "opened"):
            if not path.exists():
                raise InputError("there is nothing here", path=path)
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
        with disk_said(path, "opened"):
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
        rerank: bool | None = None,
        mode: Mode = "auto",
        decoder: DecoderName | str | None = None,
        precision: Precision = "fp32",
        filter: Mapping[str, Any] | None = None,
        exclude: Iterable[str] = (),
        near: str | None = None,
    ) -> Hits:
        """The k items that answer best, by text, image or both (or a Query that holds them).

        `want` or a known instruction says which modality shall be found; otherwise any is. If the pool holds
        k items of it, k are returned: the beam widens as needed. With `rerank`, all items under the beams are
        ordered by the likeness of joined embeddings and codes; without, by codes alone.
        How far codes are searched is the `mode`, by which `decoder` and in which `precision` docs/search.md
        explains; without a word, `paper` is as published and the others are what was found best.

        Only items are found whose metadata fulfil the `filter` (see `genius.index.filters`), and none of the
        ids in `exclude`. `near`, an item's id, stands for a query: more like this one, but not itself.
        """
        how = Asking(k, beam, rerank, mode, decoder, precision, filter, exclude)
        if near is None:
            return self._search_all([asking.query_of(query, text, image, instruction)], want, how)[0]
        if not (query is text is image is instruction is None):
            raise InputError("a search is near an item, or by a query: give one of them")
        return self._search_near(near, want, how)

    def search_many(
        self,
        queries: Iterable[Query | str],
        *,
        want: Modality | str | None = None,
        k: int = 10,
        beam: int = BEAMS,
        rerank: bool | None = None,
        mode: Mode = "auto",
        decoder: DecoderName | str | None = None,
        precision: Precision = "fp32",
        filter: Mapping[str, Any] | None = None,
        exclude: Iterable[str] = (),
    ) -> list[Hits]:
        """What answers each query; all see the same version of the index, and have the same filter."""
        how = Asking(k, beam, rerank, mode, decoder, precision, filter, exclude)
        every = [asking.query_of(query, None, None, None) for query in asking.several(queries)]
        return self._search_all(every, want, how)

    @property
    def searcher(self) -> Searcher:
        """What searches the current version, by vectors. Raises InputError if it is empty."""
        with self._reading() as view:
            pass
        if not len(view):
            raise InputError("the index is empty: add items first", path=self.path)
        return view.searcher

    def prepare(self, filter: Mapping[str, Any]) -> None:
        """Find out which items fulfil a filter, as its next search would; for who has a thread to spare."""
        condition = filters.condition(filter)
        with self._reading() as view:
            if len(view):
                view.selections.fulfilling(self._catalogue, condition)

    def _search_all(self, queries: Sequence[Query], want: Modality | str | None, how: Asking) -> list[Hits]:
        wanted = None if want is None else Modality.parse(want)
        known = asking.wanted_by_instruction(self._catalogue.instructions())
        queries = [asking.instruct(query, wanted, known) for query in queries]
        # All are embedded before a version is read: as long as one is, what is written piles up behind it.
        embedded = [
            (asking.asked(self.model, some), asking.notes(self.model, some))
            for some in (queries[start : start + QUERIES] for start in range(0, len(queries), QUERIES))
        ]
        with self._reading() as view:
            rows = list(self._catalogue.known(how.exclude).values())
            every = [self._search(view, asked, notes, rows, how) for asked, notes in embedded]
            return [hits for some in every for hits in some]

    def _search_near(self, id: str, want: Modality | str | None, how: Asking) -> Hits:
        """What is like an item; its own code and embedding are the query."""
        with self._reading() as view:
            rows = self._catalogue.known([id, *how.exclude])
            if id not in rows:
                raise InputError(f"item {id!r} is not in the index: nothing can be near it")
            wanted = None if want is None else Modality.parse(want)
            asked = asking.asked_by_item(self.model, view.stored(rows[id]), wanted)
            return self._search(view, asked, [[]], list(rows.values()), how)[0]

    def _search(
        self, view: View, asked: Asked, notes: list[list[str]], exclude: list[int], how: Asking
    ) -> list[Hits]:
        chosen = self._decoders.choose(how.mode, how.decoder, how.precision)
        found = view.selections.selected(self._catalogue, how.condition, exclude) if len(view) else None
        if found is None or not len(found.searcher):
            nothing = NO_MATCH if len(view) else "the index is empty"
            return [Hits([], [], rerank=how.reranked, notes=[*own, nothing]) for own in notes]
        more = how.k + len(found.dropped)
        mode, by_codes = how.searched(chosen.name), how.by_codes(chosen.name)
        every = found.searcher.search(asked, more, how.beam, mode, chosen.decoder, by_codes=by_codes)
        return [
            self._hits(candidates, own, chosen.name, how, found.dropped)
            for candidates, own in zip(every, notes, strict=True)
        ]

    def _hits(
        self, candidates: Candidates, notes: list[str], decoder: str, how: Asking, dropped: Sequence[int]
    ) -> Hits:
        """Both rankings of what was found for a query, with their items, but for rows that are dropped."""
        items, most = self._items(candidates.rows), how.k + len(dropped)
        stays = ~np.isin(candidates.rows, dropped)

        def ranked(places: np.ndarray, scores: np.ndarray) -> list[Hit]:
            return hits_of(candidates, places[stays[places]][: how.k], scores, items)

        return Hits(
            ranked(candidates.plain(most), candidates.totals),
            ranked(candidates.reranked(most), candidates.scores),
            rerank=how.reranked,
            notes=notes,
            mode=candidates.mode,
            decoder=decoder,
            under=candidates.under,
        )

    def _items(self, rows: np.ndarray) -> dict[int, Item]:
        entries = self._catalogue.entries(rows.tolist())
        if len(entries) != len(rows):
            raise DamagedError(
                f"{self._catalogue.path} lacks items that a segment holds: make the index again"
            )
        return {row: item_of(entry, self._catalogue.path) for row, entry in entries.items()}

    @contextlib.contextmanager
    def _reading(self) -> Iterator[View]:
        """The newest version; all that this thread asks of the catalogue within is of it. Also within another
        one: then it is that one's, as the files of an old version may be gone when they are opened again."""
        if self._here.view is not None:
            yield self._here.view
            return
        with contextlib.ExitStack() as stack:
            with opening(self.path):
                stack.enter_context(self._catalogue.reading())
                self._here.view = self._current()
            stack.callback(setattr, self._here, "view", None)
            yield self._here.view

    def _current(self) -> View:
        """The version that this thread is reading."""
        with self._viewing:
            self._view = open_view(
                self.path, self._catalogue, self.model, self._coding, self._decoders, self._view
            )
            return self._view


def _model(model: Model | Path | str) -> Model:
    return model if isinstance(model, Model) else Model.open(model)


def _coding(model: Model, kept: Kept) -> Coding:
    quantizer = model.quantizer
    return Coding(quantizer.sizes, quantizer.semantic, quantizer.modality_code == "given", kept)
