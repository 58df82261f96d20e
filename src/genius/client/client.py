"""A service's index from Python: the same methods as an index that is open here, over HTTP.

    client = genius.Client("http://127.0.0.1:8000")
    for hit in client.search("a dog on the beach", want="image", k=5): ...

Only the standard library is needed. Errors of the service come as the errors that an index raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from genius.client.remote import address, remote_hits, remote_item
from genius.client.transport import Caller, change_fields, in_base64, requests_of
from genius.data.images import image_source
from genius.data.records import ImageSource, Item, Modality, Query
from genius.decode.onnx_decoder import Precision
from genius.errors import InputError
from genius.index.browse import Cell
from genius.index.decoders import DecoderName
from genius.index.hits import Hits
from genius.index.ingest import Added, Change, id_of
from genius.index.query import several
from genius.index.writer import Compacted
from genius.search.beam import BEAMS
from genius.search.hits import Mode
from genius.serve.atlas import parse_prefix, written

if TYPE_CHECKING:
    from PIL import Image

TOGETHER = 8
"""How many searches are under way at a time; the service does those that arrive together together."""
PAGE = 200
"""How many items are asked for at a time."""


class Client:
    """An index that a service has open.

    Args:
        url: where the service is, as in http://127.0.0.1:8000.
        token: what it wants to be shown.
        timeout: seconds to wait for an answer.
    """

    def __init__(self, url: str, token: str | None = None, *, timeout: float = 60.0) -> None:
        self._caller = Caller(url, token, timeout)

    def close(self) -> None:
        """Let go of the connections."""
        self._caller.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *why: object) -> None:
        self.close()

    def __len__(self) -> int:
        """How many items there are."""
        return int(self.about()["items"])

    def __contains__(self, id: str) -> bool:
        return self.get(id) is not None

    def __iter__(self) -> Iterator[Item]:
        """All items, in the order in which they were added, each once; they may be of different versions."""
        after, seen = 0, set()
        while after is not None:
            page = self._caller.call("GET", f"/items?{urlencode({'after': after, 'limit': PAGE})}")
            for fields in page["items"]:
                if fields["id"] not in seen:  # one that was replaced meanwhile comes again
                    seen.add(fields["id"])
                    yield self._item(fields)
            after = page["next"]

    @property
    def version(self) -> int:
        """It goes up with every change of the index."""
        return int(self.about()["version"])

    def about(self) -> dict[str, Any]:
        """What is served: items, modalities, version, model, levels."""
        found: dict[str, Any] = self._caller.call("GET", "/about")
        return found

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
        """The k items that answer best, as `Index.search` has it, in the ranking that was asked for."""
        if isinstance(query, Query):
            if text is not None or image is not None:
                raise InputError("a Query holds its own text and image: give it alone")
            text, image, want = query.text, query.image, want or query.want
            instruction = query.instruction if instruction is None else instruction
        elif query is not None:
            if text is not None:
                raise InputError("a search takes one text, and there are two")
            text = query
        fields: dict[str, Any] = {
            "text": text,
            "image": None if image is None else in_base64(image_source(image)),
            "instruction": instruction,
            "want": None if want is None else Modality.parse(want).value,
            "k": k,
            "beam": beam,
            "rerank": rerank,
            "mode": mode,
            "decoder": decoder,
            "precision": precision,
            "filter": None if filter is None else dict(filter),
            "exclude": [exclude] if isinstance(exclude, str) else list(exclude),
            "near": near,
        }
        asked = {name: value for name, value in fields.items() if value not in (None, [])}
        answer = self._caller.call("POST", "/search", asked)
        hits, plain = remote_hits(self._caller, asked, answer["hits"]), _plain(rerank, mode)
        found = {name: answer[name] for name in ("notes", "mode", "decoder", "under")}
        return Hits(hits if plain else [], [] if plain else hits, rerank=not plain, **found)

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
        """What answers each query; they may see different versions of the index, if it is being changed."""
        left_out = [exclude] if isinstance(exclude, str) else list(exclude)

        def one(query: Query | str) -> Hits:
            options: dict[str, Any] = {"mode": mode, "decoder": decoder, "precision": precision}
            options |= {"filter": filter, "exclude": left_out}
            return self.search(query, want=want, k=k, beam=beam, rerank=rerank, **options)

        with ThreadPoolExecutor(TOGETHER) as threads:
            return list(threads.map(one, several(queries)))

    # --- items

    def get(self, id: str) -> Item | None:
        """The item with this id, if there is one."""
        fields = self._caller.call("GET", address(id), missing=True)
        return None if fields is None else self._item(fields)

    def code(self, id: str) -> tuple[int, ...] | None:
        """The code of the item with this id, if there is one."""
        fields = self._caller.call("GET", address(id), missing=True)
        return None if fields is None else tuple(fields["code"])

    def add(self, items: Iterable[Item], *, strict: bool = False) -> Added:
        """Add items; one whose id is there takes its place. Says what became of them.

        What can't be read is left out and reported, or raised if `strict`.
        """
        report = Added()
        for some in requests_of(items, partial(report.fail, strict=strict)):
            answer = self._caller.call("POST", "/items", {"items": some, "strict": strict}, reported=True)
            report.added += answer["added"]
            report.replaced += answer["replaced"]
            report.known += answer["known"]
            for failure in answer["failures"]:
                report.fail(failure["id"], InputError(failure["message"]), strict=False)
        return report

    def update(self, changes: Iterable[Change], *, strict: bool = False) -> Added:
        """Change items that are there, as `Index.update` does; an id that is not there is a failure."""
        report = Added()
        for change in changes:
            id = id_of(change)
            try:
                answer = self._caller.call("PATCH", address(id), change_fields(change), missing=True)
                if answer is None:
                    raise InputError("is not in the index: add it")
            except InputError as error:
                report.fail(id, error, strict=strict)
                continue
            report.replaced += answer["replaced"]
            report.known += answer["known"]
        return report

    def remove(self, ids: Iterable[str] | str) -> int:
        """Remove items; says how many there were. Ids that are not there are let pass."""
        removed = 0
        for id in [ids] if isinstance(ids, str) else ids:
            answer = self._caller.call("DELETE", address(id), missing=True)
            removed += 0 if answer is None else int(answer["removed"])
        return removed

    def compact(self) -> Compacted:
        """Make one segment of all, without what was removed."""
        return Compacted(**self._caller.call("POST", "/compact", {}))

    def cell(self, prefix: Sequence[int | None] = (), items: int = 0) -> Cell:
        """What lies under a prefix of codes, with so many of its items."""
        start, children = 0, []
        while True:
            asked = {"start": start, "children": 200, "samples": 0 if start else items, "child_samples": 0}
            place = f"/codes/{quote(written(tuple(prefix)))}?{urlencode(asked)}"
            found = self._caller.call("GET", place)
            if not start:
                first = found
            children += [(child["code"], child["count"]) for child in found["children"]]
            start += 200
            if start >= found["children_total"]:
                some = tuple(self._item(item) for item in first["items"])
                return Cell(parse_prefix(first["prefix"]), first["count"], tuple(children), some)

    def _item(self, fields: Mapping[str, Any]) -> Item:
        return remote_item(self._caller, fields)


def _plain(rerank: bool | None, mode: Mode) -> bool:
    """Whether items come in the order of their codes' probabilities."""
    return mode == "paper" if rerank is None else not rerank
