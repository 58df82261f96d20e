"""A folder beside the items of an index that came from it: what `SyncPlan` says is found here.

Files are compared by content. A file whose bytes an item had that is no longer where it was is that item,
moved. An item is gone only if its place could be looked at and holds it no more. Nothing is changed here.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

from genius.data.collection import Failures
from genius.data.content_key import content_key
from genius.data.folder import Folder
from genius.data.read import read
from genius.data.records import Item
from genius.errors import InputError, ItemError
from genius.index.catalogue import Catalogue
from genius.index.entries import Entry, ReadValues, entry_of
from genius.index.folder_scan import FolderScan, ImageHashes, WatchedFolder
from genius.index.sources import Source, SourceItems, is_in_use, known_sources, locate
from genius.index.sync_plan import CHUNK, Move, SyncPlan, is_owned, merged, owned_items
from genius.progress import track

CHECKED = 16
"""By the contents of so many files a folder that was moved is recognised."""


def make_plan(
    catalogue: Catalogue, folder: Path, *, exif: bool = True, watched: WatchedFolder | None = None
) -> SyncPlan:
    """Compare a folder with the items that came from it; nothing is changed.

    Args:
        catalogue: of the index; it must be reading one version.
        folder: the folder.
        exif: whether what cameras wrote into photos is metadata.
        watched: what is known of the folder from earlier scans; files that may still be written to wait.
    """
    scan = FolderScan.at(folder, catalogue.path.parent) if watched is None else watched.scan
    start = _plan_without_changes(catalogue, folder, scan)
    comparison = _Comparison(catalogue, start, scan, watched)
    if scan.exists:
        files = scan.files if start.inner else None
        comparison.read_folder(start.collection(exif=exif, files=files))
    return comparison.plan()


def _plan_without_changes(catalogue: Catalogue, folder: Path, scan: FolderScan) -> SyncPlan:
    """Which source of the index the folder is. Raises InputError if it can't be one."""
    path = folder.resolve()
    known = {source.path: source for source in known_sources(catalogue)}
    if scan.exists and not folder.is_dir():
        raise InputError("is no folder: a folder can be kept in step, other files can be added", path=folder)
    if scan.files and str(path) not in known and not isinstance(read(folder), Folder):
        raise InputError("is no folder of images and texts: add it with genius add", path=folder)
    if str(path) in known and known[str(path)].kind != Folder.kind:
        raise InputError(
            f"was added as a {known[str(path)].kind}: only a folder of images and texts can be kept in step",
            path=folder,
        )
    former = None if str(path) in known else _former_source(catalogue, folder, scan, list(known.values()))
    if former is not None:
        note = f"{former.path} was moved: its items are in {path} now"
        return SyncPlan(folder, replace(former, path=str(path)), former=former.path, notes=(note,))
    collection = Folder(folder, exif=False)
    collection.may_be_empty = True
    if scan.exists:
        located = locate(catalogue, collection, replacing=False)
        return SyncPlan(folder, located.source, located.inner)
    outer = [source for source in known.values() if path.is_relative_to(source.path)]
    for source in sorted(outer, key=lambda source: -len(source.path))[:1]:
        inner = "" if source.path == str(path) else path.relative_to(source.path).as_posix() + "/"
        plan = SyncPlan(folder, source, inner)
        if next(owned_items(catalogue, plan), None) is not None:
            return plan
    raise InputError("there is nothing here, and no item of the index came from here", path=folder)


def gone_items(catalogue: Catalogue, items: SourceItems) -> list[str]:
    """The ids of items that came from a folder and whose files are not there any more, whatever became of
    them: contents are not compared."""
    scan = FolderScan.at(items.collection.path, catalogue.path.parent)
    plan = SyncPlan(items.collection.path, items.source, items.inner)
    places = ((entry.id, entry.id.removeprefix(plan.prefix)) for _, entry in owned_items(catalogue, plan))
    return [id for id, path in places if path not in scan.files and scan.blocked_by(path) is None]


def _former_source(
    catalogue: Catalogue, folder: Path, scan: FolderScan, known: list[Source]
) -> Source | None:
    """The source that this folder was before it was moved: at least half of its files are here."""
    for source in known:
        if source.kind != Folder.kind or Path(source.path).exists():
            continue
        owned = list(owned_items(catalogue, SyncPlan(folder, source)))
        here = [entry for _, entry in owned if entry.id.removeprefix(source.prefix) in scan.files]
        if here and 2 * len(here) >= len(owned):
            same = sum(
                _same_file(folder / entry.id.removeprefix(source.prefix), entry) for entry in here[:CHECKED]
            )
            if 2 * same > len(here[:CHECKED]):
                return source
    return None


def _same_file(file: Path, entry: Entry) -> bool:
    try:
        content = file.read_bytes()
    except OSError:
        return False
    if entry.image is None:
        return content.decode("utf-8-sig", "replace").strip() == entry.text
    return content_key(content) == entry.image_hash


class _Comparison:
    """A folder beside the items of an index; contents are compared by their hashes."""

    def __init__(
        self, catalogue: Catalogue, start: SyncPlan, scan: FolderScan, watched: WatchedFolder | None
    ) -> None:
        self.catalogue, self.start, self.scan = catalogue, start, scan
        self.hashes = ImageHashes() if watched is None else watched.hashes
        self.unsettled = None if watched is None else watched.unsettled
        self.seen: set[int] = set()
        self.failed: set[str] = set()
        self.unread_folders: list[str] = []
        self.failures = Failures()
        self.contents: dict[str, bytes] = {}  # of files whose contents are not those of their items
        self.displaced: dict[str, tuple[int, Entry]] = {}  # items whose files have other contents now
        self.changed: list[str] = []
        self.repointed: list[Move] = []
        self.waiting: list[str] = []
        self.adopted: list[str] = []
        self.unchanged = 0
        self.notes = list(start.notes)

    def read_folder(self, items: SourceItems) -> None:
        """Compare every file of the folder."""
        items.collection.failure_listener = self._note_failure
        stream = iter(track(items, "comparing"))
        while chunk := list(itertools.islice(stream, CHUNK)):
            stored = self.catalogue.stored(item.id for item in chunk)
            keys = [key for key, _ in stored.values()]
            read_values, texts = self.catalogue.read_values(keys), self.catalogue.text_folders(keys)
            for item in chunk:
                try:
                    if item.id in stored:
                        key, entry = stored[item.id]
                        self._compare(item, key, entry, read_values.get(key), texts.get(key))
                    elif not self._waits(item):
                        self.contents[item.id] = self._content(item)[0]
                except InputError as error:
                    self.failed.add(self._path(item.id))
                    self.failures.add(ItemError(item.id, error))
        self.notes += items.collection.notes

    def _compare(
        self, item: Item, key: int, entry: Entry, read_values: ReadValues | None, text_folder: str | None
    ) -> None:
        """Compare a file with the item that has its id."""
        owned = is_owned(entry, self.start, text_folder)
        if owned:
            self.seen.add(key)  # until it is known to be elsewhere
        if self._waits(item):
            return
        if not owned and is_in_use(item, entry, self.catalogue.path):
            raise InputError("its id is that of an item that did not come from this folder: rename the file")
        if not owned and item.image is None:
            self.adopted.append(item.id)
        content, image_hash = self._content(item)
        whole = entry_of(merged(item, entry, read_values, self.catalogue.path), image_hash)
        moved = replace(whole, image=entry.image, content_hash=entry.content_hash)
        if whole.content_hash == entry.content_hash:
            self.unchanged += 1
        elif content != _stored_content(entry, read_values):
            self.contents[item.id] = content
            self.displaced[item.id] = (key, entry)
        elif moved == entry:
            self.repointed.append(Move(key, item.id, item.id))
        else:
            self.changed.append(item.id)
            if whole.image != entry.image:
                self.repointed.append(Move(key, item.id, item.id))

    def _content(self, item: Item) -> tuple[bytes, bytes | None]:
        """What a file is recognised by wherever it is, and the hash of its image."""
        if item.image is None:
            return _text_content(item.text), None
        path = self._path(item.id)
        signature = self.scan.files.get(path)
        settled = self.unsettled is not None and path not in self.unsettled
        image_hash = self.hashes.hash_of(item, path, signature, settled=settled)
        if image_hash is None:
            raise InputError("is empty", path=self.start.folder / path)
        return image_hash, image_hash

    def _waits(self, item: Item) -> bool:
        waits = self.unsettled is not None and self._path(item.id) in self.unsettled
        if waits:
            self.waiting.append(item.id)
        return waits

    def _path(self, id: str) -> str:
        return id.removeprefix(self.start.prefix)

    def _note_failure(self, error: InputError) -> None:
        self.failures.add(error)
        root = Path(self.start.source.path, self.start.inner) if self.start.inner else self.start.folder
        if error.path is not None and error.path.is_relative_to(root):
            path = error.path.relative_to(root).as_posix()
            self.failed.add(path)
            if path not in self.scan.files and error.reason.startswith("cannot be read"):
                self.unread_folders.append(path)

    def plan(self) -> SyncPlan:
        """What is to be done about it."""
        gone, unseen, count = self._absent()
        donors: defaultdict[bytes, list[tuple[int, Entry]]] = defaultdict(list)
        candidates = dict((*gone.values(), *self.displaced.values()))
        read_values = self.catalogue.read_values(candidates)
        for key, entry in candidates.items():
            donors[_stored_content(entry, read_values.get(key))].append((key, entry))
        moved = []
        for id, content in self.contents.items():
            if donors.get(content):
                key, entry = _nearest_name(donors[content], id)
                donors[content].remove((key, entry))
                moved.append(Move(key, entry.id, id))
        left, arrived = {move.item_key for move in moved}, {move.new for move in moved}
        overwritten = [key for id, (key, _) in self.displaced.items() if id in arrived and key not in left]
        changed = [id for id, (key, _) in self.displaced.items() if id not in arrived and key not in left]
        still = {id: key for id, (key, _) in gone.items() if key not in left}
        new = self.contents.keys() - arrived - set(changed)
        return replace(
            self.start,
            count=count,
            new=tuple(id for id in self.contents if id in new),
            changed=tuple(sorted({*self.changed, *changed})),
            moved=tuple(moved),
            gone=tuple(still),
            gone_keys=tuple(still.values()),
            overwritten=tuple(overwritten),
            repointed=tuple(self.repointed),
            adopted=tuple(self.adopted),
            unchanged=self.unchanged,
            waiting=tuple(self.waiting),
            unseen=tuple(unseen),
            failures=self.failures,
            notes=(*self.notes, *self._blocked_notes(unseen)),
        )

    def _absent(self) -> tuple[dict[str, tuple[int, Entry]], list[str], int]:
        """The items whose files are gone, the ids of those that can't be seen, and how many there are."""
        gone: dict[str, tuple[int, Entry]] = {}
        unseen, count = [], 0
        for key, entry in owned_items(self.catalogue, self.start):
            count += 1
            if key in self.seen:
                continue
            if self._hidden_by(entry.id) is None:
                gone[entry.id] = (key, entry)
            else:
                unseen.append(entry.id)
        return gone, unseen, count

    def _hidden_by(self, id: str) -> str | None:
        """What keeps the file of an item from being seen."""
        path = self._path(id)
        failed = [place for place in self.unread_folders if path.startswith(f"{place}/")]
        blocked = self.scan.blocked_by(path)  # the empty path is that of the folder itself
        return path if path in self.failed else next(iter(failed), blocked)

    def _blocked_notes(self, unseen: list[str]) -> list[str]:
        """What could not be looked at, and how many items stay for that reason."""
        counts = Counter(
            place for id in unseen if (place := self.scan.blocked_by(self._path(id))) is not None
        )
        return [
            f"{self.start.folder / place}: {self.scan.blocked[place]}; {count:,} of its items stay"
            for place, count in counts.items()
        ]


def _stored_content(entry: Entry, read_values: ReadValues | None) -> bytes:
    """What an item's file was recognised by when it was read."""
    if entry.image is not None:
        return entry.image_hash or b""
    return _text_content(entry.text if read_values is None else read_values.text)


def _text_content(text: str | None) -> bytes:
    return b"text " + content_key((text or "").encode())


def _nearest_name(donors: list[tuple[int, Entry]], id: str) -> tuple[int, Entry]:
    """Of items with equal contents the one whose file has the same name, else the first."""
    name = id.rsplit("/", 1)[-1]
    return next((donor for donor in donors if donor[1].id.rsplit("/", 1)[-1] == name), donors[0])
