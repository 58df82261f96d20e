from __future__ import annotations

from pathlib import Path

import pytest

from tools.systems_tables import BEGIN, END, TABLES, with_tables

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_tables_that_were_written_last() -> None:
    page = (ROOT / "docs" / "reproduce.md").read_text("utf-8")
    assert page == with_tables(page, TABLES.read_text("utf-8")), "run: make pages"


def test_only_what_is_between_the_marks_is_replaced() -> None:
    page = f"before\n{BEGIN}\n\n| old |\n\n{END}\nafter\n"
    assert with_tables(page, "| new |\n") == f"before\n{BEGIN}\n\n| new |\n\n{END}\nafter\n"


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="no lines"):
        with_tables("a page", "| new |")
