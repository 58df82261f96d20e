"""Index a folder of images and texts, and search it.

python examples/search_folder.py MODEL FOLDER INDEX "a red shoe"
"""

from __future__ import annotations

import sys
from pathlib import Path

import genius


def main(model: str, folder: str, path: str, text: str) -> None:
    """Add what is new in the folder, then print the best hits and why the first was found."""
    exists = Path(path).exists()
    with genius.Index.open(path, model) if exists else genius.Index.create(path, model) as index:
        report = index.add(genius.read(folder))  # unchanged items are recognised and skipped
        print(f"{report.added} added, {report.known} known, {report.failures.count} could not be read")

        hits = index.search(text, k=5)
        for hit in hits:
            print(f"{hit.rank}. {hit.score:.3f}  {hit.item.id}")
        if hits:
            explain(hits[0])


def explain(hit: genius.Hit) -> None:
    """Print the path of codes to a hit."""
    print(f"why {hit.item.id}:")
    for level, (code, log_probability) in enumerate(zip(hit.code, hit.log_probabilities, strict=True), 1):
        print(f"  level {level}: code {code}, log-probability {log_probability:.2f}")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    main(*sys.argv[1:])
