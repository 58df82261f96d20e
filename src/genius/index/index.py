"""An index: items that can be searched, in a folder of a catalogue and segments.

    index = Index.create("index/", model)
    index.add(genius.read("photos/"))
    for hit in index.search("a dog on the beach", want="image", k=5): ...

A search sees one version of the index, and the next search the newest one: other processes may write
meanwhile. A change is durable when its call returns, and the next search finds it, here and in other
processes.
"""

from __future__ import annotations

import contextlib
import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

import numpy as np

from genius.data.collection import Collection, Failures, Report
from genius.data.images import image_source
from genius.data.read import read, read_table
from genius.data.records import ImageSource, Item, Query, Vectors
from genius.decode.onnx_decoder import Precision
from genius.encode import pipeline
from genius.errors import (
    InputError,
    MissingError,
    translate_disk_errors,
)
from genius.index import cells, filters
from genius.index.answers import QuerySearch
from genius.index.browse import browse_items
from genius.index.calibration import Calibrations, QueryKind
from genius.index.catalogue import Catalogue
from genius.index.cells import Cell
from genius.index.decoders import DecoderName, NamedDecoder, check_model
from genius.index.entries import item_of
from genius.index.export import ExportReport, export_index
from genius.index.facets import Facet
from genius.index.folder_comparison import make_plan
from genius.index.folder_scan import WatchedFolder
from genius.index.hits import Hits
from genius.index.ingest import Added, Change, Ingest
from genius.index.item_encoder import EncodeItems, embed_items, item_encoder
from genius.index.near_misses import EMPTY
from genius.index.query import (
    BrowseKeywords,
    Modalities,
    SearchKeywords,
    SearchOptions,
    browse_options,
    check_several,
    make_query,
)
from genius.index.query_cache import QueryCache
from genius.index.recode import recode_catalogue
from genius.index.searcher import Searcher
from genius.index.segments import KeptEmbeddings, SegmentFormat
from genius.index.shard_catalogue import open_catalogue
from genius.index.shards import FILE as SHARDS
from genius.index.snapshot import Snapshot, create_index_folder, index_settings, segment_format
from genius.index.sources import attach
from genius.index.split import SplitReport, split_index
from genius.index.sync import Synced, carry_out, why_kept
from genius.index.sync_plan import SyncPlan
from genius.index.versions import Versions
from genius.index.writer import Compacted, SegmentWriter
from genius.model import DEFAULT, Model, model_folder
from genius.search.engine import Mode

if TYPE_CHECKING:
    from PIL import Image

    from genius.collection.albums import Album, Albums
    from genius.collection.drift import Drift
    from genius.collection.duplicates import Duplicates, Level
    from genius.collection.outliers import Outliers
    from genius.collection.samples import SampleKind


class Index:
    """An open index, with the model that it was made by. It may be used by several threads."""

    def __init__(self, path: Path, catalogue: Catalogue, model: Model) -> None:
        self.path, self.model = path, model
        self._catalogue = catalogue
        self._format = segment_format(model, catalogue.settings()["codes"]["embeddings"])
        self._calibrations, self._embedded = Calibrations(path), QueryCache(model)
        self._versions = Versions(path, catalogue, model, self._format)
        with self._reading():
            pass  # damage is reported here, and not during a search

    @classmethod
    def create(
        cls,
        path: Path | str,
        model: Model | Path | str = DEFAULT,
        *,
        embeddings: KeptEmbeddings = "int8",
        offline: bool = False,
        shards: int | None = None,
    ) -> Index:
        """Make an empty index at `path`, for items coded by the model: by default `photo`.

        The encoder of `photo` is fetched when it is needed for the first time, unless `offline`.

        Beside its code the index keeps an embedding of each item, for re-ranking: in int8 and float16
        (`int8`: all candidates are compared by int8, the best of them by float16), in float16 alone (`fp16`),
        or not at all (`none`: a few bytes an item, and re-ranking by codes).

        With `shards` it is made of so many ordinary indexes, its shards, which are searched as one.

        Raises InputError if something stands there, MissingError if the model has no quantizer yet or its
        encoder can't be fetched.
        """
        path, model = Path(path), _open_model(model)
        model.prepare(offline=offline)
        with translate_disk_errors(path, "made"):
            create_index_folder(path, index_settings(model, segment_format(model, embeddings)), shards)
        return cls.open(path, model)

    @classmethod
    def open(cls, path: Path | str, model: Model | Path | str | None = None) -> Self:
        """The index at `path`, with the model that it was made by: the one given, or from its old place.

        Raises InputError (no index), MismatchError (another model), MissingError (no model) or DamagedError.
        """
        path = Path(path).absolute()  # to be found again wherever the process goes
        if path.name == SHARDS and path.is_file():
            path = path.parent
        with translate_disk_errors(path, "opened"):
            if not path.exists():
                raise InputError("there is nothing here", path=path)
            catalogue = open_catalogue(path)
        made_by = catalogue.settings()["model"]
        if model is None and not model_folder(made_by["path"]).exists():
            raise MissingError(
                f"{path} was made by the model at {made_by['path']}, which is gone: say where it is now"
            )
        model = _open_model(made_by["path"] if model is None else model).known_as(made_by["fingerprint"])
        check_model(path, made_by, model)
        with translate_disk_errors(path, "opened"):
            return cls(path, catalogue, model)

    def close(self) -> None:
        """Close the index."""
        self._catalogue.close()

    def __enter__(self) -> Self:
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
        vector: Vectors | np.ndarray | Sequence[float] | None = None,
        near: str | None = None,
        **options: Unpack[SearchKeywords],
    ) -> Hits:
        """The k items that answer best, by text, image or both (or a Query that holds them), or by a vector.

        Args:
            query: a text, or a Query.
            text: words to search by.
            image: an image to search by: a path, bytes, a Pillow image.
            instruction: what to find, in a sentence ("Find a picture that matches this text.").
            vector: an embedding of one's own to search by, of the encoder that the model was fitted on.
            near: the id of an item, instead of a query: find more like it, but not itself.
            options: the fields of `genius.index.query.SearchOptions`: want, only, k, offset, sort, beam,
                rerank, mode, decoder, precision, filter, exclude, at_least, on_missing_shard.

        You get k items whenever k exist: the beam widens as needed.
        """
        chosen = SearchOptions.of(**options)
        if near is None:
            return self._search(chosen).answer([make_query(query, text, image, instruction, vector)])[0]
        if any(given is not None for given in (query, text, image, instruction, vector)):
            raise InputError("a search is near an item, or by a query: give one of them")
        return self._search(chosen).near(near)

    def search_many(self, queries: Iterable[Query | str], **options: Unpack[SearchKeywords]) -> list[Hits]:
        """What answers each query; all see the same version of the index, and have the same options."""
        chosen = SearchOptions.of(**options)
        several = [make_query(query, None, None, None) for query in check_several(queries)]
        return self._search(chosen).answer(several)

    def browse(self, **options: Unpack[BrowseKeywords]) -> Hits:
        """k items without a query: those that fulfil a filter, sorted by metadata or as they were added.

        The options mean what they do in `search`: want, only, k, offset, sort, filter, exclude. `Hits.total`
        says how many there are in all.
        """
        chosen = browse_options(**options)
        with self._reading() as snapshot:
            return browse_items(snapshot, self._catalogue, chosen)

    @property
    def searcher(self) -> Searcher:
        """What searches the current version by vectors. Raises InputError if it is empty."""
        with self._reading() as snapshot:
            if not len(snapshot):
                raise InputError(EMPTY, path=self.path)
            return snapshot.searcher

    def decoder(
        self, mode: Mode, name: DecoderName | None = None, precision: Precision = "fp32"
    ) -> NamedDecoder:
        """The decoder that a search in this mode, by this name and of this precision uses."""
        with self._reading() as snapshot:
            return snapshot.decoder(mode, name, precision)

    def prepare(self, filter: Mapping[str, Any]) -> None:
        """Decide a filter ahead of the search that will use it, for callers that have a thread to spare."""
        condition = filters.condition(filter)
        with self._reading() as snapshot:
            if len(snapshot):
                snapshot.filters.fulfilling(self._catalogue, condition)

    def calibrate(
        self, kinds: Iterable[QueryKind] = ("text",), *, want: Modalities = None, only: Modalities = None
    ) -> None:
        """Measure now what confidences are told by, for queries of these kinds (text, image, both, item) that
        want this.

        Otherwise it is measured when a confidence is first read. It is kept with the index, and measured
        again when that has changed much.
        """
        modalities = SearchOptions.of(want=want, only=only).modalities
        with self._reading() as snapshot:
            if len(snapshot):
                for kind in kinds:
                    self._calibrations.get(snapshot, kind, modalities)

    def _search(self, options: SearchOptions) -> QuerySearch:
        return QuerySearch(
            self.model, self._embedded, self._catalogue, self._calibrations, self._versions, options
        )

    # --- looking things up

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        """Within, all that this thread reads of the index is of one version; it can't change it meanwhile."""
        with self._reading():
            yield

    def __len__(self) -> int:
        """How many items there are."""
        return len(self._catalogue)

    def __contains__(self, id: str) -> bool:
        return bool(self._catalogue.keys_of([id]))

    def __iter__(self) -> Iterator[Item]:
        """All items, in the order in which they were added, of the version at the start of the iteration."""
        return self.items()

    def items(self, filter: Mapping[str, Any] | None = None) -> Iterator[Item]:
        """The same of the items that fulfil a filter, one at a time, however many there are."""
        wanted = None if filter is None else filters.condition(filter)
        walk = self._catalogue.walk if self._versions.is_reading else self._catalogue.snapshot
        return (item_of(entry, self._catalogue.path) for _, entry in walk(wanted))

    def page(self, after: int = 0, most: int = 100) -> list[tuple[int, Item]]:
        """The next items after an item key (0 at first), each with its own key."""
        return [
            (key, item_of(entry, self._catalogue.path)) for key, entry in self._catalogue.after(after, most)
        ]

    def get(self, id: str) -> Item | None:
        """The item with this id, if there is one."""
        stored = self._catalogue.stored([id])
        return item_of(stored[id][1], self._catalogue.path) if id in stored else None

    def code(self, id: str) -> tuple[int, ...] | None:
        """The code of the item with this id, if there is one."""
        with self._reading() as snapshot:
            key = self._catalogue.keys_of([id]).get(id)
            return None if key is None else tuple(snapshot.stored(key).code.tolist())

    def cell(self, prefix: Sequence[int | None] = (), items: int = 0) -> Cell:
        """What lies under a prefix of codes, with some of its items; the empty prefix is everything.

        Raises InputError for more levels than there are, and for codes that can't be.
        """
        with self._reading() as snapshot:
            return cells.find_cell(snapshot, self._catalogue, tuple(prefix), self._format, items)

    def first_codes(self) -> np.ndarray:
        """How many items of each modality have each first code, int64 [codes, modalities]."""
        with self._reading() as snapshot:
            return cells.first_code_modalities(snapshot, self._format.sizes[0])

    def facets(self) -> tuple[Facet, ...]:
        """The keys of the items' metadata with their values, those of most items first: what can be filtered.

        They are counted once for each version of the index; see `genius.index.facets`.
        """
        with self._reading() as snapshot:
            return snapshot.facets.get(self._catalogue)

    # --- the collection as a whole

    def duplicates(self, level: Level | None = None, *, similarity: float | None = None) -> Duplicates:
        """What the index holds twice: groups, whose level and similarity can be changed later.

        `level` is `exact` (equal contents), `same` (the same image in another size or format; the default) or
        `near` (similar embeddings: a cosine of `similarity`, by default 0.95). See
        `genius.collection.duplicates`.
        """
        from genius.collection.duplicates import find_duplicates

        with self._reading() as snapshot:
            return find_duplicates(snapshot, self._catalogue, level, similarity)

    def albums(self, n: int = 30, *, like: Iterable[Iterable[str] | Album] | None = None) -> Albums:
        """The items in about n groups of what belongs together, each with a name and a cover.

        `like` are earlier albums, or their ids: the new ones start from these. See
        `genius.collection.albums`.
        """
        from genius.collection.albums import find_albums

        with self._reading() as snapshot:
            return find_albums(snapshot, self._catalogue, n, like)

    def outliers(self, n: int = 50, *, pairs: int = 20_000, cache: Path | None = None) -> Outliers:
        """The n oddest items, each with the reason: it is far from all others, its text does not fit its
        image, or its image looks broken.

        Images and texts of up to so many `pairs` are embedded apart, with features from `cache`. See
        `genius.collection.outliers`.
        """
        from genius.collection.outliers import find_outliers

        place = cache or pipeline.default_cache()
        with self._reading() as snapshot:
            encoder = partial(embed_items, self.model, place, 1)
            return find_outliers(snapshot, self._catalogue, encoder, n, pairs)

    def sample(self, n: int = 200, kind: SampleKind = "spread", *, seed: int = 0) -> list[Item]:
        """n items that stand for all: `spread` out, `typical`, or `per-cell`; see
        `genius.collection.samples`."""
        from genius.collection.samples import take_sample

        with self._reading() as snapshot:
            return take_sample(snapshot, self._catalogue, n, kind, seed)

    def drift(
        self, new: Index | None = None, *, since: str | datetime.date | None = None, by: str | None = None
    ) -> Drift:
        """How a newer index of the same model differs from this one, or this one's items `since` a date (when
        they were added, or `by` the date under a metadata key, such as `taken`) from those before it.

        Raises MismatchError for two models. See `genius.collection.drift`.
        """
        from genius.collection.drift_groups import drift_between, drift_since

        with self._reading() as snapshot:
            if new is None:
                return drift_since(snapshot, self._catalogue, since, by)
            with new._reading() as newer:
                return drift_between((snapshot, self._catalogue), (newer, new._catalogue), since, by)

    # --- other indexes, and files; `genius.merge` makes one index of several

    def split(
        self, filter: Mapping[str, Any], out: Path | str, *, rest: Path | str | None = None
    ) -> SplitReport:
        """Make an index at `out` of the items that fulfil a filter, and one at `rest` of the others.

        Nothing is encoded again, and this index stays as it is. See `genius.index.split`.
        """
        return split_index(self.path, filter, out, rest)

    def export(
        self,
        out: Path | str,
        *,
        codes: bool = False,
        embeddings: bool = False,
        images: Path | str | None = None,
        strict: bool = False,
        on_failure: Report | None = None,
    ) -> ExportReport:
        """Write all items to a table (.jsonl, .jsonl.gz or .parquet) that `genius.read` reads back.

        With codes and embeddings if wanted. Image files are named by their paths; with `images` they are
        copied to that folder, below the table's own, so that the table needs nothing else. One that can't be
        copied is a failure, or raised if `strict`. See `genius.index.export`.
        """
        options: dict[str, Any] = {"codes": codes, "embeddings": embeddings, "images": images}
        return export_index(self.path, out, strict=strict, on_failure=on_failure, **options)

    def recode(
        self,
        model: Model | Path | str,
        out: Path | str,
        *,
        embeddings: KeptEmbeddings | None = None,
        strict: bool = False,
        on_failure: Report | None = None,
        cache: Path | None = None,
        workers: int = 1,
    ) -> Added:
        """Move the collection to another model: make an index of it at `out`, or go on with what was begun.

        This index stays as it is, and can be searched and changed meanwhile. `embeddings` are what the new
        one keeps, by default what this one does; the other arguments are those of `add`. See
        `genius.index.recode`.
        """
        options: dict[str, Any] = {"strict": strict, "on_failure": on_failure, "workers": workers}
        return recode_catalogue(
            type(self), self._catalogue, _open_model(model), out, embeddings, cache=cache, **options
        )

    @property
    def version(self) -> int:
        """A number that rises with every change of the index."""
        return self._catalogue.state().version

    @property
    def format(self) -> SegmentFormat:
        """What codes are made of, and which embeddings are kept."""
        return self._format

    @property
    def shard_folders(self) -> tuple[Path, ...]:
        """The folders of the ordinary indexes of which it consists: those of its shards, or its own."""
        return self._catalogue.folders

    @property
    def filter_seconds(self) -> float:
        """How long a filter may take; a longer one is an error. It can be set."""
        return self._catalogue.filter_seconds

    @filter_seconds.setter
    def filter_seconds(self, seconds: float) -> None:
        self._catalogue.filter_seconds = seconds

    # --- changing; one process writes at a time, and its threads wait for each other

    def add(
        self,
        items: Iterable[Item] | Path | str,
        *,
        strict: bool = False,
        replace: bool = False,
        on_failure: Report | None = None,
        cache: Path | None = None,
        workers: int = 1,
        total: int | None = None,
    ) -> Added:
        """Add items, in blocks; each is durable when it is committed. Returns what became of them.

        Items are a collection (`genius.read`), its path, or any others. Unchanged items are recognised by
        content hash and skipped, so a run that was stopped goes on where it was; an id with other content
        replaces the old item.

        Args:
            items: the items, or the path of a collection, also of a single image.
            strict: whether an item that can't be read is raised; otherwise it is left out and reported.
            replace: whether a collection replaces items of other collections that have its ids; otherwise all
                of its ids get its name as a prefix, which the report says.
            on_failure: receives every failure as it comes; the report keeps the first thousand.
            cache: the folder of cached features.
            workers: the number of processes; a script that uses several must guard its main part.
            total: the number of items for the progress bar, if it is known.
        """
        report, path = Added(failures=Failures(listener=on_failure)), isinstance(items, str | Path)
        if isinstance(items, str | Path):
            items = read(items, strict=strict)
        with self._writing() as writer, self._item_encoder(cache, workers) as encode:
            if isinstance(items, Collection):
                collection, items = items, attach(self._catalogue, items, replacing=replace)
                if path:  # nobody else can look at what it could not read
                    collection.failure_listener = report.failures.add
            return Ingest(self._catalogue, writer, encode, strict=strict, report=report).add(items, total)

    def update(
        self,
        changes: Iterable[Change] | Path | str,
        *,
        strict: bool = False,
        on_failure: Report | None = None,
        cache: Path | None = None,
        workers: int = 1,
    ) -> Added:
        """Change items of the index: what a change gives is new, the rest stays. Returns what became of them.

        A change is an `Item`, whose text, image and metadata replace the old ones as far as it has them, or a
        mapping like `{"id": "42", "text": None, "metadata": {"price": 30}}`. The path of a table stands for a
        change per row, by the columns that it has: `id, price` changes prices. For metadata alone nothing is
        encoded. An unknown id is reported as a failure, or raised if `strict`.
        """
        report = Added(failures=Failures(listener=on_failure))
        if isinstance(changes, str | Path):
            table = read_table(changes, strict=strict)
            table.failure_listener = report.failures.add
            changes = table.changes()
        with self._writing() as writer, self._item_encoder(cache, workers) as encode:
            return Ingest(self._catalogue, writer, encode, strict=strict, report=report).update(changes)

    def remove(self, ids: Iterable[str] | str) -> int:
        """Remove items, atomically; returns how many there were. Unknown ids are ignored."""
        with self._writing():
            keys = list(self._catalogue.keys_of([ids] if isinstance(ids, str) else ids).values())
            if keys:
                self._catalogue.remove(keys)
        return len(keys)

    def plan_sync(
        self, folder: Path | str, *, exif: bool = True, watched: WatchedFolder | None = None
    ) -> SyncPlan:
        """What `sync` would do for a folder; nothing is changed. See `genius.index.folder_comparison`."""
        self._catalogue.refuse_shards("sync")
        with self._catalogue.reading():
            return make_plan(self._catalogue, Path(folder), exif=exif, watched=watched)

    def sync(
        self,
        folder: SyncPlan | Path | str,
        *,
        remove: bool = False,
        all_gone: bool = False,
        exif: bool = True,
        on_failure: Report | None = None,
        cache: Path | None = None,
        workers: int = 1,
    ) -> Synced:
        """Bring the index in step with a folder, or carry out a plan by `plan_sync`: add what is new, update
        what changed, follow what was moved.

        What is gone is removed only with `remove`, and more than half of the folder's items only with
        `all_gone`, too. Items of other sources stay. A moved item keeps its codes, and what `update` gave it.
        """
        self._catalogue.refuse_shards("sync")
        plan = folder if isinstance(folder, SyncPlan) else self.plan_sync(folder, exif=exif)
        reason = why_kept(plan, remove=remove, all_gone=all_gone)
        report = Added(failures=Failures(listener=on_failure))
        for error in plan.failures.first:
            report.failures.add(error)
        if plan.in_step:
            return Synced(plan, failures=report.failures)
        with self._writing() as writer, self._item_encoder(cache, workers) as encode:
            ingest = Ingest(self._catalogue, writer, encode, strict=False, report=report)
            return carry_out(self._catalogue, plan, ingest, report, reason, exif=exif)

    def compact(self) -> Compacted:
        """Merge all segments and purge removed items."""
        with self._writing() as writer:
            return writer.compact()

    def prepare_to_add(self) -> None:
        """Encode a made-up item, so that the first real addition waits for no loading and no compiling."""
        from PIL import Image

        with self._item_encoder(None, workers=1) as encode:
            encode([Item("ready", "ready", image_source(Image.new("RGB", (8, 8))))])

    # --- versions and locks

    def _reading(self) -> contextlib.AbstractContextManager[Snapshot]:
        """The newest version; all that this thread reads from the catalogue within is of it."""
        return self._versions.reading()

    def _writing(self) -> contextlib.AbstractContextManager[SegmentWriter]:
        """Be the only writer."""
        return self._versions.writing()

    def _item_encoder(
        self, cache: Path | None, workers: int
    ) -> contextlib.AbstractContextManager[EncodeItems]:
        taken = None
        if not self.model.has_code_vectors:  # each item gets an identifier of its own
            with self._reading() as snapshot:
                taken = snapshot.all_codes()
        return item_encoder(self.model, cache or pipeline.default_cache(), workers, taken)


def _open_model(model: Model | Path | str) -> Model:
    return model if isinstance(model, Model) else Model.open(model)
