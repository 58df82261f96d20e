"""Small stages run in processes of their own: one that is killed on its way, or several together."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from genius.train import distributed
from genius.train.loop import LoopSettings, Stage, train

Run = Callable[[Path], dict[str, torch.Tensor]]
"""Trains a stage in a folder; returns its weights."""
ROOT = Path(__file__).parents[2]


def losses(folder: Path) -> list[float]:
    """The loss of every step, by the log."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def run_and_kill(module: str, *paths: Path, step: int = 11, prepare: str = "") -> int:
    """Run a module's `run(*paths)` in a process that kills itself once its log has reached a step, if it gets
    there; returns how it ended. `prepare` is code that runs before."""
    code = f"""
import os, signal, torch
from genius.train import journal
write = journal.Journal.write
def killing(self, *, step, **values):
    write(self, step=step, **values)
    if step >= {step}:
        os.kill(os.getpid(), signal.SIGKILL)
journal.Journal.write = killing
from pathlib import Path
{prepare}
from {module} import run
run(*map(Path, {[str(path) for path in paths]!r}))
"""
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=False).returncode


def run_alone_and_together(module: str, folder: Path) -> None:
    """Run a module by one process into `folder/alone`, and by two into `folder/together`."""
    program = ["-m", module]
    subprocess.run([sys.executable, *program, str(folder / "alone")], check=True, cwd=ROOT, timeout=120)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    subprocess.run([*launcher, *program, str(folder / "together")], check=True, cwd=ROOT, timeout=120)


def train_small(stage: Stage, settings: LoopSettings, folder: Path) -> dict[str, torch.Tensor]:
    """Train a stage; returns its weights."""
    train(stage, settings, folder, seed=5)
    return stage.network.state_dict()


def run_as_program(run: Callable[[Path], object]) -> None:
    """Run a stage in the folder that the command line names; torchrun may have started several processes."""
    distributed.init()
    torch.set_num_threads(1)
    run(Path(sys.argv[1]))


def assert_resumes(module: str, run: Run, folder: Path) -> None:
    """Killed on its way and run again, the module's stage takes the steps of an uninterrupted run.

    (With one thread, as `run` is to have it, too.)
    """
    expected = run(folder / "unbroken")
    ended = run_and_kill(module, folder / "broken", prepare="torch.set_num_threads(1)")
    assert ended == -signal.SIGKILL
    resumed = run(folder / "broken")
    assert losses(folder / "broken") == pytest.approx(losses(folder / "unbroken"), rel=1e-5)
    assert all(torch.allclose(resumed[name], value, atol=1e-5) for name, value in expected.items())


def assert_same_together(module: str, folder: Path, *, weights: str, tolerance: float) -> None:
    """Two processes take the steps of one: equal losses, equal weights whose names match a pattern."""
    run_alone_and_together(module, folder)
    assert losses(folder / "together") == pytest.approx(losses(folder / "alone"), rel=1e-3)
    alone, together = (load_file(folder / name / "last/state.safetensors") for name in ("alone", "together"))
    names = [name for name in alone if re.fullmatch(weights, name)]
    assert names
    assert all(torch.allclose(alone[name], together[name], atol=tolerance) for name in names)
