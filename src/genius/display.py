"""Tables for people, on the terminal and in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

Cell = str | int | float | None
MIN_TEXT = 12
"""So many letters of a text are shown, however narrow the terminal is."""
DASH = "–"
"""A cell for a number that is not there."""


@dataclass
class Table:
    """Rows under column names; numbers are aligned right, texts left.

    Attributes:
        columns: the names of the columns; they may have several lines.
        title: a line above the table.
        rows: the cells, row by row.
        optional: how many of the last columns are left out on a terminal that is too narrow for them.
        decimals: of numbers that are not whole.
        elastic: the position of a column of texts that are shortened on a terminal that is too narrow.
    """

    columns: Sequence[str]
    title: str = ""
    rows: list[Sequence[Cell]] = field(default_factory=list)
    optional: int = 0
    decimals: int = 2
    elastic: int | None = None

    def add(self, *cells: Cell) -> None:
        """Add a row."""
        self.rows.append(cells)

    def print(self) -> None:
        """Print the table; one that is wider than the terminal, in bands of columns."""
        from rich.console import Console

        self._print(Console())

    def text(self, width: int) -> str:
        """The table as `print` shows it on a terminal of this width, without colours."""
        from io import StringIO

        from rich.console import Console

        output = StringIO()
        self._print(Console(file=output, width=width, color_system=None))
        return output.getvalue()

    def _print(self, console: Console) -> None:
        tight = 1 + sum(self._widths(gap=3)) > console.width
        if tight and self.optional:
            self._without_optional()._print(console)
            return
        if tight and self.elastic is not None:
            self._shortened(self.elastic, console.width)._print(console)
            return
        for number, band in enumerate(self._bands(console.width) if tight else [range(len(self.columns))]):
            console.print(self._rich_table(band, tight=tight, title=self.title if number == 0 else ""))

    def _without_optional(self) -> Table:
        last = len(self.columns) - self.optional
        rows = [row[:last] for row in self.rows]
        return Table(self.columns[:last], self.title, rows, decimals=self.decimals, elastic=self.elastic)

    def _shortened(self, position: int, width: int) -> Table:
        """The same with texts of a column so short that all columns fit side by side, if that is possible."""
        widths = self._widths(gap=3)
        room = max(MIN_TEXT, width - 1 - sum(widths) + widths[position] - 3)
        rows: list[list[Cell]] = [list(row) for row in self.rows]
        for row in rows:
            row[position] = shortened(self._shown(row[position]), room)
        return Table(self.columns, self.title, [*rows], decimals=self.decimals)

    def _rich_table(self, band: Sequence[int], *, tight: bool, title: str) -> RichTable:
        """The columns at these positions, for rich to draw."""
        from rich import box
        from rich.markup import escape
        from rich.table import Table as RichTable

        table = RichTable(
            title=title or None,
            title_justify="left",
            box=box.SIMPLE_HEAD,
            show_edge=not tight,
            padding=(0, 0) if tight else (0, 1),
        )
        for position in band:
            numeric = self._numeric(position)
            name = "\n".join(self._header(position)) if tight else self.columns[position]
            table.add_column(name, justify="right" if numeric else "left", overflow="fold")
        for row in self.rows:
            table.add_row(*(escape(self._shown(row[position])) for position in band))
        return table

    def _bands(self, width: int) -> list[list[int]]:
        """The positions of columns that fit side by side; each band begins with the first column."""
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
        """A column's name, broken into lines to save room."""
        name = self.columns[position]
        return name.replace("-", "-\n").replace("+", "\n+").split("\n") if self._numeric(position) else [name]

    def markdown(self) -> str:
        """The table as Markdown."""
        rule = ["---:" if self._numeric(position) else "---" for position in range(len(self.columns))]
        lines = [
            [name.replace("\n", " ") for name in self.columns],
            rule,
            *([self._shown(cell).replace("|", "\\|") for cell in row] for row in self.rows),
        ]
        return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"

    def _widths(self, gap: int, *, tight: bool = False) -> list[int]:
        """The width of each column in characters, with the gap to the next."""
        names = [
            self._header(position) if tight else name.split("\n")
            for position, name in enumerate(self.columns)
        ]
        cells = [[self._shown(row[position]) for row in self.rows] for position in range(len(self.columns))]
        return [gap + max(map(len, [*name, *column])) for name, column in zip(names, cells, strict=True)]

    def _numeric(self, position: int) -> bool:
        cells = [row[position] for row in self.rows if row[position] not in (None, DASH)]
        return bool(cells) and all(isinstance(cell, int | float) for cell in cells)

    def _shown(self, cell: Cell) -> str:
        """A cell as text: thousands separated, an empty text for None."""
        if cell is None:
            return ""
        if isinstance(cell, float):
            return f"{cell:,.{self.decimals}f}"
        return f"{cell:,}" if isinstance(cell, int) else cell


def size(count: int) -> str:
    """A number of bytes, for people to read.

    >>> size(1_234_567)
    '1.2 MB'
    """
    value = float(count)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 1000:
            return f"{value:,.0f} {unit}" if unit == "bytes" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"


def shortened(text: str | None, letters: int = 70) -> str:
    """A text on one line, of at most `letters` characters."""
    line = " ".join((text or "").split())
    return line if len(line) <= letters else line[: letters - 1] + "…"


def numbered(count: int, noun: str) -> str:
    """A count with its noun, which takes an s for its plural.

    >>> numbered(1, "item"), numbered(2000, "item")
    ('1 item', '2,000 items')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
