"""The service against its own OpenAPI description: no generated request breaks it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from starlette.testclient import TestClient

from genius import Index, Item
from genius.serve.app import create_app
from genius.serve.config import Settings

pytest.importorskip("schemathesis", reason="schemathesis is not installed (pip install .[dev])")
import schemathesis
from schemathesis.core.result import Ok

EXAMPLES = 12


@pytest.mark.filterwarnings("ignore")
def test_no_generated_request_breaks_the_service(coded_model: Path, coded_home: Path, tmp_path: Path) -> None:
    with Index.create(tmp_path / "index", coded_model) as index:
        index.add(
            [Item(str(n), f"square {n}", metadata={"n": n}) for n in range(5)], cache=coded_home / "cache"
        )
    app = create_app(Index.open(tmp_path / "index"), Settings(tmp_path / "index", host="0.0.0.0"))
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = []
    for parsed in schema.get_all_operations():
        assert isinstance(parsed, Ok), parsed.err()
        operations.append(parsed.ok())
    routes = {(operation.method, operation.path) for operation in operations}
    assert routes >= {("post", "/search"), ("delete", "/items/{id}")}
    checked = settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        derandomize=True,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with TestClient(app):  # starts and stops it
        for operation in operations:
            checked(requests_like(operation, schemathesis.GenerationMode.POSITIVE))()
            if {"parameters", "requestBody"} & set(operation.definition.raw):  # or nothing can be wrong
                checked(requests_like(operation, schemathesis.GenerationMode.NEGATIVE))()


def requests_like(operation: Any, mode: schemathesis.GenerationMode) -> Callable[[], None]:
    @given(case=operation.as_strategy(generation_mode=mode))
    def check(case: schemathesis.Case[Any]) -> None:
        answer = case.call()
        assert answer.status_code < 500, (case.as_curl_command(), answer.text)
        if answer.status_code >= 400:
            assert set(answer.json()["error"]) == {"kind", "message"}

    return check
