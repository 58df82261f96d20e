"""A service over an index of the miniature benchmark, with a tiny model."""

from __future__ import annotations

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
from genius.serve.app import create_app
from genius.serve.config import Settings
from genius.serve.server import ServerConfig

Serve = Callable[..., TestClient]


@pytest.fixture(autouse=True)
def own_cache(coded_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "default_cache", lambda: coded_home / "cache")


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
def serve(served: Path) -> Iterator[Serve]:
    """Starts services, by default of the index that tests share, and stops them."""
    started: list[TestClient] = []

    def start(path: Path = served, **options: Any) -> TestClient:
        settings = Settings(path, **options)
        client = TestClient(
            create_app(Index.open(path), settings),
            base_url="http://127.0.0.1:8000",
            raise_server_exceptions=True,
        )
        client.__enter__()
        started.append(client)
        return client

    yield start
    for client in started:
        client.__exit__(None, None, None)


@pytest.fixture
def client(serve: Serve) -> TestClient:
    """A service that only reads."""
    return serve(read_only=True)


@pytest.fixture
def own_index(coded_model: Path, tmp_path: Path) -> Path:
    """An index that is free to be changed, empty."""
    path = tmp_path / "index"
    Index.create(path, coded_model).close()
    return path


@pytest.fixture
def running(served: Path) -> Iterator[Callable[..., str]]:
    """Starts services on ports of their own, in threads; gives their addresses."""
    with contextlib.ExitStack() as stack:

        def start(path: Path = served, **options: Any) -> str:
            return stack.enter_context(running_service(Settings(path, port=0, **options)))

        yield start


@contextlib.contextmanager
def running_service(settings: Settings) -> Iterator[str]:
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
