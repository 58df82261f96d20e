"""The cost of facets: counting the metadata of a made-up catalogue, beside the same counts by SQL.

    python benchmarks/facets.py [--items 200000] [--rounds 3] [--json]

The items have six keys each: a price, a date, a brand, a colour, a yes or no, and a number of their own. SQL
counts every value of every key by GROUP BY, which is what facets would cost without code of our own.
"""

from __future__ import annotations

import random
import sqlite3
import tempfile
from pathlib import Path

from figures import median_seconds, print_figures
from options import add_json, script_parser

from genius.data.records import Item, Scalar
from genius.index.catalogue import FILE, Catalogue, SegmentEntry
from genius.index.entries import entry_of
from genius.index.facets import read_facets

_GROUPED = "SELECT key, type, atom, count(*) FROM items, json_each(metadata) GROUP BY key, type, atom"


def write_catalogue(folder: Path, count: int) -> Catalogue:
    """A catalogue of products; nothing of it can be searched."""
    Catalogue.create(folder, {})
    catalogue, numbers = Catalogue(folder), random.Random(0)
    entries = [entry_of(_product(number, numbers), None) for number in range(count)]
    catalogue.commit(entries, SegmentEntry(1, count, ""))
    return catalogue


def _product(number: int, numbers: random.Random) -> Item:
    metadata: dict[str, Scalar] = {
        "price": round(numbers.expovariate(0.02), 2),
        "since": f"20{numbers.randint(10, 25)}-{numbers.randint(1, 12):02}-{numbers.randint(1, 28):02}",
        "brand": f"brand {int(numbers.expovariate(0.05))}",
        "colour": numbers.choice(("red", "blue", "green", "black", "white")),
        "available": numbers.random() < 0.7,
        "sku": f"SKU-{number}",
    }
    return Item(str(number), "A product.", metadata=metadata)


def main() -> None:
    """Make the catalogue, count in turns, print."""
    parser = script_parser(__doc__)
    parser.add_argument("--items", type=int, default=200_000, help="default: 200,000")
    parser.add_argument("--rounds", type=int, default=3, help="default: 3")
    add_json(parser)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="genius-bench-") as folder:
        catalogue = write_catalogue(Path(folder), options.items)
        connection = sqlite3.connect(Path(folder, FILE))
        works = {
            "facets": lambda: read_facets(catalogue),
            "sql": lambda: connection.execute(_GROUPED).fetchall(),
        }
        times = median_seconds(works, options.rounds)
        connection.close()
        catalogue.close()
    figures = {
        "items": options.items,
        "facets_ms": round(1000 * times["facets"], 1),
        "ratio_to_sql": round(times["facets"] / times["sql"], 2),
    }
    print_figures(figures, as_json=options.json)


if __name__ == "__main__":
    main()
