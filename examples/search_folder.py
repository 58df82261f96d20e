"""Index a folder of images and texts, and search it.

python examples/search_folder.py MODEL FOLDER INDEX "a red shoe"
"""

from __future__ import annotations

import argparse
from pathlib import Path

import genius


def main() -> None:
    """Add what is new in the folder, then print the best hits and why the first was found."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("index", type=Path)
    parser.add_argument("text")
    given = parser.parse_args()

    if given.index.exists():
        index = genius.Index.open(given.index, given.model)
    else:
        index = genius.Index.create(given.index, given.model)
    with index:
        report = index.add(genius.read(given.folder))  # unchanged items are recognised and skipped
        print(f"{report.added} added, {report.known} known, {report.failures.count} could not be read")

        hits = index.search(given.text, k=5)
        for hit in hits:
            print(f"{hit.rank}. {hit.score:.3f}  {hit.item.id}")
        if hits:
            print(f"why {hits[0].item.id}:")
            for level, (code, log_probability) in enumerate(
                zip(hits[0].code, hits[0].log_probabilities, strict=True), start=1
            ):
                print(f"  level {level}: code {code}, log-probability {log_probability:.2f}")


if __name__ == "__main__":
    main()
