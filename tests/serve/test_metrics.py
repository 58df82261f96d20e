"""Facts and metrics."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from starlette.testclient import TestClient


def test_workers_count_waiting_searches_together(tmp_path: Path) -> None:
    code = "from genius.serve.metrics import Metrics; m = Metrics(); m.set_waiting(3); print(m.to_text(0, 0))"
    environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)}
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, env=environment, check=True)
    assert b"genius_waiting 3.0" in shown.stdout


def test_facts_and_metrics(client: TestClient, served: Path) -> None:
    about = client.get("/about").json()
    assert about["items"] == 99
    assert about["modalities"] == {"image": 39, "text": 36, "pair": 24}
    assert about["levels"] == [3, 16, 16, 16]
    assert client.get("/health").json() == {"status": "ok"}
    client.post("/search", json={"text": "red"})
    client.get("/nowhere")
    counted = client.get("/metrics").text
    assert 'genius_requests_total{method="POST",route="/search",status="200"} 1.0' in counted
    assert "genius_batch_size_count 1.0" in counted
    assert "genius_items 99.0" in counted
    assert 'route="other",status="404"} 1.0' in counted
