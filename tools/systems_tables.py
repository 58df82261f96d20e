"""Puts the tables of `benchmarks/systems.py` into docs/reproduce.md: `make pages` runs it.

python -m tools.systems_tables docs/reproduce.md

The tables are those that the benchmark wrote last, `python benchmarks/systems.py --tree TREE --final --table
--figures research/systems`; making them again needs the benchmark's tree, copying them does not.
"""

from __future__ import annotations

import sys
from pathlib import Path

TABLES = Path(__file__).parents[1] / "research" / "systems" / "tables-test.md"
BEGIN, END = (
    "<!-- the tables of benchmarks/systems.py: begin -->",
    "<!-- the tables of benchmarks/systems.py: end -->",
)


def with_tables(page: str, tables: str) -> str:
    """The page with these tables in place of those that it has.

    Raises ValueError if it has no place for them.
    """
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no lines {BEGIN!r} and {END!r}")
    return f"{before}{BEGIN}\n\n{tables.strip()}\n\n{END}{after}"


def main(path: Path) -> None:
    """Write the page."""
    page = path.read_text("utf-8")
    path.write_text(with_tables(page, TABLES.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
