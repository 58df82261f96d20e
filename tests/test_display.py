from __future__ import annotations

import pytest

from genius.display import Table, size


def evaluation() -> Table:
    systems = ["dense", "dense-fair", "dense-z", "codes", "geometry", "geometry+rerank", "cells"]
    table = Table(["task", "queries", *systems], "hit rate")
    for task in ("emoji_task0", "fluent_task0", "mean"):
        table.add(task, 8728, *[64.19] * len(systems))
    return table


def test_many_columns_of_numbers_fit_a_narrow_terminal_in_one_piece(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    evaluation().print()
    lines = [line for line in capsys.readouterr().out.splitlines() if "fluent_task0" in line]
    assert lines[0].split() == ["fluent_task0", "8,728", *["64.19"] * 7]


def test_more_columns_than_a_terminal_holds_are_shown_in_bands(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    evaluation().print()
    shown = capsys.readouterr().out.splitlines()
    assert max(map(len, shown)) <= 40
    lines = [line.split() for line in shown if "fluent_task0" in line]
    assert len(lines) > 1
    assert [cell for line in lines for cell in line[1:]] == ["8,728", *["64.19"] * 7]


def test_optional_columns_are_left_out_where_there_is_no_room() -> None:
    table = Table(["rank", "item", "code"], optional=1)
    table.add(1, "a red square", "0 380 15 439 295")
    assert "380" in table.text(60)
    assert "a red square" in table.text(30)
    assert "380" not in table.text(30) and "code" not in table.text(30)


def test_texts_of_an_elastic_column_are_shortened_where_there_is_no_room() -> None:
    table = Table(["album", "items", "albums within", "coherence"], optional=1, elastic=2)
    table.add("Animals", 1200, "Dogs, cats, horses, birds and penguins", "0.91")
    table.add("Food", 3, "", "0.84")
    assert "penguins" in table.text(80) and "0.91" in table.text(80)
    text = table.text(40)
    assert max(map(len, text.splitlines())) <= 40
    assert "Dogs, cats, horse…" in text and "0.91" not in text
    assert len([line for line in text.splitlines() if line.strip()]) == 4  # in one piece


def test_a_wide_terminal_shows_names_whole(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    evaluation().print()
    assert "geometry+rerank" in capsys.readouterr().out


def test_markdown_sets_numbers_right_and_escapes_bars() -> None:
    table = Table(["name", "count"])
    table.add("a|b", 1234)
    assert table.markdown() == "| name | count |\n| --- | ---: |\n| a\\|b | 1,234 |\n"


def test_a_table_in_markdown() -> None:
    table = Table(("task", "hits", "share"))
    table.add("a|b", 1234, 0.5)
    table.add("c", None, 1.0)
    assert (
        table.markdown()
        == "| task | hits | share |\n| --- | ---: | ---: |\n| a\\|b | 1,234 | 0.50 |\n| c |  | 1.00 |\n"
    )


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (5.6e9, "5.6 GB"), (2e15, "2,000.0 TB")],
)
def test_sizes(count: float, text: str) -> None:
    assert size(int(count)) == text
