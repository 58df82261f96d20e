"""A service that is ready has compiled what its requests need: the first of each kind waits for nothing."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image

from genius.data.images import image_source

# In a process of its own: what other tests have run would be compiled already.
SCRIPT = """
import gc, json, sys
from pathlib import Path
from numba.core.dispatcher import Dispatcher
from starlette.testclient import TestClient
from genius.serve.server import open_app
from genius.serve.config import Settings

def kinds():
    loops = [one for one in gc.get_objects() if isinstance(one, Dispatcher)]
    return {
        (loop.py_func.__module__, loop.py_func.__name__, str(kind))
        for loop in loops
        if loop.py_func.__module__.startswith("genius.")
        for kind in loop.signatures
    }

with TestClient(open_app(Settings(Path(sys.argv[1]))), base_url="http://127.0.0.1:8000") as client:
    known, found = kinds(), {}
    ready = len(known)
    for method, path, body in json.loads(sys.argv[2]):
        answer = client.request(method, path, json=body)
        assert answer.status_code == 200, answer.text
        if more := kinds() - known:
            found[f"{method} {path} {body}"] = sorted(more)
            known |= more
print(json.dumps({"ready": ready, "compiled by": found}))
"""


def test_no_request_waits_for_a_compiler(served: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    shutil.copytree(served, index)
    picture = base64.b64encode(image_source(Image.new("RGB", (9, 9), "red")).read()).decode()
    new = [{"id": "a", "text": "red"}, {"id": "b", "image": picture}]
    searches: list[dict[str, object]] = [
        {"text": "red"},
        {"text": "red", "image": picture},
        *({"text": "red", "mode": mode, "want": "text"} for mode in ("paper", "exact", "safe", "fast")),
        {"text": "red", "exclude": ["a"]},
        {"text": "red", "filter": {"added": 1}},
        {"near": "b"},
    ]
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
    command = [sys.executable, "-c", SCRIPT, str(index), json.dumps(requests)]
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    told = json.loads(said)
    assert told["ready"]
    assert told["compiled by"] == {}
