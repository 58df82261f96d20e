"""Tables for people: on the terminal and in Markdown, from one description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

Cell = str | int | float | None


@dataclass
class Table:
    """Rows under column names; numbers stand right, texts left."""

    columns: Sequence[str]
    title: str = ""
    rows: list[Sequence[Cell]] = field(default_factory=list)

    def add(self, *cells: Cell) -> None:
        """Add a row."""
        self.rows.append(cells)

    def print(self) -> None:
        """Show the table on the terminal, as wide as it needs to be."""
        from rich import box
        from rich.console import Console
        from rich.table import Table as RichTable

        console = Console()
        tight = self._width() > console.width
        drawn = RichTable(
            title=self.title or None,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_edge=not tight,
            padding=(0, 0) if tight else (0, 1),
        )
        for position, name in enumerate(self.columns):
            numeric = self._numeric(position)
            header = name.replace("-", "-\n").replace("+", "\n+") if tight and numeric else name
            drawn.add_column(header, justify="right" if numeric else "left", overflow="fold")
        for row in self.rows:
            drawn.add_row(*map(_escaped, map(written, row)))
        console.print(drawn)

    def markdown(self) -> str:
        """The table in Markdown."""
        rule = ["---:" if self._numeric(position) else "---" for position in range(len(self.columns))]
        lines = [
            self.columns,
            rule,
            *([written(cell).replace("|", "\\|") for cell in row] for row in self.rows),
        ]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def _width(self) -> int:
        """How many characters a line takes, with three between columns."""
        cells = [self.columns, *([written(cell) for cell in row] for row in self.rows)]
        return sum(max(map(len, column)) + 3 for column in zip(*cells, strict=True))

    def _numeric(self, position: int) -> bool:
        cells = [row[position] for row in self.rows if row[position] is not None]
        return bool(cells) and all(isinstance(cell, int | float) for cell in cells)


def written(cell: Cell) -> str:
    """A cell as text: thousands apart, two places behind the point, nothing for None."""
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:,.2f}"
    return f"{cell:,}" if isinstance(cell, int) else cell


def _escaped(text: str) -> str:
    from rich.markup import escape

    return escape(text)


def size(count: int) -> str:
    """A number of bytes for people.

    >>> size(1_234_567)
    '1.2 MB'
    """
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"
