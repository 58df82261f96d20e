from __future__ import annotations

import pytest

pytest.importorskip("faiss")

from genius.bench.storage import measure_storage


def test_bytes_per_item_are_those_of_files() -> None:
    forms = {form.form: form.bytes_per_item for form in measure_storage(1000, width=16, graph_items=500)}
    assert forms["codes, packed to the bit"] == pytest.approx(12.25, abs=0.01)
    searchable = forms["searchable codes (no tree needed)"]
    assert searchable < 13.1
    assert forms["embeddings, float32"] == pytest.approx(64, abs=1)
    # norms 4, int8 embeddings 16, float16 embeddings 32, item keys 4
    whole_index = forms["a whole index: the same, float16 embeddings and item keys"]
    assert whole_index == pytest.approx(searchable + 56, abs=1)
    assert forms["HNSW of float32 (faiss)"] > forms["HNSW of int8 (faiss)"] > forms["embeddings, int8"]
