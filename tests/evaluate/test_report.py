from __future__ import annotations

from genius.evaluate.protocol import Evaluation, Measurement
from genius.evaluate.report import table


def _evaluation(means: dict[str, float]) -> Evaluation:
    rows = [
        Measurement(system, "union", task, metric, value, 10)
        for system, value in means.items()
        for task, metric in (("flickr_task0", "hit@5"), ("mean", "headline"))
    ]
    return Evaluation(rows)


def test_the_last_row_is_the_share_of_the_dense_baseline() -> None:
    shown = table(_evaluation({"dense-fair": 0.5, "geometry": 0.4}), "union")
    assert [list(row) for row in shown.rows] == [
        ["flickr_task0", 10, 50.0, 40.0],
        ["mean", 10, 50.0, 40.0],
        ["% of dense-fair", None, 100.0, 80.0],
    ]


def test_there_is_no_share_of_nothing() -> None:
    for means in ({"dense-fair": 0.0, "geometry": 0.4}, {"geometry": 0.4}):
        rows = table(_evaluation(means), "union").rows
        assert [row[0] for row in rows] == ["flickr_task0", "mean"]
