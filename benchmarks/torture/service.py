"""A service over a small index, for hostile requests; its model is trained once and kept in out/."""

from __future__ import annotations

import contextlib
import http.client
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from genius import __version__
from genius.data.mbeir import Tree
from genius.encode import pipeline
from genius.index.index import Index
from genius.serve.config import Limits, Settings
from torture.ledger import locked
from torture.supervisor import ROOT

HOME = ROOT / "out" / "torture" / f"service-{__version__}"
NEEDS = ("torch", "onnx", "fastapi", "uvicorn", "pytest", "httpx2")


def index_for_services(folder: Path) -> Path:
    """A copy of an index of the miniature benchmark, with a tiny model that codes."""
    HOME.parent.mkdir(parents=True, exist_ok=True)
    with locked(HOME.parent):  # several workers may want it at a time
        if not (HOME / "index").exists():
            _make(HOME)
    use_cache()
    shutil.copytree(HOME / "index", folder / "index")
    return folder / "index"


def use_cache() -> None:
    """Keep features of hostile content out of the user's cache."""
    pipeline.default_cache = lambda: HOME / "cache"


def _make(home: Path) -> None:
    from tests.coded import train_coded, write_home
    from tests.miniature import write_miniature

    aside = home.with_name("unfinished")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    tree = write_miniature(aside / "M-BEIR")
    train_coded(write_home(aside), tree, "model")
    aside.rename(home)
    use_cache()
    with Index.create(home / "index-part", home / "model") as index:
        index.add(Tree(home / "M-BEIR"))
    (home / "index-part").rename(home / "index")


@contextlib.contextmanager
def running(index: Path, **settings: Any) -> Iterator[int]:
    """A service in a thread; gives its port."""
    from tests.serving import running_service

    with running_service(Settings(index, port=0, **settings)) as address:
        yield int(address.rpartition(":")[2])


def start(index: Path, **settings: Any) -> int:
    """A service that runs as long as this process; gives its port."""
    return _RUNNING.enter_context(running(index, **settings))


_RUNNING = contextlib.ExitStack()
WAIT = 600.0
"""Seconds until an answer is missed: other work of the machine is no failure."""
PATIENT = Limits(seconds=600, filter_seconds=600)
"""Limits under which a busy machine is no reason for an error."""
SHORT = replace(PATIENT, body_seconds=2, head_seconds=2, answer_seconds=4)
"""The same, but slow clients are soon cut off."""


def answer(
    port: int, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    """Status and body of a request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=WAIT)
    try:
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def server_errors(port: int) -> tuple[int, int]:
    """How many requests a service has answered, and how many of them with an error of its own."""
    _, text = answer(port, "GET", "/metrics")
    total = failed = 0
    for line in text.decode().splitlines():
        if line.startswith("genius_requests_total{"):
            count = int(float(line.rpartition(" ")[2]))
            total += count
            failed += count * ('status="5' in line and 'status="503"' not in line)
    return total, failed
