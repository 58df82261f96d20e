"""Drift of a real collection: two random halves, a half with a new group, and another collection.

    python benchmarks/drift.py SOURCE --key type --group watch [--beside OTHER] [--most 3000] [--json]

SOURCE is a collection whose items have a metadata key with their group. The rows: drift between two random
halves, of which nothing should be told; between halves of which only the new one has items of --group, which
should be named as cells that appeared; and between the first half and items of another collection, OTHER.
"""

from __future__ import annotations

import itertools
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from figures import print_table
from options import add_json, script_parser

from genius import Index
from genius.data.read import read
from genius.data.records import Item
from genius.display import Table

SHARE = 0.08
"""Of the new items, those of the new group, at most."""


def main() -> None:
    """Read, compare, print."""
    parser = script_parser(__doc__)
    parser.add_argument("source", type=Path)
    parser.add_argument("--key", required=True, help="the metadata key of the groups")
    parser.add_argument("--group", required=True, help="the group that is new")
    parser.add_argument("--beside", type=Path, metavar="OTHER", help="another collection")
    parser.add_argument("-m", "--model", default="photo", help="default: photo")
    parser.add_argument("--most", type=int, default=3000, help="items at most; default: 3,000")
    add_json(parser)
    options = parser.parse_args()
    items = list(read(options.source))
    np.random.default_rng(0).shuffle(items)
    others = list(itertools.islice(read(options.beside), options.most // 2)) if options.beside else []
    new_group = [item for item in items if str(item.metadata.get(options.key)) == options.group]
    if not new_group:
        parser.error(f"no item has the {options.key} {options.group!r}")
    rows = measure(items, new_group, others, options.most // 2, options.model)
    table = Table(tuple(rows[0]))
    for row in rows:
        table.add(*row.values())
    print_table(table, rows, as_json=options.json)


def measure(
    items: list[Item], new_group: list[Item], others: list[Item], half: int, model: str
) -> list[dict[str, Any]]:
    """A row for each comparison."""
    ids = {item.id for item in new_group}
    rest = [item for item in items if item.id not in ids]
    added = new_group[: round(SHARE * half)]
    pairs = {
        "two random halves": (items[:half], items[half : 2 * half]),
        "a new group": (rest[:half], [*rest[half : 2 * half - len(added)], *added]),
        "another collection": (items[:half], others),
    }
    return [
        {"what": name, **drift_between(old, new, model)} for name, (old, new) in pairs.items() if old and new
    ]


def drift_between(old: list[Item], new: list[Item], model: str) -> dict[str, Any]:
    """The verdict of two collections, as `genius drift` gives it."""
    with (
        tempfile.TemporaryDirectory(prefix="genius-bench-") as folder,
        Index.create(Path(folder, "old"), model) as before,
        Index.create(Path(folder, "new"), model) as after,
    ):
        before.add(old)
        after.add(new)
        drift = before.drift(after)
    return {"old": len(old), "new": len(new), "verdict": drift.verdict, "says": drift.says}


if __name__ == "__main__":
    main()
