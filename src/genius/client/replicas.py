"""Several services of the same index: what one does not answer, the next does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from genius.client.transport import Transport, UnavailableError
from genius.errors import GeniusError, InputError


class Replicas:
    """Calls the service that answered last, and if it does not answer the others, in order."""

    def __init__(self, urls: Sequence[str], token: str | None, timeout: float) -> None:
        if not urls:
            raise InputError("there is no address: a service is at one like http://127.0.0.1:8000")
        self._transports = [Transport(url, token, timeout) for url in urls]
        self._current = 0

    @property
    def url(self) -> str:
        """The address of the service that answered last."""
        return self._transports[self._current].url

    def call(self, method: str, path: str, body: Any = None, **options: bool) -> Any:
        """The answer of the first that answers; see `Transport.call`.

        What changes items goes to the first service alone, as nobody can tell whether one that did not answer
        has done it.

        Raises GeniusError that says which were asked, if none answers.
        """
        count, errors = len(self._transports), []
        order = [(self._current + number) % count for number in range(count)]
        for number in [0] if _is_change(method, path) else order:
            try:
                answer = self._transports[number].call(method, path, body, **options)
            except UnavailableError as error:
                errors.append(error)
            else:
                self._current = number
                return answer
        what = f"none of {count} services answers: " if len(errors) > 1 else ""
        raise GeniusError(what + "; ".join(map(str, errors))) from errors[-1]

    def close(self) -> None:
        """Close all connections."""
        for transport in self._transports:
            transport.close()


def _is_change(method: str, path: str) -> bool:
    return method != "GET" and (path.partition("?")[0] == "/compact" or path.startswith("/items"))
