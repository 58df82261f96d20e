"""Services over an index of the miniature benchmark, for tests/serve and tests/client."""

from __future__ import annotations

import base64
import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("fastapi")
pytest.importorskip("httpx2")

import uvicorn
from starlette.testclient import TestClient

from genius import Index
from genius.data.mbeir import Tree
from genius.encode import pipeline
from genius.serve import thumbnail_files
from genius.serve.app import create_app
from genius.serve.config import Settings
from genius.serve.server import ServerConfig

Serve = Callable[..., TestClient]
Running = Callable[..., str]


def hit_ids(answer: Any) -> list[str]:
    """The ids of the hits of a successful search."""
    assert answer.status_code == 200, answer.text
    return [hit["item"]["id"] for hit in answer.json()["hits"]]


def refused(answer: Any, *statuses: int) -> dict[str, str]:
    """The error of an answer with one of these statuses."""
    assert answer.status_code in statuses, (answer.status_code, answer.text)
    error: dict[str, str] = answer.json()["error"]
    assert set(error) == {"kind", "message"}
    assert "Traceback" not in answer.text
    return error


def to_base64(content: bytes) -> str:
    return base64.b64encode(content).decode()


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")
    monkeypatch.setattr(thumbnail_files, "default_folder", lambda: coded_home / "thumbnails")


@pytest.fixture(scope="session")
def served(
    coded_model: Path, coded_home: Path, miniature: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An index that several tests search; don't write into it."""
    path = tmp_path_factory.mktemp("served") / "index"
    with Index.create(path, coded_model) as index:
        index.add(Tree(miniature), cache=coded_home / "cache")
    return path


@pytest.fixture
def own_index(coded_model: Path, tmp_path: Path) -> Path:
    """An empty index of the test's own."""
    path = tmp_path / "index"
    Index.create(path, coded_model).close()
    return path


@pytest.fixture
def serve(served: Path) -> Iterator[Serve]:
    """Starts services in this process, by default of the shared index, and stops them."""
    with contextlib.ExitStack() as stack:

        def start(path: Path = served, **options: Any) -> TestClient:
            client = TestClient(
                create_app(Index.open(path), Settings(path, **options)),
                base_url="http://127.0.0.1:8000",
                raise_server_exceptions=True,
            )
            return stack.enter_context(client)

        yield start


@pytest.fixture
def client(serve: Serve) -> TestClient:
    """A read-only service of the shared index."""
    return serve(read_only=True)


@pytest.fixture
def running(served: Path) -> Iterator[Running]:
    """Starts services on ports of their own, in threads, and stops them; returns their addresses."""
    with contextlib.ExitStack() as stack:

        def start(path: Path = served, **options: Any) -> str:
            return stack.enter_context(running_service(Settings(path, port=0, **options)))

        yield start


@contextlib.contextmanager
def running_service(settings: Settings) -> Iterator[str]:
    """A service in a thread; gives its address."""
    listening = socket.create_server(("127.0.0.1", 0))
    config = ServerConfig(
        create_app(Index.open(settings.index), settings),
        settings.limits,
        lifespan="on",
        ws="none",
        log_config=None,
        access_log=False,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()
