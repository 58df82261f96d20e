"""`genius serve`: warm-up, connections with limits, workers on one port, and stopping."""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import shutil
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
from starlette.testclient import TestClient

import genius
from genius import Client
from genius.errors import GeniusError, InputError
from genius.serve import server
from genius.serve.config import Limits, Settings
from tests.pictures import square
from tests.serving import Running, to_base64


@contextmanager
def command(*arguments: str | Path, **environment: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """`genius serve` as a process, and its address."""
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


def wait_until_ready(client: Client) -> Client:
    while True:  # the port is open before the index is
        try:
            client.about()
            return client
        except GeniusError:
            time.sleep(0.05)


@pytest.mark.slow
def test_two_workers_share_a_port_and_stop_at_a_signal(served: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret\n")
    with command(served, "--workers", "2", "--token-file", tmp_path / "token") as (process, url):
        client = wait_until_ready(Client(url, "secret"))
        hits = client.search_many(["red", "blue"] * 20, k=3)
        assert {len(one) for one in hits} == {3}
        counted = client._transport.call("GET", "/metrics").decode()
        assert 'genius_requests_total{method="POST",route="/search",status="200"} 40.0' in counted
        with pytest.raises(GeniusError, match="token"):
            Client(url).search("red")
        os.kill(worker_pids(process.pid)[0], signal.SIGKILL)
        while len(worker_pids(process.pid)) < 2:
            time.sleep(0.05)
        assert {len(one) for one in search_with_retries(client, ["red"] * 10)} == {10}
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0


def worker_pids(pid: int) -> list[int]:
    """The worker processes of a service, without multiprocessing's resource tracker."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


def search_with_retries(client: Client, queries: list[str]) -> list[genius.Hits]:
    """Search again while connections to a worker that is gone fail."""
    while True:
        try:
            return client.search_many(queries)
        except GeniusError:
            time.sleep(0.05)


@pytest.mark.slow
def test_a_stopped_service_answers_what_it_accepted(served: Path) -> None:
    with command(served, "--batch", "1") as (process, url), contextlib.ExitStack() as stack:
        wait_until_ready(Client(url)).close()
        port = int(url.rpartition(":")[2])

        def connect() -> socket.socket:
            return stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))

        clients = [connect() for _ in range(64)]
        for number, connection in enumerate(clients):
            body = json.dumps({"text": f"red {number}", "k": 50, "explain": True}).encode()
            head = f"Host: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            connection.sendall(f"POST /search HTTP/1.1\r\n{head}\r\n\r\n".encode() + body)
        last = connect()  # answered beside the searches, after they were accepted
        last.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert last.recv(1 << 16).startswith(b"HTTP/1.1 200")
        process.send_signal(signal.SIGTERM)
        poll = select.poll()  # unlike select, it takes any number of open files
        for connection in clients:
            poll.register(connection, select.POLLIN)
        answered = poll.poll(0)
        assert len(answered) < len(clients)  # some are still due
        for connection in clients:
            whole = b"".join(iter(partial(connection.recv, 1 << 16), b""))
            assert whole.startswith(b"HTTP/1.1 200"), whole
            _, _, content = whole.partition(b"\r\n\r\n")
            assert len(json.loads(content)["hits"]) == 50
        assert process.wait(60) in (0, -signal.SIGTERM)
        with pytest.raises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=60)


def test_addresses_that_cannot_be_listened_at_are_refused(served: Path) -> None:
    for host in ("192.0.2.1", "no such host.invalid"):
        with pytest.raises(InputError, match="cannot listen"):
            server.serve(Settings(served, host=host))
    for shared in (False, True):  # by another program, and by a service of several workers
        with socket.create_server(("127.0.0.1", 0), reuse_port=shared) as taken:
            for workers in (1, 2):
                with pytest.raises(InputError, match="cannot listen"):
                    server.serve(Settings(served, port=taken.getsockname()[1], workers=workers))
    with pytest.raises(InputError, match="there is nothing here"):
        server.serve(Settings(served / "nothing"))


def test_connections_leave_room_for_the_files_of_the_index(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limits, allowed in (((600, 600), 344), ((600, 5000), 1024), ((1 << 20, 1 << 20), 1024)):
        monkeypatch.setattr(resource, "getrlimit", lambda which, limits=limits: limits)
        monkeypatch.setattr(resource, "setrlimit", lambda which, limits: None)
        assert server._fit_connections(Settings(served)).limits.connections == allowed


def test_what_is_measured_meanwhile_ends_with_the_service(
    served: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ended: list[bool] = []
    monkeypatch.setattr(server, "_calibrate", lambda index, stop: ended.append(stop.wait(60)))
    with TestClient(server.open_app(Settings(served)), base_url="http://127.0.0.1:8000"):
        assert not ended
    assert ended == [True]


# In a process of its own, as other tests have compiled functions in this one.
WARM_UP_SCRIPT = """
import gc, json, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from starlette.testclient import TestClient
from genius.serve.server import open_app
from genius.serve.config import Settings

def compiled():
    kernels = [value for value in gc.get_objects() if isinstance(value, Dispatcher)]
    return {
        (kernel.py_func.__module__, kernel.py_func.__name__, str(signature))
        for kernel in kernels
        if kernel.py_func.__module__.startswith("genius.")
        for signature in kernel.signatures
    }

with TestClient(open_app(Settings(Path(sys.argv[1]))), base_url="http://127.0.0.1:8000") as client:
    known, by_requests = compiled(), {}
    before = len(known)
    for method, path, body in json.loads(sys.argv[2]):
        answer = client.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        if more := compiled() - known:
            by_requests[f"{method} {path} {body}"] = sorted(more)
            known |= more
print(json.dumps({"before": before, "by requests": by_requests}))
"""


def test_no_request_waits_for_a_compiler(served: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    shutil.copytree(served, index)
    image = to_base64(square("red"))
    new = [{"id": "a", "text": "red"}, {"id": "b", "image": image}]
    searches: list[dict[str, object]] = [
        {"text": "red"},
        {"text": "red", "image": image},
    ]
    searches += [{"text": "red", "mode": mode, "want": "text"} for mode in ("paper", "exact", "safe", "fast")]
    searches += [{"text": "red", "exclude": ["a"]}, {"text": "red", "filter": {"added": 1}}, {"near": "b"}]
    requests = [
        ("POST", "/items", {"items": new[:1]}),
        *(("POST", "/search", search) for search in searches[:-1]),
        ("POST", "/items", {"items": [{**new[1], "metadata": {"added": 1}}]}),
        *(("POST", "/search", search) for search in searches),
        ("PATCH", "/items/a", {"text": "blue"}),
        ("DELETE", "/items/a", None),
        ("POST", "/search", searches[0]),
        ("POST", "/compact", {}),
        ("POST", "/search", searches[0]),
    ]
    command = [sys.executable, "-c", WARM_UP_SCRIPT, str(index), json.dumps(requests)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    compiled = json.loads(output)
    assert compiled["before"]
    assert compiled["by requests"] == {}


def test_a_client_that_sends_too_slowly_is_refused(running: Running) -> None:
    url = running(limits=Limits(head_seconds=0.1, body_seconds=0.1))
    port = int(url.rpartition(":")[2])
    head = b"POST /search HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    for part in (b"", b"GET /hea", head, head + b"Content-Length: 100\r\n\r\n{"):
        with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
            connection.sendall(part)
            answer = b"".join(iter(lambda: connection.recv(4096), b""))  # until the service closes it
        assert answer.startswith(b"HTTP/1.1 408"), answer
        assert b'"kind":"slow"' in answer


def test_a_client_that_never_reads_its_answer_is_disconnected(running: Running) -> None:
    port = int(running(limits=Limits(connections=1, answer_seconds=0.1)).rpartition(":")[2])
    request = b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as greedy:
        greedy.sendall(request * 2000)  # answers far beyond what the system buffers
        answer = b"HTTP/1.1 503"
        while answer == b"HTTP/1.1 503":  # until the only connection is closed
            with socket.create_connection(("127.0.0.1", port), timeout=20) as other:
                other.sendall(request)
                answer = other.recv(12)
    assert answer == b"HTTP/1.1 200"


def test_an_answer_that_is_read_slowly_comes_whole(running: Running) -> None:
    port = int(running().rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=20) as connection:
        connection.sendall(b"GET /openapi.json HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        whole = b"".join(iter(lambda: connection.recv(50), b""))
    head, _, body = whole.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200")
    assert json.loads(body)["info"]["title"] == "genius"


def test_one_connection_too_many_is_refused(running: Running) -> None:
    port = int(running(limits=Limits(connections=2)).rpartition(":")[2])
    held = [socket.create_connection(("127.0.0.1", port), timeout=20) for _ in range(2)]
    for connection in held:  # they are accepted in their order
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert connection.recv(12) == b"HTTP/1.1 200"
    with socket.create_connection(("127.0.0.1", port), timeout=20) as third:
        assert third.recv(12) == b"HTTP/1.1 503"
    for connection in held:
        connection.close()
