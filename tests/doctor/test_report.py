from __future__ import annotations

import orjson
import pytest

from genius.display import Table
from genius.doctor.report import as_json, tables
from genius.doctor.verdict import judge
from tests.doctor.figures import GOOD


def row(table: Table, name: str) -> list[object]:
    return next(list(cells) for cells in table.rows if cells[0] == name)


def test_tables_hold_the_figures() -> None:
    recall, survival, agreement, use, sharing, modality_codes = tables(GOOD)
    assert row(recall, "mean")[1:] == pytest.approx([500, 50.0, 50.0, 49.0, 0.98, 80.0])
    assert row(survival, "given")[1:] == pytest.approx([100, 98, 70])
    assert row(agreement, "image and caption, matched")[1:3] == pytest.approx([50, 20])
    assert row(use, "1 (modality)")[1] == 3
    assert row(sharing, "contents with a code of their own")[1] == "99.50 %"
    assert row(modality_codes, "1") == ["1", 0, 500, 0, "text"]
    for table in tables(GOOD):
        assert table.markdown().count("\n") == len(table.rows) + 2


def test_json_holds_the_figures() -> None:
    figures = orjson.loads(orjson.dumps(as_json(GOOD, judge(GOOD))))
    assert figures["verdict"]["state"] == "healthy"
    assert figures["recall"]["codes"] == {"mean": 0.49, "made_task0": 0.49}
    assert figures["survival"]["modality_given"]["mean"] == [1.0, 0.98, 0.7]
    assert figures["levels"][1]["size"] == 256
    assert figures["buckets"]["by_modality"][0] == {"modality": "image", "items": 500, "colliding": 5}
