"""A client of several services: the next one is asked if one does not answer."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Iterator

import pytest

from genius import Client
from genius.errors import GeniusError, InputError
from tests.client.scripted_server import raw_answer, start_server

BUSY = raw_answer(503, b'{"error": {"kind": "busy", "message": "too many requests"}}')


@pytest.fixture
def nobody() -> Iterator[Callable[[], str]]:
    """Gives addresses at which nobody listens, and which nobody else gets meanwhile."""
    with contextlib.ExitStack() as bound:

        def address() -> str:
            silent = bound.enter_context(socket.socket())
            silent.bind(("127.0.0.1", 0))
            return f"http://127.0.0.1:{silent.getsockname()[1]}"

        yield address


def items(count: int) -> bytes:
    return raw_answer(200, b'{"items": %d}' % count)


def test_the_next_address_is_tried_and_then_tried_first(nobody: Callable[[], str]) -> None:
    silent, (busy, first_thread), (working, other) = (
        nobody(),
        start_server([BUSY]),
        start_server([items(1), items(2)]),
    )
    with Client([silent, busy, working]) as client:
        assert [len(client), len(client)] == [1, 2]  # the busy one would not have answered a second time
    first_thread.join()
    other.join()


def test_one_that_stops_answering_is_left_for_the_others() -> None:
    (first, first_thread), (second, other) = start_server([items(1)]), start_server([items(2)])
    with Client([first, second]) as client:
        assert len(client) == 1
        first_thread.join()
        assert len(client) == 2
    other.join()


def test_if_none_answers_all_are_named(nobody: Callable[[], str]) -> None:
    urls = [nobody(), nobody()]
    (busy, thread) = start_server([BUSY])
    with Client([*urls, busy]) as client, pytest.raises(GeniusError) as raised:
        client.about()
    assert str(raised.value).startswith("none of 3 services answers: ")
    assert all(f"{url} does not answer" in str(raised.value) for url in urls)
    assert "too many requests" in str(raised.value)
    thread.join()


def test_an_answer_is_an_answer_even_if_it_is_an_error(nobody: Callable[[], str]) -> None:
    missing = raw_answer(422, b'{"error": {"kind": "invalid", "message": "k is too large"}}')
    url, thread = start_server([missing])
    with Client([url, nobody()]) as client, pytest.raises(InputError, match="k is too large"):
        client.search("red")
    thread.join()


def test_changes_go_to_the_first_alone(nobody: Callable[[], str]) -> None:
    first, (second, thread) = nobody(), start_server([items(1)])
    with Client([first, second]) as client:
        for change in (lambda: client.remove("a"), client.compact):
            with pytest.raises(GeniusError, match=f"{first} does not answer"):
                change()
        assert len(client) == 1
    thread.join()


def test_no_address_at_all() -> None:
    with pytest.raises(InputError, match="there is no address"):
        Client([])
    with pytest.raises(InputError, match="and not at 'nowhere'"):
        Client(["http://127.0.0.1:1", "nowhere"])
