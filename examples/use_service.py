"""Start a service over an index, and search and change it by the client.

python examples/use_service.py INDEX "a red shoe"
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import genius


def main(index: str, text: str) -> None:
    """Search, add an item, find it, and remove it again."""
    with service(index) as url, genius.Client(url, timeout=300) as client:
        print(f"{len(client)} items at {url}")
        for hit in client.search(text, k=3):
            print(f"{hit.rank}. {hit.score:.3f}  {hit.item.id}")

        client.add([genius.Item("an example", text, metadata={"price": 30})])
        hits = client.search(text, want="text", filter={"price": 30}, k=1)
        print("found what was just added:", hits[0].item.id)
        client.remove(["an example"])


@contextmanager
def service(index: str) -> Iterator[str]:
    """`genius serve` on a free port while the block runs; gives its address."""
    command = [str(Path(sys.executable).with_name("genius")), "serve", index, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()  # "index/: 22,862 items at http://127.0.0.1:8000 (Ctrl-C stops it)"
        try:
            yield line.split(" at ")[1].split()[0]
        finally:
            process.terminate()  # what was accepted is still answered


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
