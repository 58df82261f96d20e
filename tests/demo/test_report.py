from __future__ import annotations

from pathlib import Path

import pytest

from genius.demo import report
from genius.model import Model


def test_a_model_is_measured_once(
    coded_model: Path, miniature: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[str] = []

    def measure(tree: Path, model: Model, out: Path, cache: Path) -> str:
        measured.append(model.fingerprint)
        return "as good as it gets\n"

    monkeypatch.setattr(report, "_measure", measure)
    model = Model.open(coded_model)

    def reported() -> str:
        return report.report(miniature, model, tmp_path, cache=tmp_path)

    assert reported() == "as good as it gets\n"
    assert reported().startswith("as good as it gets\n(As measured before")
    assert measured == [model.fingerprint]
    model.fingerprint = "that of another model"
    assert reported() == "as good as it gets\n"
    (tmp_path / "report" / "report.txt").write_text("altered", encoding="utf-8")
    assert reported() == "as good as it gets\n"
    assert len(measured) == 3
