"""Index a table of products, search it under a filter, and find more like the best hit.

The table is a CSV with the columns id, text, image (a path below its folder, may be empty) and price.

python examples/search_catalogue.py MODEL TABLE.csv INDEX "a red shoe" --below 50
"""

from __future__ import annotations

import argparse
from pathlib import Path

import genius


def main() -> None:
    """Add what is new in the table, then search."""
    parser = argparse.ArgumentParser()
    for name in ("model", "table", "index", "text"):
        parser.add_argument(name)
    parser.add_argument("--below", type=float, default=50.0, metavar="PRICE")
    given = parser.parse_args()

    if not Path(given.index).exists():
        genius.Index.create(given.index, given.model).close()
    with genius.Index.open(given.index, given.model) as index:
        index.add(genius.read(given.table), strict=True)  # a row that can't be read is an error here
        affordable = {"price": {"$lt": given.below}}
        hits = index.search(given.text, k=3, filter=affordable)
        show(f"{given.text!r} below {given.below:g}", hits)
        if hits:
            best = hits[0].item.id
            show(f"like {best}", index.search(near=best, k=3, filter=affordable))


def show(title: str, hits: genius.Hits) -> None:
    """Print hits with their prices."""
    print(f"{title}:")
    for hit in hits:
        print(f"  {hit.item.id}  {hit.item.metadata['price']}  {hit.item.text}")


if __name__ == "__main__":
    main()
