"""Tables for people: on the terminal and in Markdown, from one description."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

Cell = str | int | float | None


@dataclass
class Table:
    """Rows under column names; numbers stand right, texts left."""

    columns: Sequence[str]
    title: str = ""
    rows: list[Sequence[Cell]] = field(default_factory=list)
    optional: int = 0
    """How many of the last columns a terminal without room for them does not show."""

    def add(self, *cells: Cell) -> None:
        """Add a row."""
        self.rows.append(cells)

    def print(self) -> None:
        """Show the table on the terminal; one that is wider than that, in bands of columns."""
        from rich.console import Console

        self._print(Console())

    def text(self, width: int) -> str:
        """What `print` shows on a terminal that is `width` characters wide, without colours."""
        from io import StringIO

        from rich.console import Console

        written = StringIO()
        self._print(Console(file=written, width=width, color_system=None))
        return written.getvalue()

    def _print(self, console: Console) -> None:
        tight = sum(self._widths(gap=3)) > console.width
        if tight and self.optional:
            self._needed()._print(console)
            return
        for number, band in enumerate(self._bands(console.width) if tight else [range(len(self.columns))]):
            console.print(self._drawn(band, tight=tight, title=self.title if number == 0 else ""))

    def _needed(self) -> Table:
        """The table without its optional columns."""
        last = len(self.columns) - self.optional
        return Table(self.columns[:last], self.title, [row[:last] for row in self.rows])

    def _drawn(self, band: Sequence[int], *, tight: bool, title: str) -> RichTable:
        """Some of the columns."""
        from rich import box
        from rich.table import Table as RichTable

        drawn = RichTable(
            title=title or None,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_edge=not tight,
            padding=(0, 0) if tight else (0, 1),
        )
        for position in band:
            numeric = self._numeric(position)
            name = "\n".join(self._header(position)) if tight else self.columns[position]
            drawn.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in self.rows:
            drawn.add_row(*(_escaped(written(row[position])) for position in band))
        return drawn

    def _bands(self, width: int) -> list[list[int]]:
        """Columns that fit side by side, each band beginning with the first column."""
        widths = self._widths(gap=1, tight=True)
        bands, left = [[0]], width - widths[0]
        for position, needed in enumerate(widths[1:], start=1):
            if needed > left and len(bands[-1]) > 1:
                bands.append([0])
                left = width - widths[0]
            bands[-1].append(position)
            left -= needed
        return bands

    def _header(self, position: int) -> list[str]:
        """The lines of a column's name where there is little room."""
        name = self.columns[position]
        return name.replace("-", "-\n").replace("+", "\n+").split("\n") if self._numeric(position) else [name]

    def markdown(self) -> str:
        """The table in Markdown."""
        rule = ["---:" if self._numeric(position) else "---" for position in range(len(self.columns))]
        lines = [
            self.columns,
            rule,
            *([written(cell).replace("|", "\\|") for cell in row] for row in self.rows),
        ]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def _widths(self, gap: int, *, tight: bool = False) -> list[int]:
        """How many characters each column takes, with a gap to the next."""
        names = [self._header(position) if tight else [name] for position, name in enumerate(self.columns)]
        cells = [[written(row[position]) for row in self.rows] for position in range(len(self.columns))]
        return [gap + max(map(len, [*name, *column])) for name, column in zip(names, cells, strict=True)]

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
