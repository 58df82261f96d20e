"""Connections, addresses, tokens and errors of the client."""

from __future__ import annotations

import socket

import pytest

from genius import Client
from genius.errors import DamagedError, GeniusError, InputError
from tests.client.scripted_server import raw_answer, start_server


def test_a_service_that_does_not_answer() -> None:
    with socket.socket() as silent, pytest.raises(GeniusError, match="does not answer"):
        silent.bind(("127.0.0.1", 0))  # so that nobody else listens there
        Client(f"http://127.0.0.1:{silent.getsockname()[1]}").search("red")


def test_an_idle_connection_that_was_closed_is_replaced() -> None:
    url, thread = start_server([raw_answer(200, b'{"items": 1}'), raw_answer(200, b'{"items": 2}')])
    with Client(url) as client:
        assert [len(client), len(client)] == [1, 2]
    thread.join()


def test_answers_of_other_programs() -> None:
    error = b'{"error": {"kind": "damaged", "message": "no"}}'
    url, thread = start_server([raw_answer(404, b"<html>"), raw_answer(500, error), b"what?\r\n\r\n"])
    for kind, message in (
        (GeniusError, "not as a service of genius"),
        (DamagedError, "no"),
        (GeniusError, "does not answer"),
    ):
        with Client(url) as client, pytest.raises(kind, match=message) as raised:
            client.about()
        assert raised.type is kind
    thread.join()


@pytest.mark.parametrize(
    "url", ["", "a", "127.0.0.1:8000", "ftp://host", "http://", "http://[::1", "http://host:port"]
)
def test_invalid_addresses_are_refused(url: str) -> None:
    with pytest.raises(InputError, match="address"):
        Client(url)


def test_a_token_that_cannot_be_sent_is_not_shown() -> None:
    with pytest.raises(InputError) as raised:
        Client("http://127.0.0.1", "sec\nret")
    assert "sec" not in str(raised.value)
