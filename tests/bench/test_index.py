from __future__ import annotations

import pytest

from genius.bench.index import measure_build, table


def test_a_segment_is_built_and_opened() -> None:
    build = measure_build(1000, width=16)
    assert build.n == 1000
    assert build.bytes_per_item == pytest.approx(12.02, abs=0.01)
    assert build.disk_per_item > build.bytes_per_item + 3 * 16  # embeddings in 8 and in 16 bits
    assert min(build.pack_s, build.write_s, build.open_s, build.peak) > 0
    assert len(table([build]).rows) == 1
