"""HTTP calls to a service: kept-alive connections, its errors as ours, and items as JSON."""

from __future__ import annotations

import base64
import http.client
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import quote, urlsplit

import orjson

from genius.data.images import image_source
from genius.data.records import ImageSource, Item
from genius.errors import DamagedError, GeniusError, InputError, MismatchError
from genius.index.ingest import Change
from genius.serve.config import MAX_ITEMS, MEGABYTE, clean_token

NUMBER_BYTES = 20
"""How long a number of a vector is in JSON, about."""
BATCH_BYTES = 16 * MEGABYTE
"""About how many bytes of items are sent in one request."""

_INPUT_STATUSES = (400, 404, 413, 415, 422)
_ERRORS: dict[str, type[GeniusError]] = {"damaged": DamagedError, "mismatch": MismatchError}
"""The errors of a service that have classes of their own, by kind."""


class UnavailableError(GeniusError):
    """A service does not answer, or not now."""


class Transport:
    """Calls one service, from any number of threads; idle connections are kept for the next calls."""

    def __init__(self, url: str, token: str | None, timeout: float) -> None:
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError as error:
            raise InputError(f"{url!r} is no address: {error}") from None
        if parts.scheme not in ("http", "https") or not host:
            raise InputError(f"a service is at an address like http://127.0.0.1:8000, and not at {url!r}")
        self.url, self._path, self._timeout = url, parts.path.rstrip("/"), timeout
        self._secure, self._host, self._port = parts.scheme == "https", host, port
        self._headers = {} if token is None else {"Authorization": f"Bearer {clean_token(token)}"}
        self._idle: list[http.client.HTTPConnection] = []
        self._finalizer = weakref.finalize(self, _close, self._idle)

    def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        may_be_missing: bool = False,
        accept_report: bool = False,
    ) -> Any:
        """The answer to a request, decoded if it is JSON.

        A 404 is None if the thing `may_be_missing`. With `accept_report`, an error that lists the failures of
        a request is returned as its answer. Any other error is raised as the GeniusError that it stands for.
        """
        headers = {**self._headers, "Accept": "application/json"}
        content = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            try:
                content = orjson.dumps(body)
            except (TypeError, orjson.JSONEncodeError) as error:
                raise InputError(f"this can't be sent: {error}") from None
        status, media_type, answer = self._send(method, self._path + path, content, headers)
        if may_be_missing and status == 404:
            return None
        if accept_report and status == 400 and b'"failures"' in answer:
            return orjson.loads(answer)
        if status != 200:
            raise self._error(status, answer)
        return orjson.loads(answer) if media_type.startswith("application/json") else answer

    def close(self) -> None:
        """Close the idle connections."""
        _close(self._idle)

    def _send(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, bytes]:
        """The status, the media type and the body of an answer."""
        connection = self._connection()
        reused = connection.sock is not None
        while True:
            try:
                connection.request(method, path, content, headers)
                response = connection.getresponse()
                answer = response.status, response.headers.get("Content-Type", ""), response.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                connection.close()
                if not reused or (method == "POST" and path.endswith("/items")):
                    raise self._unreachable(error) from error
                reused = False  # the service had closed an idle connection: try once more, with a new one
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise self._unreachable(error) from error
            else:
                self._idle.append(connection)
                return answer

    def _connection(self) -> http.client.HTTPConnection:
        try:
            return self._idle.pop()
        except IndexError:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            return kind(self._host, self._port, timeout=self._timeout)

    def _unreachable(self, error: Exception) -> UnavailableError:
        return UnavailableError(f"the service at {self.url} does not answer: {error or type(error).__name__}")

    def _error(self, status: int, answer: bytes) -> GeniusError:
        """The error that an answer stands for."""
        try:
            detail = orjson.loads(answer)["error"]
            kind, message = str(detail["kind"]), str(detail["message"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return GeniusError(f"{self.url} answers {status}, and not as a service of genius does")
        if status in _INPUT_STATUSES:
            return InputError(message)
        return _ERRORS.get(kind, UnavailableError if status == 503 else GeniusError)(message)


def _close(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


def item_path(id: str) -> str:
    """The path of an item."""
    return f"/items/{quote(id, safe='')}"


def image_to_base64(image: ImageSource) -> str:
    """The bytes of an image as base64. Raises InputError if they can't be read."""
    return base64.b64encode(image.read()).decode()


def change_to_dict(change: Change) -> dict[str, Any]:
    """The JSON fields of a change, without its id. Raises InputError for an image that can't be read."""
    if isinstance(change, Item):
        fields: dict[str, Any] = {"text": change.text, "image": change.image, "metadata": change.metadata}
        fields = {name: value for name, value in fields.items() if value}
    else:
        fields = {name: value for name, value in change.items() if name != "id"}
    if fields.get("image") is not None:
        fields["image"] = image_to_base64(image_source(fields["image"]))
    if fields.get("metadata") is not None:
        fields["metadata"] = dict(fields["metadata"])
    return fields


def batch_items(
    items: Iterable[Item], on_failure: Callable[[str, InputError], None]
) -> Iterator[list[dict[str, Any]]]:
    """The JSON fields of items, in batches that fit into one request.

    An item whose image can't be read goes to `on_failure` with its id. Raises InputError for what is no item.
    """
    batch: list[dict[str, Any]] = []
    batch_size = 0
    for item in items:
        if not isinstance(item, Item):
            raise InputError(f"an index takes items, and this is a {type(item).__name__}")
        fields: dict[str, Any] = {"id": item.id, "text": item.text, "metadata": dict(item.metadata)}
        try:
            fields |= {} if item.image is None else {"image": image_to_base64(item.image)}
            fields |= {} if item.vectors is None else {"vector": item.vectors.to_json()}
        except InputError as error:
            on_failure(item.id, error)
            continue
        numbers = 0 if item.vectors is None else 2 * item.vectors.width
        size = len(fields.get("image", "")) + len(item.text or "") + NUMBER_BYTES * numbers
        if batch and (len(batch) == MAX_ITEMS or batch_size + size > BATCH_BYTES):
            yield batch
            batch, batch_size = [], 0
        batch.append(fields)
        batch_size += size
    if batch:
        yield batch
