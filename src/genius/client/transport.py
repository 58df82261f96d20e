"""Calls to a service: connections that are kept, and its refusals as our errors."""

from __future__ import annotations

import base64
import http.client
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import orjson

from genius.data.images import image_source
from genius.data.records import ImageSource, Item
from genius.errors import DamagedError, GeniusError, InputError, MismatchError
from genius.index.ingest import Change
from genius.serve.config import MEGABYTE, MOST_ITEMS, plain_token

_KINDS: dict[str, type[GeniusError]] = {"damaged": DamagedError, "mismatch": MismatchError}


class Caller:
    """Speaks to one service, for any number of threads; connections are kept for whoever is next."""

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
        self._headers = {} if token is None else {"Authorization": f"Bearer {plain_token(token)}"}
        self._idle: list[http.client.HTTPConnection] = []
        self._closing = weakref.finalize(self, _close, self._idle)

    def call(
        self, method: str, path: str, body: Any = None, *, missing: bool = False, reported: bool = False
    ) -> Any:
        """The answer, decoded if it is JSON; None for something that is not there, if it may be `missing`.

        With `reported`, a refusal that reports what failed is an answer too.
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
        if missing and status == 404:
            return None
        if reported and status == 400 and b'"failures"' in answer:
            return orjson.loads(answer)
        if status != 200:
            raise self._error(status, answer)
        return orjson.loads(answer) if media_type.startswith("application/json") else answer

    def close(self) -> None:
        """Let go of the connections that are kept."""
        _close(self._idle)

    def _send(
        self, method: str, path: str, content: bytes | None, headers: dict[str, str]
    ) -> tuple[int, str, bytes]:
        connection = self._connection()
        kept = connection.sock is not None
        while True:
            try:
                connection.request(method, path, content, headers)
                answer = connection.getresponse()
                found = answer.status, answer.headers.get("Content-Type", ""), answer.read()
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                connection.close()
                if not kept or (method == "POST" and path.endswith("/items")):
                    raise self._unreachable(error) from error
                kept = False  # the service had closed a connection that was kept: once more, with a new one
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                raise self._unreachable(error) from error
            else:
                self._idle.append(connection)
                return found

    def _connection(self) -> http.client.HTTPConnection:
        try:
            return self._idle.pop()
        except IndexError:
            kind = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
            return kind(self._host, self._port, timeout=self._timeout)

    def _unreachable(self, error: Exception) -> GeniusError:
        return GeniusError(f"the service at {self.url} does not answer: {error or type(error).__name__}")

    def _error(self, status: int, answer: bytes) -> GeniusError:
        try:
            said = orjson.loads(answer)["error"]
            kind, message = str(said["kind"]), str(said["message"])
        except (orjson.JSONDecodeError, KeyError, TypeError):
            return GeniusError(f"{self.url} answers {status}, and not as a service of genius does")
        if status in (400, 404, 413, 415, 422):
            return InputError(message)
        return _KINDS.get(kind, GeniusError)(message)


def _close(connections: list[http.client.HTTPConnection]) -> None:
    while connections:
        connections.pop().close()


BODY = 16 * MEGABYTE
"""How many bytes of items are sent at a time, about."""


def in_base64(image: ImageSource) -> str:
    """A picture's bytes. Raises InputError if they can't be had."""
    return base64.b64encode(image.read()).decode()


def change_fields(change: Change) -> dict[str, Any]:
    """A change, without its id. Raises InputError for a picture that can't be had."""
    if isinstance(change, Item):
        fields: dict[str, Any] = {"text": change.text, "image": change.image, "metadata": change.metadata}
        fields = {name: value for name, value in fields.items() if value}
    else:
        fields = {name: value for name, value in change.items() if name != "id"}
    if fields.get("image") is not None:
        fields["image"] = in_base64(image_source(fields["image"]))
    if fields.get("metadata") is not None:
        fields["metadata"] = dict(fields["metadata"])
    return fields


def requests_of(
    items: Iterable[Item], fail: Callable[[str, InputError], None]
) -> Iterator[list[dict[str, Any]]]:
    """Items, in requests that are not too large; one whose picture can't be had goes to `fail`."""
    chunk: list[dict[str, Any]] = []
    size = 0
    for item in items:
        if not isinstance(item, Item):
            raise InputError(f"an index takes items, and this is a {type(item).__name__}")
        fields: dict[str, Any] = {"id": item.id, "text": item.text, "metadata": dict(item.metadata)}
        try:
            fields |= {} if item.image is None else {"image": in_base64(item.image)}
        except InputError as error:
            fail(item.id, error)
            continue
        bytes_of = len(fields.get("image", "")) + len(item.text or "")
        if chunk and (len(chunk) == MOST_ITEMS or size + bytes_of > BODY):
            yield chunk
            chunk, size = [], 0
        chunk.append(fields)
        size += bytes_of
    if chunk:
        yield chunk
