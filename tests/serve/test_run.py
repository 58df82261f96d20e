"""The command: one process or several on a port, and an end that answers what is due."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import resource
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from typer.testing import CliRunner

import genius
from genius import Client
from genius.cli import app
from genius.cli import search as search_command
from genius.cli import serve as serve_command
from genius.errors import GeniusError, InputError
from genius.serve import server as run
from genius.serve.config import Limits, Settings
from genius.serve.schemas import SearchRequest
from genius.serve.server import serve
from tests.oracles.beam import BEAMS


@contextmanager
def command(*arguments: str | Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`genius serve` as a process, and where it serves."""
    code = "from genius.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, "serve", *map(str, arguments), "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, **environment},
    )
    try:
        assert process.stdout is not None
        yield process, process.stdout.readline().split(" at ")[1].split()[0]
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def until_it_answers(client: Client) -> Client:
    while True:  # the port is open before the index is
        try:
            client.about()
            return client
        except GeniusError:
            time.sleep(0.05)


@pytest.mark.slow
def test_two_workers_share_a_port_and_stop_when_told(served: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with command(served, "--workers", "2", "--token-file", tmp_path / "token") as (process, url):
        client = until_it_answers(Client(url, "secret"))
        hits = client.search_many(["red", "blue"] * 20, k=3)
        assert {len(one) for one in hits} == {3}
        counted = client._transport.call("GET", "/metrics").decode()
        assert 'genius_requests_total{method="POST",route="/search",status="200"} 40.0' in counted
        with pytest.raises(GeniusError, match="token"):
            Client(url).search("red")
        os.kill(workers_of(process.pid)[0], signal.SIGKILL)
        while len(workers_of(process.pid)) < 2:
            time.sleep(0.05)
        assert {len(one) for one in patiently(client, ["red"] * 10)} == {10}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def workers_of(pid: int) -> list[int]:
    """The processes that a process started, but for those that only keep count."""
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(one) for one in found if b"spawn_main" in Path(f"/proc/{one}/cmdline").read_bytes()]


def patiently(client: Client, queries: list[str]) -> list[genius.Hits]:
    """What is found; a connection to a worker that is gone is tried again."""
    while True:
        try:
            return client.search_many(queries)
        except GeniusError:
            time.sleep(0.05)


@pytest.mark.slow
def test_stopping_answers_what_was_accepted(served: Path) -> None:
    with command(served, "--batch", "1") as (process, url), contextlib.ExitStack() as stack:
        until_it_answers(Client(url)).close()
        port = int(url.rpartition(":")[2])

        def connected() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))

        asked = [connected() for _ in range(64)]
        for number, connection in enumerate(asked):
            body = json.dumps({"text": f"red {number}", "k": 50, "explain": True}).encode()
            head = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            connection.sendall(f"POST /search HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
        last = connected()  # it is answered beside the searches, after these were taken in
        last.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert last.recv(1 << 16).startswith(b"HTTP/1.1 200")
        process.send_signal(signal.SIGTERM)
        answered, _, _ = select.select(asked, [], [], 0)
        assert len(answered) < len(asked)  # some are still due
        for connection in asked:
            whole = b"".join(iter(partial(connection.recv, 1 << 16), b""))
            head, _, body = whole.partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), whole
            assert len(json.loads(body)["hits"]) == 50
        assert process.wait(60) in (0, -signal.SIGTERM)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=60)


def test_the_command_has_the_usual_values() -> None:
    """They stand there once more, as the command shows its help without importing what they come from."""
    searching = inspect.signature(search_command.search).parameters
    assert searching["beam"].default == BEAMS == SearchRequest(text="red").beam
    assert inspect.signature(serve_command.serve).parameters["batch"].default == Limits().batch


def test_addresses_that_cannot_be_listened_at(served: Path) -> None:
    for host in ("192.0.2.1", "no such host.invalid"):
        with pytest.raises(InputError, match="cannot listen"):
            serve(Settings(served, host=host))
    for shared in (False, True):  # by another program, and by a service of several workers
        with socket.create_server(("127.0.0.1", 0), reuse_port=shared) as taken:
            for workers in (1, 2):
                with pytest.raises(InputError, match="cannot listen"):
                    serve(Settings(served, port=taken.getsockname()[1], workers=workers))
    with pytest.raises(InputError, match="there is nothing here"):
        serve(Settings(served / "nothing"))


def test_settings_that_cannot_be(served: Path) -> None:
    with pytest.raises(InputError):
        Settings(served, workers=0)


def test_an_empty_token_is_not_taken_for_none(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GENIUS_TOKEN", "")
    done = CliRunner().invoke(app, ["serve", str(served)])
    assert isinstance(done.exception, InputError) and "GENIUS_TOKEN is empty" in str(done.exception)


def test_connections_leave_room_for_the_indexs_files(served: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for limits, allowed in (((600, 600), 344), ((600, 5000), 1024), ((1 << 20, 1 << 20), 1024)):
        monkeypatch.setattr(resource, "getrlimit", lambda which, limits=limits: limits)
        monkeypatch.setattr(resource, "setrlimit", lambda which, limits: None)
        assert run._fit_connections(Settings(served)).limits.connections == allowed
