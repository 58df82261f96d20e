from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("onnx")
pytest.importorskip("threadpoolctl")

from genius.bench.speed import SpeedSettings
from genius.bench.workers import measure_throughput, table


@pytest.mark.slow
def test_a_worker_answers_queries_from_the_files_that_were_written() -> None:
    settings = SpeedSettings(items=(400,), width=16, queries=4, paper_sizes=False)
    (measured,) = measure_throughput(settings, workers=1, seconds=0.2, modes=("fast",), batch_size=2)
    assert (measured.system, measured.n, measured.workers) == ("fast int8 Q=2", 400, 1)
    assert measured.queries_per_second > 1
    assert measured.cores_used > 0
    assert len(table([measured]).rows) == 1
