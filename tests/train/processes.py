"""Small stages run in processes of their own: one that is killed on its way, or several together."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def losses(folder: Path) -> list[float]:
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
