"""A service's index from Python: the same methods as a local index, over HTTP.

    client = genius.Client("http://127.0.0.1:8000")
    for hit in client.search("a dog on the beach", want="image", k=5): ...

Errors of the service are raised as the errors that an index raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack
from urllib.parse import quote, urlencode

from genius.client.remote import remote_facet, remote_hits, remote_item
from genius.client.replicas import Replicas
from genius.client.transport import batch_items, change_to_dict, image_to_base64, item_path
from genius.collection.albums import Album, Albums
from genius.collection.duplicates import (
    SIMILARITY,
    Duplicates,
    Level,
    check_level,
    check_similarity,
    links_of,
)
from genius.collection.outliers import Outlier, Outliers
from genius.collection.samples import SampleKind
from genius.data.records import ImageSource, Item, Query, QueryPart, Vectors
from genius.errors import InputError
from genius.index.cells import Cell
from genius.index.facets import Facet
from genius.index.hits import Hits
from genius.index.ingest import Added, Change, id_of
from genius.index.query import (
    BrowseKeywords,
    SearchKeywords,
    SearchOptions,
    browse_options,
    check_several,
    make_query,
)
from genius.index.writer import Compacted
from genius.serve.atlas import format_prefix, parse_prefix

if TYPE_CHECKING:
    import numpy as np
    from PIL import Image

CONCURRENT_SEARCHES = 8
"""How many requests of `search_many` are under way at a time; the service batches them."""
PAGE = 200
"""How many items or children are fetched by one request."""
MAX_GROUPS = 1000
"""Of so many groups of duplicates the service says at once how large their images are."""


class Client:
    """An index that a service has open.

    Args:
        url: the address of the service, as in http://127.0.0.1:8000; or those of several that serve the same
            index. If one does not answer, or is busy or stopping, the next is asked. Changes go to the first.
        token: the service's token, if it has one.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, url: str | Sequence[str], token: str | None = None, *, timeout: float = 60.0) -> None:
        self._transport = Replicas([url] if isinstance(url, str) else url, token, timeout)

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __len__(self) -> int:
        """The number of items."""
        return int(self.about()["items"])

    def __contains__(self, id: str) -> bool:
        return self.get(id) is not None

    def __iter__(self) -> Iterator[Item]:
        """All items in the order in which they were added, each once; not all may be of one version."""
        after, seen = 0, set()
        while after is not None:
            page = self._transport.call("GET", f"/items?{urlencode({'after': after, 'limit': PAGE})}")
            for fields in page["items"]:
                if fields["id"] not in seen:  # an item that is replaced meanwhile comes again
                    seen.add(fields["id"])
                    yield self._item(fields)
            after = page["next"]

    @property
    def version(self) -> int:
        """The version of the index; it grows with every change."""
        return int(self.about()["version"])

    def about(self) -> dict[str, Any]:
        """What is served: items, modalities, version, model, levels."""
        facts: dict[str, Any] = self._transport.call("GET", "/about")
        return facts

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
        """The k best hits, as `Index.search` finds them, in the requested ranking only."""
        chosen = SearchOptions.of(**options)
        if near is not None and all(given is None for given in (query, text, image, instruction, vector)):
            return self._search({"near": near}, chosen)
        fields = _query_fields(make_query(query, text, image, instruction, vector))
        return self._search({**fields, "near": near}, chosen)

    def search_many(self, queries: Iterable[Query | str], **options: Unpack[SearchKeywords]) -> list[Hits]:
        """The hits of each query; if the index is being changed, they may be of different versions."""
        chosen = SearchOptions.of(**options)

        def search(query: Query | str) -> Hits:
            return self._search(_query_fields(make_query(query, None, None, None)), chosen)

        with ThreadPoolExecutor(CONCURRENT_SEARCHES) as threads:
            return list(threads.map(search, check_several(queries)))

    def browse(self, **options: Unpack[BrowseKeywords]) -> Hits:
        """k items without a query, as `Index.browse` finds them."""
        chosen = browse_options(**options)
        # An empty filter, which everything fulfils, says that there is no query on purpose.
        return self._search({}, chosen if chosen.filter else replace(chosen, filter={}))

    def _search(self, query: Mapping[str, Any], options: SearchOptions) -> Hits:
        fields = {**query, **options.to_dict()}
        fields["want"] = None if options.only else fields["want"] or query.get("want")
        request = {name: value for name, value in fields.items() if value not in (None, [])}
        answer = self._transport.call("POST", "/search", request)
        return remote_hits(self._transport, request, answer, rerank=options.reranks)

    # --- items

    def get(self, id: str) -> Item | None:
        """The item with this id, or None."""
        fields = self._transport.call("GET", item_path(id), may_be_missing=True)
        return None if fields is None else self._item(fields)

    def code(self, id: str) -> tuple[int, ...] | None:
        """The code of the item with this id, or None."""
        fields = self._transport.call("GET", item_path(id), may_be_missing=True)
        return None if fields is None else tuple(fields["code"])

    def add(self, items: Iterable[Item], *, strict: bool = False) -> Added:
        """Add items; one whose id exists replaces the item that has it. Returns what became of them.

        An item that can't be read is left out and reported, or raised if `strict`.
        """
        report = Added()
        for batch in batch_items(items, partial(report.fail, strict=strict)):
            request = {"items": batch, "strict": strict}
            answer = self._transport.call("POST", "/items", request, accept_report=True)
            report.added += answer["added"]
            report.replaced += answer["replaced"]
            report.known += answer["known"]
            for failure in answer["failures"]:
                report.fail(failure["id"], InputError(failure["message"]), strict=False)
        return report

    def update(self, changes: Iterable[Change], *, strict: bool = False) -> Added:
        """Change existing items, as `Index.update` does; an id that does not exist is a failure."""
        report = Added()
        for change in changes:
            id = id_of(change)
            try:
                request = change_to_dict(change)
                answer = self._transport.call("PATCH", item_path(id), request, may_be_missing=True)
                if answer is None:
                    raise InputError("is not in the index: add it")
            except InputError as error:
                report.fail(id, error, strict=strict)
                continue
            report.replaced += answer["replaced"]
            report.known += answer["known"]
        return report

    def remove(self, ids: Iterable[str] | str) -> int:
        """Remove items and return how many there were; ids that don't exist are ignored."""
        removed = 0
        for id in [ids] if isinstance(ids, str) else ids:
            answer = self._transport.call("DELETE", item_path(id), may_be_missing=True)
            removed += 0 if answer is None else int(answer["removed"])
        return removed

    def compact(self) -> Compacted:
        """Merge all segments and purge removed items."""
        return Compacted(**self._transport.call("POST", "/compact", {}))

    def cell(self, prefix: Sequence[int | None] = (), items: int = 0) -> Cell:
        """The cell under a prefix of codes, with up to so many of its items."""
        first = answer = self._cell_page(prefix, 0, items)
        children = list(answer["children"])
        while len(children) < answer["children_total"] and answer["children"]:
            answer = self._cell_page(prefix, len(children), 0)
            children += answer["children"]
        return Cell(
            parse_prefix(first["prefix"]),
            first["count"],
            tuple((child["code"], child["count"]) for child in children),
            tuple(self._item(fields) for fields in first["items"]),
        )

    def facets(self) -> tuple[Facet, ...]:
        """The keys of the items' metadata with their values, as `Index.facets` counts them."""
        return tuple(remote_facet(fields) for fields in self._transport.call("GET", "/facets")["facets"])

    # --- the collection as a whole

    def duplicates(self, level: Level | None = None, *, similarity: float | None = None) -> Duplicates:
        """What the collection holds twice, as `Index.duplicates` finds it."""
        wanted = check_level(level or ("same" if similarity is None else "near"))
        least = None if similarity is None else check_similarity(similarity)
        answer = self._get("/duplicates", level=wanted, similarity=least, limit=MAX_GROUPS, links=True)
        fields = answer["links"]
        links = links_of(fields, [self._item(item) for item in fields["items"]])
        return Duplicates(links, wanted, SIMILARITY if least is None else least)

    def albums(self, n: int = 30) -> Albums:
        """About n albums, as `Index.albums` makes them; the service starts from those it made before."""
        answer = self._get("/albums", n=n, ids=True)
        return Albums(tuple(self._album(fields) for fields in answer["albums"]), tuple(answer["notes"]))

    def outliers(self, n: int = 50) -> Outliers:
        """The n oddest items, as `Index.outliers` finds them; a service compares fewer texts with images."""
        answer = self._get("/outliers", n=n)
        odd = [
            Outlier(self._item(fields["item"]), fields["reason"], fields["says"], fields["score"])
            for fields in answer["outliers"]
        ]
        return Outliers(tuple(odd), tuple(answer["notes"]))

    def sample(self, n: int = 200, kind: SampleKind = "spread", *, seed: int = 0) -> list[Item]:
        """n items that stand for all, as `Index.sample` chooses them."""
        return [self._item(fields) for fields in self._get("/sample", n=n, kind=kind, seed=seed)["items"]]

    def _album(self, fields: Mapping[str, Any]) -> Album:
        return Album(
            fields["id"],
            fields["label"],
            fields["coherence"],
            tuple(self._item(item) for item in fields["covers"]),
            tuple(fields["ids"]),
            tuple(self._album(inner) for inner in fields["albums"]),
        )

    def _get(self, path: str, **parameters: Any) -> Any:
        given = {name: value for name, value in parameters.items() if value is not None}
        return self._transport.call("GET", f"{path}?{urlencode(given)}")

    def _cell_page(self, prefix: Sequence[int | None], start: int, items: int) -> Any:
        """A cell with a page of its children, from `start` on."""
        parameters = {"start": start, "children": PAGE, "samples": items, "child_samples": 0}
        path = f"/codes/{quote(format_prefix(tuple(prefix)))}?{urlencode(parameters)}"
        return self._transport.call("GET", path)

    def _item(self, fields: Mapping[str, Any]) -> Item:
        return remote_item(self._transport, fields)


def _query_fields(query: Query) -> dict[str, Any]:
    """A query as JSON fields. Raises InputError for an image that can't be read."""
    return {
        "text": query.text,
        "image": None if query.image is None else image_to_base64(query.image),
        "instruction": query.instruction,
        "want": None if query.want is None else query.want.value,
        "vector": None if query.vectors is None else query.vectors.to_json(),
        "weight": query.weight if query.parts else None,
        "plus": [_part_fields(part) for part in query.parts if part.weight > 0],
        "minus": [_part_fields(part) for part in query.parts if part.weight < 0],
    }


def _part_fields(part: QueryPart) -> dict[str, Any]:
    """A part of a query as JSON fields; whether it is added or taken away is said elsewhere."""
    image = None if part.image is None else image_to_base64(part.image)
    fields = {"text": part.text, "image": image, "weight": abs(part.weight)}
    return {name: value for name, value in fields.items() if value is not None}
