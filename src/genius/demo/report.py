"""The report of the demo: what measuring its model says, as text that is kept with the figures."""

from __future__ import annotations

from pathlib import Path

from genius import storage
from genius.data.mbeir import Tree
from genius.data.tasks import Task
from genius.demo.naming import name_images
from genius.doctor.examine import examine
from genius.doctor.report import write_report_images
from genius.errors import GeniusError
from genius.evaluate.report import table, write_results
from genius.evaluate.run import evaluate_model
from genius.model import Model

KIND = "report"
FORMAT = 1
_FILE = "report.txt"
_NAMING_TASK = Task("emoji", 3)
_WIDTH = 100
"""Of the tables: the report is kept and shown again on terminals of any width."""


def report(tree: Path, model: Model, out: Path, *, cache: Path) -> str:
    """The report on a model; an unchanged model on unchanged data is not measured again.

    Figures and sheets are written into folders of `out`, the report beside them; `cache` is that of features.
    """
    path, made_from = out / "report", {"model": model.fingerprint, "tree": tree.name}
    try:
        kept = storage.open(path, kind=KIND, format=FORMAT)
        if kept.manifest.made_from == made_from:
            text = kept.file(_FILE).read_text(encoding="utf-8")
            return f"{text}(As measured before: neither the model nor the data have changed.)"
    except GeniusError:
        pass  # there is none, or it is damaged
    text = _measure(tree, model, out, cache)
    with storage.create(path, kind=KIND, format=FORMAT, settings={}, made_from=made_from) as draft:
        (draft.folder / _FILE).write_text(text, encoding="utf-8")
    return text


def _measure(tree: Path, model: Model, out: Path, cache: Path) -> str:
    return _evaluate(tree, model, out, cache) + _name(tree, model) + _diagnose(tree, model, out, cache)


def _evaluate(tree: Path, model: Model, out: Path, cache: Path) -> str:
    """Evaluate all test tasks; figures, runs and a plot are written into a folder."""
    result = evaluate_model(tree, model.path, split="test", cache=cache)
    write_results(out / "results", result)
    return "".join(table(result.evaluation, pool).text(_WIDTH) for pool in ("local", "union"))


def _name(tree: Path, model: Model) -> str:
    """Name a few test images, for people to check."""
    named = name_images(model, Tree(tree), _NAMING_TASK)
    lines = [
        f"  {'right' if image.right else 'WRONG'}  {image.query.image.name if image.query.image else ''}: "
        f"{image.nearest}\n"
        for image in named
    ]
    right = sum(image.right for image in named)
    return (
        f"{''.join(lines)}{right} of {len(named)} pictures of families never seen in training are nearest "
        "to their own name.\n"
    )


def _diagnose(tree: Path, model: Model, out: Path, cache: Path) -> str:
    """Examine the codes as `genius doctor` does; plots and sheets are written into a folder."""
    examination = examine(Tree(tree), model, cache=cache, split="test")
    verdict = examination.verdict
    reasons = "".join(f"  because: {reason.finding}\n" for reason in verdict.reasons)
    sheets = [
        path for path in write_report_images(examination, out / "doctor") if path.parent.name == "codes"
    ]
    return (
        f"The doctor says: {verdict.summary}\n{reasons}"
        f"Items that share a code: {sheets[0]} "
        f"(and more beside it, a map and plots in {out / 'doctor'})\n"
    )
